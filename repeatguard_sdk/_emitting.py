"""The way of events to a sink: at once, or through a bounded queue; no fault and no wait comes back."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from repeatguard_sdk._event import Event, EventSink
from repeatguard_sdk._types import is_sequence

QUEUE_LIMIT = 10_000
_IDLE_SECONDS = 1.0

GivenSink = EventSink | Callable[[Event], Any]


class Emitter(Protocol):
    """Passes events on and lets no fault of a sink out."""

    @property
    def dropped(self) -> int:
        """Events that were lost."""
        ...

    def emit(self, event: Event, /) -> None:
        """Pass the event on, or drop and count it."""

    def close(self, timeout: float) -> None:
        """Wait so long, in seconds, for what was passed on; nothing comes after it."""


def emitter(events: GivenSink | Sequence[GivenSink]) -> Emitter:
    """Return what passes events on to a sink, a function, or several of them."""
    if is_sequence(events):
        return _Several([emitter(each) for each in events])
    emit: Any = getattr(events, "emit", events)
    return InPlace(emit) if getattr(events, "in_place", False) else Queued(emit)


class InPlace:
    """Calls a sink where the event arises.

    Attributes:
        dropped: events the sink raised on.
    """

    def __init__(self, emit: Callable[[Event], Any]) -> None:
        self._emit = emit
        self.dropped = 0

    def emit(self, event: Event, /) -> None:
        """Pass the event on."""
        try:
            self._emit(event)
        except Exception:
            self.dropped += 1

    def close(self, timeout: float) -> None:
        """Do nothing: all has been passed on."""


class Queued:
    """Calls a sink in a thread of its own, in order, each event in the context it arose in.

    The thread is started by an event and ends when none has come for a second.

    Args:
        emit: the sink's function.
        limit: events that may wait; one more is dropped.

    Attributes:
        dropped: events that found the queue full, and those the sink raised on.
    """

    def __init__(self, emit: Callable[[Event], Any], limit: int = QUEUE_LIMIT) -> None:
        self._emit = emit
        self._limit = limit
        # Protects all below; wakes the thread for an event, and `close` when the queue is empty.
        self._changed = threading.Condition()
        self._waiting: deque[tuple[contextvars.Context, Event]] = deque()
        self._running = False
        self._busy = False
        self.dropped = 0

    def emit(self, event: Event, /) -> None:
        """Put the event into the queue, or drop and count it."""
        with self._changed:
            if len(self._waiting) >= self._limit:
                self.dropped += 1
                return
            self._waiting.append((contextvars.copy_context(), event))
            self._changed.notify_all()
            if self._running:
                return
            self._running = True
        try:
            threading.Thread(target=self._work, name="repeatguard-events", daemon=True).start()
        except RuntimeError:
            # No threads here, or no more of them at the interpreter's end.
            with self._changed:
                self._running = False
            self._drain()

    def close(self, timeout: float) -> None:
        """Wait until the queue is empty, but no longer than `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout)

    def _work(self) -> None:
        while True:
            self._drain()
            with self._changed:
                if not self._waiting and not self._changed.wait_for(
                    lambda: bool(self._waiting), _IDLE_SECONDS
                ):
                    self._running = False
                    return

    def _drain(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    return
                context, event = self._waiting.popleft()
                self._busy = True
            failed = False
            try:
                context.run(self._emit, event)
            except BaseException:
                # Not even an exit raised by the sink may end the thread that others wait for.
                failed = True
            with self._changed:
                self._busy = False
                self.dropped += failed
                self._changed.notify_all()


class _Several:
    def __init__(self, emitters: list[Emitter]) -> None:
        self._emitters = emitters

    @property
    def dropped(self) -> int:
        """The sum over all sinks."""
        return sum(each.dropped for each in self._emitters)

    def emit(self, event: Event, /) -> None:
        """Pass the event on to each."""
        for each in self._emitters:
            each.emit(event)

    def close(self, timeout: float) -> None:
        """Wait for each."""
        for each in self._emitters:
            each.close(timeout)
