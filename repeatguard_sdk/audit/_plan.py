"""A stretch of a recorded run in its shortest form: calls and results replaced by names of their classes.

The guard looks at whether calls and results are equal, not at what they are. A call that differs from all
others of its tool, even by the coarsest identity, may so have any other arguments that differ, and a
result that is compared with none may be any other one that found something. Most calls of most runs are
such; what is not known to be one is left as it was recorded. `tests/audit/test_plan.py` holds the
verdicts of the short form against those of the run itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._recorded import Happening, RecordedCall, RecordedRun
from repeatguard_sdk.audit._screen import coarse, exact
from repeatguard_sdk.audit._tools import AuditTools
from repeatguard_sdk.detectors.same_outcome import is_empty

_FOUND_SOMETHING = 400  # characters; what found nothing says so in fewer
_EMPTY_LIST = re.compile(r"\[\s*\]")
_ANY_RESULT = "ok"
# What a character of a result may take at most, with what is kept beside it.
_BYTES = 8

Steps = Sequence[RecordedCall | Happening]


class PlannedCall:
    """One call as it is walked.

    Attributes:
        number: which call of the run, from 0.
        tool: the declaration.
        arguments: as they are given to the guard.
        result, error: what came of it.
        recorded: the call itself.
        alone: whether it differs from all others of its tool.
    """

    __slots__ = ("alone", "arguments", "error", "number", "recorded", "result", "tool")

    def __init__(
        self,
        number: int,
        tool: Tool,
        arguments: Mapping[str, Any] | str,
        result: Any,
        error: str | None,
        recorded: RecordedCall,
        alone: bool,
    ) -> None:
        self.number = number
        self.tool = tool
        self.arguments = arguments
        self.result = result
        self.error = error
        self.recorded = recorded
        self.alone = alone


PlannedStep = PlannedCall | Happening


class Stretch:
    """Steps of one run that no rule of the guard looks beyond.

    Args:
        run: the run.
        start, end: its steps.
        first: number of the first call among them.
        tools: where tools are declared.
    """

    def __init__(
        self, run: RecordedRun, start: int, end: int, first: int, tools: AuditTools
    ) -> None:
        self.first = first
        self.steps: Steps = run.steps if end - start == len(run.steps) else run.steps[start:end]
        self._tools = tools
        self._calls: dict[str, list[RecordedCall]] = {}
        for step in self.steps:
            if not isinstance(step, str):
                made = self._calls.get(step.tool)
                if made is None:
                    self._calls[step.tool] = [step]
                else:
                    made.append(step)
        self._keys: dict[str, list[bytes | None]] = {}
        self._poor: dict[str, list[bool]] = {}
        self.is_quiet = all(self._finds_nothing(name, made) for name, made in self._calls.items())

    def planned(self, policy: Policy) -> list[PlannedStep]:
        """Return the steps as they are walked under a policy.

        They are in short where nothing of them is too big for it to keep: nothing of the short form is.
        """
        short = self._fits(policy)
        planners = {
            name: self._planner(name, made, short=short) for name, made in self._calls.items()
        }
        results: dict[str, str] = {}
        planned: list[PlannedStep] = []
        alike, number = False, self.first - 1
        for step in self.steps:
            if isinstance(step, str):
                planned.append(step)
                alike = False
                continue
            number += 1
            call = planners[step.tool].plan(step, number, results)
            # Of look-ups in a row that are compared with nothing, one parts what lies around them,
            # unless turns are counted.
            parts = call.alone and planners[step.tool].only_parts and policy.no_progress is None
            if not (parts and alike):
                planned.append(call)
            alike = parts
        return planned

    def _planner(self, name: str, made: Sequence[RecordedCall], *, short: bool) -> _Planner:
        tools = self._tools
        if not (short and tools.is_plain(name)):
            return _Planner(tools.find(name, made[0].effect, _names(made)), None, iter(()), False)
        classes, poor = self._classes(name, made), self._poor_ones(name, made)
        exactly = None
        if None in classes:
            exactly = tools.find(name, made[0].effect, _names(made))
        effect = tools.effect_of(name, made[0].effect)[0]
        stand_in = tools.stand_in(name, effect)
        only_parts = effect == "read" and True not in poor
        told = iter(list(zip(classes, poor, strict=True)))
        return _Planner(exactly, stand_in, told, only_parts)

    def _finds_nothing(self, name: str, made: Sequence[RecordedCall]) -> bool:
        """Tell whether no rule can find anything in the calls of one tool."""
        if len(made) == 1:
            return not _is_odd(made[0])
        if not self._tools.is_plain(name):
            return False
        keys = self._keys[name] = [_coarse(call) for call in made]
        if None in keys or len(set(keys)) < len(keys):
            return False
        # A row of two is the shortest that a policy can name.
        return sum(self._poor_ones(name, made)) < 2

    def _poor_ones(self, name: str, made: Sequence[RecordedCall]) -> list[bool]:
        """Return which calls of a tool failed or may have found nothing."""
        poor = self._poor.get(name)
        if poor is None:
            poor = self._poor[name] = [
                call.error is not None or may_be_empty(call.result) for call in made
            ]
        return poor

    def _classes(self, name: str, made: Sequence[RecordedCall]) -> list[tuple[str, bool] | None]:
        """Return for each call of a tool the name of its class, and whether it is alone in it.

        `None` stands for a call that has to be compared as it is.
        """
        keys = self._keys.get(name)
        if keys is None:
            keys = [_coarse(call) for call in made]
        if None in keys:
            # Any other call may be equal to that one.
            return [None] * len(made)
        members: dict[bytes | None, list[int]] = {}
        for number, key in enumerate(keys):
            members.setdefault(key, []).append(number)
        classes: list[tuple[str, bool] | None] = [None] * len(made)
        for label, numbers in enumerate(members.values()):
            alone = len(numbers) == 1
            if alone or len({exact(made[number].arguments) for number in numbers}) == 1:  # type: ignore[arg-type]
                for number in numbers:
                    classes[number] = (str(label), alone)
        return classes

    def _fits(self, policy: Policy) -> bool:
        sizes = [64 + _size(call.result) for made in self._calls.values() for call in made]
        return (
            max(sizes, default=0) * _BYTES < policy.max_result_bytes
            and sum(sizes) * _BYTES < policy.max_stored_bytes
            and len(sizes) < policy.max_entries
        )


class _Planner:
    """Plans the calls of one tool, in order.

    Args:
        exactly: the tool for calls that are compared as they are.
        stand_in: the tool for all others.
        told: of each call its class and whether it is alone in it, `None` for one that is compared
            as it is; and whether it failed or may have found nothing.
        only_parts: whether its calls, where they are alone, do nothing but lie between others.
    """

    __slots__ = ("_exactly", "_stand_in", "_told", "only_parts")

    def __init__(
        self,
        exactly: Tool | None,
        stand_in: Tool | None,
        told: Iterator[tuple[tuple[str, bool] | None, bool]],
        only_parts: bool,
    ) -> None:
        self._exactly = exactly
        self._stand_in = stand_in
        self._told = told
        self.only_parts = only_parts

    def plan(self, call: RecordedCall, number: int, results: dict[str, str]) -> PlannedCall:
        """Return a call as it is walked.

        Args:
            number: which call of the run it is.
            results: the names of results so far.
        """
        known, poor = next(self._told, (None, False))
        result = whole_result(call)
        if known is None or self._stand_in is None:
            assert self._exactly is not None
            exactly = self._exactly
            return PlannedCall(number, exactly, call.arguments, result, call.error, call, False)
        name, alone = known
        if not poor:
            if alone:
                result = _ANY_RESULT
            elif type(result) is str:
                result = results.setdefault(result, f"r{len(results)}")
        arguments = {"call": name}
        return PlannedCall(number, self._stand_in, arguments, result, call.error, call, alone)


def whole_result(call: RecordedCall) -> Any:
    """Return what stands for the whole result, where the transcript holds a part of it."""
    return f"{call.result}[{call.digest}]" if call.digest else call.result


def may_be_empty(result: Any) -> bool:
    """Tell whether a result may have found nothing, or is not known at all."""
    if result is MISSING:
        return True
    if type(result) is str and (len(result) > _FOUND_SOMETHING or _says_something(result)):
        return False
    return is_empty(result)


def _says_something(text: str) -> bool:
    """Tell of most texts, at a glance, that they found something."""
    first = text[:1]
    if first == "{":
        return '"' in text and ("[" not in text or _EMPTY_LIST.search(text) is None)
    return first.isalnum() and first not in "nNzZ0eE"


def _coarse(call: RecordedCall) -> bytes | None:
    arguments = call.arguments
    return None if call.refused or isinstance(arguments, str) else coarse(arguments)


def _is_odd(call: RecordedCall) -> bool:
    return call.refused or isinstance(call.arguments, str)


def _names(made: Sequence[RecordedCall]) -> frozenset[str]:
    """Return the names of all arguments that a tool was given."""
    names: set[str] = set()
    for call in made:
        if not isinstance(call.arguments, str):
            names.update(call.arguments)
    return frozenset(names)


def _size(result: Any) -> int:
    return len(result) if type(result) is str else len(repr(result))
