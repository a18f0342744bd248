"""What happens in a run, as values, and the sinks they go to; no sink can break a run."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from repeatguard_sdk._types import Decision, FindingKind, Mode, Reason


@attrs.frozen(kw_only=True)
class RepeatEvent:
    """One intervention, or in the softer modes the one that was not made.

    Attributes:
        run_id: the run.
        at: seconds, by the run's clock.
        call, turn: which call.
        tool: the tool's name.
        finding: the detector.
        decision: what was done.
        would: what ``enforce`` would have done.
        count: in the detector's unit.
        cause: a few plain words.
        key_digest, result_digest: hex, stable across processes; empty where there is no identity.
        preview: the result or error, clamped and quoted as data.
        style: the style of the observation, empty if none was given.
        mode: the mode of the call.
        differed: in the softer modes, whether the result of the call differed from the
            one a replay would have served; `None` where that is not known.
    """

    run_id: str
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


Event = RepeatEvent | GuardWarning | RunRecord


class EventSink(Protocol):
    """Where events go. It is called outside the run's lock, possibly from many threads."""

    def emit(self, event: Event, /) -> None:
        """Take one event; whatever this raises is dropped and counted."""


class MemorySink:
    """Keeps the newest events in a list.

    Args:
        limit: how many are kept.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._events: deque[Event] = deque(maxlen=limit)

    def emit(self, event: Event, /) -> None:
        """Keep the event."""
        self._events.append(event)

    def __repr__(self) -> str:
        return f"<MemorySink of {len(self._events)} event{'s' * (len(self._events) != 1)}>"

    @property
    def repeats(self) -> list[RepeatEvent]:
        """The interventions, oldest first."""
        return [event for event in self._events if isinstance(event, RepeatEvent)]

    @property
    def warnings(self) -> list[GuardWarning]:
        """The warnings, oldest first."""
        return [event for event in self._events if isinstance(event, GuardWarning)]

    @property
    def runs(self) -> list[RunRecord]:
        """The runs that have ended, oldest first."""
        return [event for event in self._events if isinstance(event, RunRecord)]

    def histogram(self) -> Counter[str]:
        """Count the interventions of each tool: the list of tools to mend."""
        return Counter(event.tool for event in self.repeats)


class LoggingSink:
    """Writes events to a logger: interventions and ends at info, warnings at warning.

    Args:
        logger: default is ``repeatguard_sdk``.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("repeatguard_sdk")

    def emit(self, event: Event, /) -> None:
        """Log the event with its fields under ``extra={"repeatguard": ...}``."""
        fields = {"repeatguard": attrs.asdict(event)}
        if isinstance(event, RepeatEvent):
            self._logger.info(
                "call %d of %s: %s%s (%s, count %d)",
                event.call,
                event.tool or "the run",
                event.decision,
                "" if event.would == event.decision else f", would {event.would}",
                event.finding,
                event.count,
                extra=fields,
            )
        elif isinstance(event, GuardWarning):
            self._logger.warning("%s: %s", event.tool or "the run", event.what, extra=fields)
        else:
            self._logger.info("run %s: %s", event.run_id, event.reason, extra=fields)


class SafeSink:
    """Passes events on and lets no fault of the sink out.

    Attributes:
        dropped: events the sink raised on.
    """

    def __init__(self, sink: EventSink | Callable[[Event], Any]) -> None:
        emit = getattr(sink, "emit", None)
        self._emit: Callable[[Event], Any] = emit if emit is not None else sink  # type: ignore[assignment]
        self.dropped = 0

    def emit(self, event: Event, /) -> None:
        """Pass the event on."""
        try:
            self._emit(event)
        except Exception:
            self.dropped += 1
