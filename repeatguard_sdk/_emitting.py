"""The way of events to a sink: at once, or through a bounded queue; no fault and no wait comes back."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from repeatguard_sdk._forking import watch_forks
from repeatguard_sdk._types import is_sequence

QUEUE_LIMIT = 10_000
_IDLE_SECONDS = 1.0

if TYPE_CHECKING:
    from repeatguard_sdk._event import Event, EventSink

    GivenSink: TypeAlias = EventSink | Callable[[Event], Any]
    Waiting: TypeAlias = tuple[contextvars.Context, Event]
else:
    # Events are loaded with the first one: many runs have no sink.
    GivenSink = Waiting = Any


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
    if getattr(events, "in_place", False):
        return InPlace(emit, getattr(events, "flush", None))
    return Queued(emit)


class InPlace:
    """Calls a sink where the event arises.

    Args:
        emit: the sink's function.
        flush: waits so many seconds, where the sink has a queue of its own.

    Attributes:
        dropped: events the sink raised on.
    """

    def __init__(
        self, emit: Callable[[Event], Any], flush: Callable[[float], Any] | None = None
    ) -> None:
        self._emit = emit
        self._flush = flush
        self.dropped = 0

    def emit(self, event: Event, /) -> None:
        """Pass the event on."""
        try:
            self._emit(event)
        except Exception:
            self.dropped += 1

    def close(self, timeout: float) -> None:
        """Let the sink write what it has queued, if it queues."""
        if self._flush is not None:
            with contextlib.suppress(Exception):  # what it loses it counts itself
                self._flush(timeout)


class Queued:
    """Calls a sink in a thread of its own, in order, each event in the context it arose in.

    The thread is started by an event and ends when none has come for a second. A forked process
    begins with an empty queue: what waits is delivered by the process it arose in.

    Args:
        emit: the sink's function.
        limit: events that may wait; one more is dropped.

    Attributes:
        dropped: events that found the queue full, and those the sink raised on.
    """

    most = 1
    """How many events are taken at once."""

    def __init__(self, emit: Callable[[Event], Any], limit: int = QUEUE_LIMIT) -> None:
        self._emit = emit
        self._limit = limit
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        # Protects all below; wakes the thread for an event, and `flush` when one is done with.
        self._changed = threading.Condition()
        self._waiting: deque[Waiting] = deque()
        self._running = False
        self._taken = self._done = 0
        self.dropped = 0

    def emit(self, event: Event, /) -> None:
        """Put the event into the queue, or drop and count it."""
        self.put(event)

    def put(self, event: Event) -> bool:
        """Put the event into the queue and tell whether there was room; else it is counted."""
        with self._changed:
            if len(self._waiting) >= self._limit:
                self.dropped += 1
                return False
            self._waiting.append((contextvars.copy_context(), event))
            self._taken += 1
            self._changed.notify_all()
            if self._running:
                return True
            self._running = True
        try:
            threading.Thread(target=self._work, name="repeatguard-events", daemon=True).start()
        except RuntimeError:
            # No threads here, or no more of them at the interpreter's end.
            with self._changed:
                self._running = False
            self._drain()
            self.rest()
        return True

    def flush(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for what is in the queue now; tell whether it is done."""
        with self._changed:
            end = self._taken
            return self._changed.wait_for(lambda: self._done >= end, timeout)

    def close(self, timeout: float) -> None:
        """Wait until what is in the queue is done, but no longer than `timeout` seconds."""
        self.flush(timeout)

    def before_fork(self) -> None:
        """Do nothing: the queue of the child is another one."""

    def after_fork(self, *, child: bool) -> None:
        """Begin anew in the child, where no thread works and any lock may be held for ever."""
        if child:
            self._begin()

    def pass_on(self, batch: list[Waiting]) -> int:
        """Give at most `most` events to the sink; return how many were lost."""
        for context, event in batch:
            context.run(self._emit, event)
        return 0

    def rest(self) -> None:
        """Do nothing when the thread has nothing more to do."""

    def _work(self) -> None:
        while True:
            self._drain()
            with self._changed:
                if not self._waiting and not self._changed.wait_for(
                    lambda: bool(self._waiting), _IDLE_SECONDS
                ):
                    self._running = False
                    break
        self.rest()

    def _drain(self) -> None:
        while True:
            with self._changed:
                count = min(self.most, len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(count)]
            if not batch:
                return
            try:
                lost = self.pass_on(batch)
            except BaseException:
                # Not even an exit raised by the sink may end the thread that others wait for.
                lost = count
            with self._changed:
                self._done += count
                self.dropped += lost
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
