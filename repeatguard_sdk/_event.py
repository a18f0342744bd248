"""What happens in a run, as values: interventions, what followed, warnings, the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from repeatguard_sdk._types import (
    Decision,
    Effect,
    FindingKind,
    Mode,
    NextStep,
    Reason,
    SuspectedCause,
)


@attrs.frozen(kw_only=True)
class RepeatEvent:
    """One intervention, or in the softer modes the one that was not made.

    Attributes:
        run_id: the run.
        number: which intervention of the run, from 1.
        at: seconds, by the run's clock.
        call, turn: which call.
        call_id: the provider's id of it, if the host gave one.
        tool, effect: the tool's name, and what it was declared to do.
        arguments: names of the arguments; their values are kept nowhere.
        finding: the detector.
        decision: what was done.
        would: what ``enforce`` would have done.
        count: in the detector's unit.
        cause: a few plain words.
        key_digest, result_digest: hex, stable across processes; empty where there is no identity.
        preview: the result or error, at most 200 characters, quoted as data.
        failed: whether that is an error.
        suspected_cause: why it was repeated, by the rules of `SUSPECTED_CAUSES`; `None` where
            none of them holds.
        style: the style of the observation, empty if none was given.
        mode: the mode of the call.
        differed: in the softer modes, whether the result of the call differed from the
            one a replay would have served; `None` where that is not known.
        did: what the model did next; `None` until that is known, see `FollowUp`.
    """

    run_id: str
    number: int
    at: float
    call: int
    turn: int
    tool: str
    finding: FindingKind
    decision: Decision
    would: Decision
    count: int
    cause: str
    key_digest: str = ""
    result_digest: str = ""
    preview: str = ""
    style: str = ""
    mode: Mode = "enforce"
    differed: bool | None = None
    call_id: str | None = None
    effect: Effect = "unknown"
    arguments: tuple[str, ...] = ()
    failed: bool = False
    suspected_cause: SuspectedCause | None = None
    did: NextStep | None = None


@attrs.frozen(kw_only=True)
class FollowUp:
    """What the model did after an intervention, as soon as that is known.

    What counts is the next response that makes a call: calls of the same response were
    made before the model could read anything.

    Attributes:
        event: the intervention.
        did: "same_call" (for a cycle any call made before, for a row of failures the same tool),
            "other_call", "answered" (a user spoke next, or the run was completed), or "ended" (the run
            was stuck or failed).
    """

    event: RepeatEvent
    did: NextStep


@attrs.frozen(kw_only=True)
class GuardWarning:
    """Something a developer should mend: a call that cannot be compared, a fault of the guard.

    Attributes:
        run_id: the run.
        at: seconds, by the run's clock.
        tool: the tool's name; empty for a warning about the state given to `Run.turn`.
        what: what is wrong and, where it is known, what to write instead.
        fault: the exception, if the guard itself went wrong.
    """

    run_id: str
    at: float
    tool: str
    what: str
    fault: BaseException | None = attrs.field(default=None, eq=False)


@attrs.frozen(kw_only=True)
class RunRecord:
    """One run, at its end.

    Attributes:
        run_id: the run.
        started, ended: seconds, by the run's clock.
        calls: guarded calls, whatever was decided.
        turns: turns that were opened in it.
        executed, replayed, joined, refused: how many calls, by tool; tools without any are left out.
        events: interventions.
        reason: how it ended.
    """

    run_id: str
    started: float
    ended: float
    calls: int
    turns: int
    executed: Mapping[str, int]
    replayed: Mapping[str, int]
    joined: Mapping[str, int]
    refused: Mapping[str, int]
    events: int
    reason: Reason


Event = RepeatEvent | FollowUp | GuardWarning | RunRecord


class EventSink(Protocol):
    """Where events go. It is called outside the run's lock, possibly from many threads.

    A sink whose class has ``in_place = True`` is called at once, in the thread and the context
    of the call, and so has to be quick; any other one is called in a thread of its own.
    """

    def emit(self, event: Event, /) -> None:
        """Take one event; whatever this raises is dropped and counted."""
