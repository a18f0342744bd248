"""Hypothesis strategies for events and records of runs, as a file of events may hold them."""

from __future__ import annotations

import re
from typing import Any, get_args

from hypothesis import strategies as st

from repeatguard_sdk._types import (
    Decision,
    Effect,
    FindingKind,
    Mode,
    NextStep,
    Reason,
    SuspectedCause,
)
from repeatguard_sdk.events import RepeatEvent, RunRecord

HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "' onmouseover='document.title=1",
    "</style><script>document.title='owned'</script>",
    "{{ 7 * 7 }}{% raw %}",
    "[bold red]not bold[/bold red][link=file:///etc/passwd]x[/link]",
    '=HYPERLINK("http://evil.example","click")',
    "+1-1",
    "@SUM(1)",
    "\tcmd|' /C calc'!A0",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "\u202egnp.exe\u202c\u2066\u2069",
    "zero\u200bwidth\ufeff\u200d",
    "line\nbreak\r\nand\x00null\x7f\x9b2J",
    "Z" + "\u0335" * 40,
    "x" * 3_000,
    "\ud800 alone",
)


# What must reach no terminal and no page: controls but the line break, and what turns or hides text.
CONTROLS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def _any_of(literal: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(get_args(literal))


texts = st.text(max_size=6) | st.sampled_from(HOSTILE)
names = st.sampled_from(["", "look", "write", "shell"]) | texts
moments = st.floats(0, 2e9) | st.sampled_from([0.0, 1.5e9, 1.5e9 + 86_400])
run_ids = st.sampled_from([f"run-{number}" for number in range(6)])

events = st.builds(
    RepeatEvent,
    run_id=run_ids,
    number=st.integers(1, 9),
    at=moments,
    call=st.integers(1, 99),
    turn=st.integers(0, 9),
    tool=names,
    finding=_any_of(FindingKind),
    decision=_any_of(Decision),
    would=_any_of(Decision),
    count=st.integers(1, 9),
    cause=texts,
    key_digest=st.sampled_from(["", "k1", "k2"]),
    result_digest=st.sampled_from(["", "r1", "r2"]),
    preview=texts,
    style=st.sampled_from(["", "options", "bare", "custom"]) | texts,
    mode=_any_of(Mode),
    differed=st.none() | st.booleans(),
    call_id=st.none() | texts,
    effect=_any_of(Effect),
    failed=st.booleans(),
    suspected_cause=st.none() | _any_of(SuspectedCause),
    did=st.none() | _any_of(NextStep),
)

_by_tool = st.dictionaries(names, st.integers(1, 20), max_size=3)


def _record(run_id: str, by_tool: list[dict[str, int]], at_the_end: int, **rest: Any) -> RunRecord:
    executed, replayed, joined, refused = by_tool
    return RunRecord(
        run_id=run_id,
        calls=sum(sum(done.values()) for done in by_tool) + at_the_end,
        executed=executed,
        replayed=replayed,
        joined=joined,
        refused=refused,
        **rest,
    )


records = st.builds(
    _record,
    run_ids,
    st.lists(_by_tool, min_size=4, max_size=4),
    st.integers(0, 3),
    started=moments,
    ended=moments,
    turns=st.integers(0, 30),
    events=st.integers(0, 9),
    reason=_any_of(Reason),
)


def hostile_events() -> list[RepeatEvent]:
    """Return events that hold each hostile text in each field that a tool, a model or a host writes."""
    findings = get_args(FindingKind)
    return [
        RepeatEvent(
            run_id=f"{number}{text}",
            number=number,
            at=1.7e9 + number * 86_400,
            call=1,
            turn=1,
            tool=text,
            finding=findings[number % len(findings)],
            decision="execute",
            would="replay",
            count=2,
            cause=text,
            key_digest=text,
            result_digest="" if number % 2 else text,
            preview=text,
            style=text if number % 3 else "",
            mode="advise",
            call_id=text,
            arguments=(text,),
            failed=bool(number % 2),
            did="same_call" if number % 2 else "other_call",
        )
        for number, text in enumerate(HOSTILE)
    ]
