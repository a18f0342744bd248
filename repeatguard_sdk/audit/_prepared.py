"""A recorded run cut where a person spoke, and walked where anything can be found in it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from repeatguard_sdk._policy import Policy
from repeatguard_sdk.audit._plan import Stretch
from repeatguard_sdk.audit._recorded import RecordedRun
from repeatguard_sdk.audit._run_audit import RunAudit, Verdict
from repeatguard_sdk.audit._tools import AuditTools
from repeatguard_sdk.audit._walk import Walk


class Prepared:
    """A recorded run made ready for any number of policies.

    Args:
        run: the run.
        tools: where its tools are declared.
    """

    def __init__(self, run: RecordedRun, tools: AuditTools) -> None:
        self._run = run
        self._tools = tools
        self._stretches: dict[_Part, Stretch] = {}
        self._spoken = False
        # A person's words end a part: there every count, row and stored result is cleared.
        self._parts: list[_Part] = []
        self._calls = calls = dict[str, int]()
        self._effects = effects = dict[str, tuple[str, str]]()
        ids: list[str] = []
        begin, first, number, plain = 0, 0, 0, True
        seen: set[str] = set()
        for place, step in enumerate(run.steps):
            if isinstance(step, str):
                if step == "user_message":
                    self._spoken = True
                    self._parts.append(_Part(begin, place, first, plain))
                    begin, first, plain = place, number, True
                    seen.clear()
                continue
            number += 1
            name = step.tool
            if name in seen or step.refused or isinstance(step.arguments, str):
                plain = False
            else:
                seen.add(name)
            if name in calls:
                calls[name] += 1
            else:
                calls[name] = 1
                effects[name] = tools.effect_of(name, step.effect)
            if step.call_id is not None:
                ids.append(step.call_id)
        self._parts.append(_Part(begin, len(run.steps), first, plain))
        self._number = number
        self._hands_over = any(effect == "final" for effect, _ in effects.values())
        self._shared_ids = _shared(ids) if ids else frozenset[str]()
        # What outlives a person's words: a redelivery, a budget, a known fact.
        self._binds = bool(self._shared_ids) or tools.any_binds(calls)

    def audit(self, policy: Policy) -> RunAudit:
        """Return what a policy would have done."""
        verdicts: list[Verdict] = []
        walk: Walk | None = None
        idle = policy.no_progress is not None
        whole = policy.whole_run or self._binds or idle
        for part in [_Part(0, len(self._run.steps), 0, False)] if whole else self._parts:
            if part.plain or (self._stretch(part).is_quiet and not (self._binds or idle)):
                if walk is not None:
                    walk.skip(self._run.steps[part.start : part.end], self._effects)
                continue
            if walk is None:
                walk = Walk(policy, self._shared_ids)
                if self._hands_over:
                    walk.skip(self._run.steps[: part.start], self._effects)
            verdicts += walk.verdicts(self._stretch(part).planned(policy))
            if walk.ended is not None:
                break
        ended = None if walk is None else walk.ended
        return RunAudit(
            run_id=self._run.run_id,
            line=self._run.line,
            calls=self._calls,
            effects=self._effects,
            walked=self._number if ended is None else verdicts[-1].number + 1,
            verdicts=verdicts,
            ended=ended,
            succeeded=self._run.succeeded,
            user_messages=self._spoken,
        )

    def _stretch(self, part: _Part) -> Stretch:
        found = self._stretches.get(part)
        if found is None:
            found = Stretch(self._run, part.start, part.end, part.first, self._tools)
            self._stretches[part] = found
        return found


class _Part(NamedTuple):
    """Steps of a run.

    Attributes:
        start, end: which steps.
        first: number of the first call among them.
        plain: whether no tool is called twice in it, so that nothing can be found.
    """

    start: int
    end: int
    first: int
    plain: bool


def _shared(ids: list[str]) -> frozenset[str]:
    if len(set(ids)) == len(ids):
        return frozenset()
    return frozenset(each for each, times in Counter(ids).items() if times > 1)
