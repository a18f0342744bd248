"""What the model did after an intervention, found out as its next calls come in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._types import NextStep

if TYPE_CHECKING:
    from repeatguard_sdk._event import FollowUp, RepeatEvent

_MAX_OPEN = 256


class _Open:
    """An intervention whose follow-up is not known yet.

    Attributes:
        other_turn: the turn in which another call came; the same one may still come in it.
    """

    __slots__ = ("call", "event", "other_turn")

    def __init__(self, event: RepeatEvent, call: Admission) -> None:
        self.event = event
        self.call = call
        self.other_turn: int | None = None


class Following:
    """The interventions of one run whose follow-up is not known yet.

    Args:
        emit: takes each follow-up as soon as it is known; `None` for nobody.

    Attributes:
        waits: whether there is any; read on every call.
    """

    def __init__(self, emit: Callable[[FollowUp], Any] | None) -> None:
        self._emit = emit
        # Protects `_open`: calls of one run may be made in several threads.
        self._lock = threading.Lock()
        self._open: list[_Open] = []
        self.waits = False

    def begin(self, event: RepeatEvent, call: Admission) -> None:
        """Wait for what follows an intervention; past 256 of them the oldest stays unknown."""
        with self._lock:
            self._open.append(_Open(event, call))
            del self._open[:-_MAX_OPEN]
            self.waits = True

    def saw_call(self, call: Admission) -> None:
        """Take note of a call."""
        self._settle(lambda waiting: _judge(waiting, call))

    def saw_turn(self) -> None:
        """Take note that the calls of one response are complete."""
        self._settle(lambda waiting: None if waiting.other_turn is None else "other_call")

    def conclude(self, did: NextStep) -> None:
        """Take note of an answer to the user, or of the end: nothing more can follow."""
        self._settle(lambda waiting: did if waiting.other_turn is None else "other_call")

    def _settle(self, judge: Callable[[_Open], NextStep | None]) -> None:
        with self._lock:
            judged: list[tuple[_Open, NextStep | None]] = [
                (waiting, judge(waiting)) for waiting in self._open
            ]
            self._open = [waiting for waiting, did in judged if did is None]
            self.waits = bool(self._open)
        for waiting, did in judged:
            if did is not None and self._emit is not None:
                from repeatguard_sdk._event import FollowUp  # As in `_reporting`.

                self._emit(FollowUp(event=waiting.event, did=did))


def _judge(waiting: _Open, call: Admission) -> NextStep | None:
    """Return what the model did, if this call tells."""
    after = waiting.event
    if waiting.other_turn is not None and call.turn > waiting.other_turn:
        return "other_call"
    if call.number <= after.call or (call.turn and call.turn == after.turn):
        return None
    if _is_same(waiting, call):
        return "same_call"
    if not call.turn:
        # Without turns each call is a response of its own.
        return "other_call"
    waiting.other_turn = call.turn
    return None


def _is_same(waiting: _Open, call: Admission) -> bool:
    before, finding = waiting.call, waiting.event.finding
    if finding == "cycle":
        # Its next lap begins with another call than the one that closed the last.
        return call.entry is not None and call.entry.total > 0
    if call.state is not before.state:
        return False
    if finding == "same_outcome":
        return True
    same_key = call.key is not None and call.key == before.key
    return same_key or (call.entry is not None and call.entry is before.entry)
