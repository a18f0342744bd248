"""The ids of tool calls, told apart where a provider uses one again for another call."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from repeatguard_sdk._recalling import PastCall

# Turns of a history come before those that are seen.
_PAST = "past"


class CallIds:
    """Gives a call an id of its own.

    The same id in one response is the same call, made again by the framework: a retry. In a later
    response it is another call: some providers count from "call_0" in each, and a model in a
    circle would look like a framework that retries.
    """

    def __init__(self) -> None:
        self._first: dict[str, object] = {}

    def of(self, call_id: str | None, turn: object) -> str | None:
        """Return the id of a call; the provider's, unless another turn had it before."""
        if call_id is None or self._first.setdefault(call_id, turn) == turn:
            return call_id
        return f"{call_id} of turn {turn}"

    def told_apart(self, past: Iterable[PastCall]) -> list[PastCall]:
        """Return past calls with ids of their own."""
        return [
            attrs.evolve(call, call_id=self.of(call.call_id, f"{_PAST} {call.turn}"))
            for call in past
        ]
