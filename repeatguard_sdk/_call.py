"""Frozen values about one call: what the guard decided, and what it found."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import attrs

from repeatguard_sdk._types import Decision, FindingKind

BUDGET_SPENT = "budget spent"


def identical_cause(*, failed: bool) -> str:
    """Say in a few words what makes a call a repeat."""
    return "same failure again" if failed else "identical call"


@attrs.frozen(kw_only=True)
class Finding:
    """A detector's verdict about one call.

    Attributes:
        kind: which detector.
        count: how often, in the detector's own unit (calls, laps, turns, errors).
        cause: a few plain words for the event.
        tools: for a cycle: its tools in order.
    """

    kind: FindingKind
    count: int
    cause: str
    tools: tuple[str, ...] = ()


@functools.cache
def repeated(count: int, failed: bool) -> Finding:
    """Return the finding about an equal call; a value, so that most of them are one."""
    return Finding(kind="repeat", count=count, cause=identical_cause(failed=failed))


@attrs.frozen(kw_only=True)
class CallDecision:
    """What became of one guarded call.

    Attributes:
        call: its number in the run, from 1; under a `Memory`, in all runs on it.
        turn: the turn it belongs to, numbered likewise; 0 before the first `run.turn()`.
        tool: the tool's name.
        decision: execute, replay, join, refuse or exit.
        would: what ``enforce`` would have decided; differs from `decision` in the softer modes.
        executed: whether the tool ran.
        count: how many equal calls this makes, 1 for a first one; 0 for one that counts for nothing.
        finding: the detector's verdict, if any.
        observation: the text for the model, if any.
    """

    call: int
    turn: int
    tool: str
    decision: Decision
    would: Decision
    executed: bool
    count: int
    finding: Finding | None
    observation: Any | None


@attrs.frozen(kw_only=True)
class TriedCall:
    """One distinct call of a run and what came of it, for the summary.

    Attributes:
        tool: the tool's name.
        arguments: a clamped preview.
        call: number of its first call.
        count: how often it was asked for.
        result: a clamped preview of its result or error.
        failed: whether that was an error.
    """

    tool: str
    arguments: str
    call: int
    count: int
    result: str
    failed: bool

    def as_dict(self) -> Mapping[str, Any]:
        """Return the fields as a JSON-able dict."""
        return attrs.asdict(self)
