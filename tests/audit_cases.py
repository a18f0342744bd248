"""Recorded runs for the tests of the audit, and the same runs as scenarios for `play`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st

from repeatguard_sdk import Policy
from repeatguard_sdk.audit import RecordedCall, RecordedRun, RunAudit, audit_run
from repeatguard_sdk.testing import play

POLICIES = {
    "default": Policy(),
    "strict": Policy.strict(),
    "advisory": Policy.advisory(),
    "observe": Policy(mode="observe"),
    "advise": Policy(mode="advise"),
    "sharp": Policy(same_errors=2, same_empties=2, failures=2),
    "forgetful": Policy(max_result_bytes=60, max_entries=3),
    "idle": Policy(no_progress=Policy().known_effects),
}
_EVENTS = {
    "user_message": "user_message",
    "external_change": "external_change",
    "compaction": "compaction",
}


def as_scenario(
    run: RecordedRun, declared: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Return a recorded run as `play` takes it."""
    tools: dict[str, Any] = {}
    steps: list[dict[str, Any]] = []
    for step in run.steps:
        if isinstance(step, str):
            steps.append({"event": _EVENTS[step]})
            continue
        assert step.effect is not None
        tools.setdefault(step.tool, (declared or {}).get(step.tool) or {"effect": step.effect})
        came = {"error": step.error} if step.error is not None else {"result": step.result}
        if step.refused:
            came["refused"] = True
        if step.call_id is not None:
            came["call_id"] = step.call_id
        steps.append({"tool": step.tool, "args": step.arguments, "turn": step.turn, **came})
    return {"tools": tools, "steps": steps}


Line = tuple[int, str, str | None, bool]


def live(
    run: RecordedRun, policy: Policy, declared: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Line]:
    """Return what the guard decides about each call when it is played, up to the exit."""
    refused = [step.refused for step in run.steps if not isinstance(step, str)]
    lines: list[Line] = []
    for number, played in enumerate(play(as_scenario(run, declared), policy)):
        plain = played.decision == "execute" or (played.decision == "refuse" and refused[number])
        if played.finding is not None or not plain:
            lines.append((number, played.decision, played.finding, played.observation is not None))
        if played.decision == "exit":
            break
    return lines


def audited(audit: RunAudit) -> list[Line]:
    """Return the same of an audit."""
    return [(each.number, each.decision, each.finding, each.noted) for each in audit.verdicts]


def differing(
    runs: Iterable[RecordedRun],
    policy: Policy,
    declared: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[tuple[str, list[Line], list[Line]]]:
    """Return the runs whose audit is another one than what the live guard does."""
    found: list[tuple[str, list[Line], list[Line]]] = []
    for run in runs:
        one, other = live(run, policy, declared), audited(audit_run(run, declared, policy))
        if one != other:
            found.append((run.run_id, one, other))
    return found


# -- random runs: few values, so that calls meet -------------------------------------------------

_effects = {
    "look": "read",
    "find": "read",
    "save": "write",
    "shell": "unknown",
    "poll": "live",
    "question": "ask",
    "note": "bookkeeping",
    "submit": "final",
}
_argument = st.sampled_from(
    [
        *("a", "A", " a", "a b", "a  B", "a\nb", "A\tb", "é", "É", "a\\nb", "\x1f", "null", "1"),
        *(1, 1.0, 1.004, True, None, 2.5, ["a"], ["A"], {"k": 1.5}, {"k": None}, {}),
    ]
)
_arguments = st.dictionaries(st.sampled_from(["q", "n"]), _argument, max_size=2)
_result = st.sampled_from(
    [
        *("ok", "fine", "", "no results", "[]", '{"rows": []}', '{"rows": [1]}', "long " * 200),
        *("LONG " * 200, None, [], {}, {"a": [1]}, 7),
    ]
)
_error = st.sampled_from([*[None] * 6, "no such row", "bad cabin", "503 unavailable", "time-out 7"])


@st.composite
def recorded_runs(draw: st.DrawFn, max_steps: int = 14) -> RecordedRun:
    """Runs of all kinds of tools, with turns, failures, events, redelivered ids and refusals."""
    steps: list[Any] = []
    turn = 0
    for number in range(draw(st.integers(1, max_steps))):
        kind = draw(st.integers(0, 19))
        if kind == 0:
            steps.append("user_message")
        elif kind == 1:
            steps.append(draw(st.sampled_from(["external_change", "compaction"])))
        turn += draw(st.sampled_from([0, 1, 1, 1]))
        tool = draw(st.sampled_from(list(_effects)))
        steps.append(
            RecordedCall(
                tool,
                draw(_arguments),
                draw(_result),
                draw(_error),
                turn,
                call_id=draw(st.sampled_from([None, None, f"c{number}", "c1"])),
                effect=_effects[tool],  # type: ignore[arg-type]
                refused=False,
            )
        )
        if kind == 2:
            steps[-1] = steps[-1]._replace(refused=True, error="not allowed")
    return RecordedRun("random", steps)
