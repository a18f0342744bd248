"""The ids of tool calls, told apart where a provider uses one again for another call."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import attrs

from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._run import Run


class CallIds:
    """Gives each call of a run an id of its own.

    The same id in one response is the same call, made again by the framework: a retry. In a later
    response it is another call: some providers count from "call_0" in each, and a model in a
    circle would look like a framework that retries.
    """

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, int]] = {}

    def of(self, call_id: str | None, task: int, turn: int) -> str | None:
        """Return the id of a call; the provider's, unless another turn had it before.

        Args:
            call_id: the provider's id.
            task: the number of the conversation that asks: a run of a host may last for several.
            turn: its turn there; what comes before the first belongs to an earlier response.
        """
        place = (task, turn)
        if call_id is None or turn == 0 or self._first.setdefault(call_id, place) == place:
            return call_id
        return f"{call_id} of turn {task}.{turn}"

    def told_apart(self, past: Iterable[PastCall], task: int) -> list[PastCall]:
        """Return calls of a history with ids of their own; their turns lie before the first."""
        return [
            attrs.evolve(call, call_id=self.of(call.call_id, task, -1 - call.turn)) for call in past
        ]


_ids: weakref.WeakKeyDictionary[Run, CallIds] = weakref.WeakKeyDictionary()


def ids_of(run: Run) -> CallIds:
    """Return the ids of a run, which outlives the conversations in it."""
    return _ids.setdefault(run, CallIds())
