"""Events kept in memory, for tests and for a look at one's own runs."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TypeVar

import attrs

from repeatguard_sdk._event import Event, FollowUp, GuardWarning, RepeatEvent, RunRecord

_E = TypeVar("_E", RepeatEvent, GuardWarning, RunRecord)


class MemorySink:
    """Keeps the newest events in a list.

    Args:
        limit: how many are kept.

    Example:
        >>> MemorySink()
        <MemorySink of 0 events>
    """

    in_place = True

    def __init__(self, limit: int = 10_000) -> None:
        # Protects `_events`: what followed takes the place of what it followed.
        self._lock = threading.Lock()
        self._events: deque[Event] = deque(maxlen=limit)

    def emit(self, event: Event, /) -> None:
        """Keep the event; what followed an intervention is written into it."""
        with self._lock:
            if isinstance(event, FollowUp):
                self._fill_in(event)
            else:
                self._events.append(event)

    def __repr__(self) -> str:
        return f"<MemorySink of {len(self._events)} event{'s' * (len(self._events) != 1)}>"

    @property
    def repeats(self) -> list[RepeatEvent]:
        """The interventions, oldest first, each with what the model did next where it is known."""
        return self._of(RepeatEvent)

    @property
    def warnings(self) -> list[GuardWarning]:
        """The warnings, oldest first."""
        return self._of(GuardWarning)

    @property
    def runs(self) -> list[RunRecord]:
        """The runs that have ended, oldest first."""
        return self._of(RunRecord)

    def histogram(self) -> Counter[str]:
        """Count the interventions of each tool: the list of tools to mend."""
        return Counter(event.tool for event in self.repeats)

    def _of(self, kind: type[_E]) -> list[_E]:
        with self._lock:
            return [event for event in self._events if isinstance(event, kind)]

    def _fill_in(self, follow_up: FollowUp) -> None:
        for place in range(len(self._events) - 1, -1, -1):
            if self._events[place] is follow_up.event:
                self._events[place] = attrs.evolve(follow_up.event, did=follow_up.did)
                return
