"""A scripted sequence of calls through real decorated tools and a real run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import attrs

from repeatguard_sdk._call import CallDecision
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Registry
from repeatguard_sdk._run import Run
from repeatguard_sdk._scripted import ToolFailure, is_transient_text, scripted_error
from repeatguard_sdk._tool import guarded_tool
from repeatguard_sdk._types import MISSING, Decision, Mode, is_mapping
from repeatguard_sdk.exceptions import RepeatedFailure, ScenarioError, ToolDeclarationError
from repeatguard_sdk.sinks.memory import MemorySink

__all__ = ["PlayedCall", "ToolFailure", "is_transient_text", "play", "scripted_error"]

_EVENTS = ("user_message", "compaction", "auto_continue", "external_change", "progress")
_STEP_FIELDS = frozenset({"tool", "args", "result", "error", "turn", "call_id", "run", "refused"})
_EVENT_FIELDS = frozenset({"event", "text", "run", "turn"})
_DECLARATION_FIELDS = frozenset(
    {
        "case_fold",
        "money_fields",
        "fields",
        "effect",
        "repeatable",
        "volatile",
        "empty",
        "max_calls",
        "slot",
        "option",
        "mode",
    }
)


@attrs.frozen(kw_only=True)
class PlayedCall:
    """What became of one call of a scenario.

    Attributes:
        decision: execute, replay, join, refuse or exit.
        executed: whether the tool's body ran.
        returned: what the caller got, `None` if it got nothing.
        error: text of what it raised, or `None`.
        observation: the text for the model, or `None`.
        finding: the detector's name, or `None`.
        value: the decision in full; `None` for a call after the end of its run.
    """

    decision: Decision
    executed: bool
    returned: Any = None
    error: str | None = None
    observation: str | None = None
    finding: str | None = None
    value: CallDecision | None = attrs.field(default=None, repr=False)

    def __getitem__(self, name: str) -> Any:
        """Return an attribute by name, for tables of expectations: ``played["decision"]``."""
        return getattr(self, name)


def play(scenario: Mapping[str, Any], policy: Policy | None = None) -> list[PlayedCall]:
    """Walk a scenario and return what became of each of its calls, in order.

    Each name under ``tools`` becomes one decorated tool whose body returns or raises what the
    step says; each ``run`` of the steps a run of its own. A step without ``turn`` is a turn of
    its own. An error whose text names a time-out, a connection, 429, 502, 503 or 504 is raised as
    a transient type.

    A tool is declared by ``case_fold``, ``money_fields``, ``fields``, ``effect``, ``repeatable``,
    ``volatile``, ``empty``, ``max_calls``, ``slot``, ``option`` or ``mode``, as in `guarded_tool`.

    A step is a call or an event. The fields of a call:

    - ``tool``: the name of one of the tools.
    - ``args``: name to value, none by default.
    - ``result`` or ``error`` (a text): what its body returns or raises if it runs.
    - ``turn``: calls in a row with an equal one are one turn.
    - ``call_id``: the provider's id; the same one again is a redelivery.
    - ``run``: the name of its run.
    - ``refused``: "denied", or anything true: it never reaches its tool; `error` says why.

    Those of an event: ``event`` is ``"user_message"`` (with an optional ``text``),
    ``"compaction"``, ``"external_change"``, ``"progress"``, or ``"auto_continue"``, which changes
    nothing; ``run`` is the one that is told, by default each one that has begun.

    Args:
        scenario: ``tools`` (name to keyword arguments of `guarded_tool`), ``steps`` and
            optionally ``mode``.
        policy: default: `Policy()` in the scenario's mode.

    Raises:
        ScenarioError: a part that is missing, unknown or of the wrong kind, with its place.

    Example:
        >>> step = {"tool": "look_up", "args": {"word": "loop"}, "result": "no entry"}
        >>> steps = [step, step, {"event": "user_message"}, step]
        >>> played = play({"tools": {"look_up": {"effect": "read"}}, "steps": steps})
        >>> [call.decision for call in played]
        ['execute', 'replay', 'execute']
    """
    _check(scenario)
    return _Stage(scenario, policy).play()


class _Stage:
    """The tools of one scenario, its runs, and the step that is being played."""

    def __init__(self, scenario: Mapping[str, Any], policy: Policy | None) -> None:
        mode: Mode = scenario.get("mode", "enforce")
        self._policy = policy or Policy(mode=mode)
        self._steps = scenario["steps"]
        self._registry = Registry()
        self._step: Mapping[str, Any] = {}
        self._ran = False
        for name, declaration in scenario["tools"].items():
            # A blank name is one that a model wrote; no tool can have it.
            if name.strip():
                self._declare(name, declaration)
        self._events = MemorySink()
        self._runs: dict[str, Run] = {}
        self._turns: dict[str, Any] = {}

    def _declare(self, name: str, declaration: Mapping[str, Any]) -> None:
        def body(**arguments: Any) -> Any:
            self._ran = True
            if "error" in self._step:
                raise scripted_error(self._step["error"])
            return self._step.get("result")

        body.__doc__ = f"{name}."
        decorate: Callable[..., Any] = guarded_tool
        try:
            decorate(name=name, registry=self._registry, **declaration)(body)
        except ToolDeclarationError as error:
            msg = f"not a scenario: tools[{name!r}]: {error}"
            raise ScenarioError(msg) from error

    def play(self) -> list[PlayedCall]:
        played: list[PlayedCall] = []
        try:
            for step in self._steps:
                if "event" in step:
                    self._tell(step)
                else:
                    played.append(self._call(step))
        finally:
            for run in self._runs.values():
                if run.outcome is None:
                    run.__exit__(None, None, None)
        for warning in self._events.warnings:
            if warning.fault is not None:
                # A live run lets such a call through; a test must not.
                raise warning.fault
        return played

    def _run(self, name: str) -> Run:
        run = self._runs.get(name)
        if run is None:
            run = self._runs[name] = Run(
                policy=self._policy, registry=self._registry, events=self._events
            )
            run.__enter__()
        return run

    def _tell(self, step: Mapping[str, Any]) -> None:
        event = step["event"]
        runs = [self._run(step["run"])] if "run" in step else list(self._runs.values())
        for run in runs:
            if run.over:
                continue
            if event == "user_message":
                run.user_message(step.get("text", ""))
            elif event == "compaction":
                run.compacted()
            elif event in ("external_change", "progress"):
                run.progress()

    def _call(self, step: Mapping[str, Any]) -> PlayedCall:
        name = str(step.get("run", ""))
        run = self._run(name)
        if run.over:
            return PlayedCall(decision="exit", executed=False)
        if "turn" not in step or self._turns.get(name, MISSING) != step["turn"]:
            self._open_turn(run)
            if run.over:
                return PlayedCall(decision="exit", executed=False)
        self._turns[name] = step.get("turn", MISSING)
        self._step, self._ran = step, False
        returned, error = self._act(run, step)
        value = run.last_decision
        if value is None:
            # The mode is off: nothing was decided.
            return PlayedCall(
                decision="execute", executed=self._ran, returned=returned, error=error
            )
        return PlayedCall(
            decision=value.decision,
            executed=self._ran,
            returned=returned,
            error=error,
            observation=None if value.observation is None else value.observation.text,
            finding=None if value.finding is None else value.finding.kind,
            value=value,
        )

    def _open_turn(self, run: Run) -> None:
        try:
            run.turn()
        except BaseException as signal:
            if not run.__exit__(type(signal), signal, None):
                raise

    def _act(self, run: Run, step: Mapping[str, Any]) -> tuple[Any, str | None]:
        arguments: Mapping[str, Any] = step.get("args") or {}
        try:
            if step.get("refused"):
                reason = step.get("error") or str(step["refused"])
                run.refused(step["tool"], arguments, reason, denied=step["refused"] == "denied")
                return None, reason
            return run.dispatch(step["tool"], arguments, step.get("call_id")), None
        except (ToolFailure, ConnectionError, RepeatedFailure) as error:
            return None, str(error)
        except BaseException as signal:
            # Only the exit of this very run ends here, as it would at the end of its block.
            if not run.__exit__(type(signal), signal, None):
                raise
            return None, None


def _check(given: Any) -> None:
    if not isinstance(given, Mapping):
        _reject(f"a scenario is a mapping, not {type(given).__name__}")
    scenario = cast("Mapping[str, Any]", given)
    for part, kind, shape in (("tools", Mapping, "mapping"), ("steps", Sequence, "list")):
        if not isinstance(scenario.get(part), kind) or isinstance(scenario.get(part), str):
            _reject(f"{part!r} must be a {shape}, not {scenario.get(part)!r}")
    for name, declaration in scenario["tools"].items():
        if not is_mapping(declaration):
            _reject(f"tools[{name!r}] must be the keyword arguments of guarded_tool")
        unknown = set(map(str, declaration)) - _DECLARATION_FIELDS
        if unknown:
            _reject(
                f"tools[{name!r}] has unknown {sorted(unknown)}; "
                f"allowed are {sorted(_DECLARATION_FIELDS)}"
            )
    for number, step in enumerate(scenario["steps"]):
        _check_step(f"steps[{number}]", step, scenario["tools"])


def _check_step(place: str, given: Any, tools: Mapping[str, Any]) -> None:
    if not isinstance(given, Mapping):
        _reject(f"{place} must be a mapping, not {given!r}")
    step = cast("Mapping[str, Any]", given)
    if "event" in step:
        if step["event"] not in _EVENTS:
            _reject(f"{place}: event {step['event']!r} is none of {', '.join(_EVENTS)}")
        unknown = set(step) - _EVENT_FIELDS
        if unknown:
            _reject(f"{place} has unknown {sorted(unknown)}; allowed are {sorted(_EVENT_FIELDS)}")
        return
    if step.get("tool") not in tools:
        _reject(f"{place}: tool {step.get('tool')!r} is none of {sorted(tools)}")
    unknown = set(step) - _STEP_FIELDS
    if unknown:
        _reject(f"{place} has unknown {sorted(unknown)}; allowed are {sorted(_STEP_FIELDS)}")
    if "result" in step and "error" in step:
        _reject(f"{place} has both a result and an error; a call comes to one of them")
    for name, kind in (("error", str), ("call_id", str)):
        if name in step and not isinstance(step[name], kind):
            _reject(f"{place}: {name} must be a text, not {step[name]!r}")
    if not isinstance(step.get("args") or {}, Mapping):
        _reject(f"{place}: args must be a mapping, not {step['args']!r}")


def _reject(what: str) -> NoReturn:
    msg = f"not a scenario: {what}"
    raise ScenarioError(msg)
