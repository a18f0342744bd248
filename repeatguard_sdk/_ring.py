"""The newest calls of a run with their results, and how long they have gone round."""

from __future__ import annotations

from collections.abc import Hashable

CYCLE_PERIODS = (2, 3, 4, 5, 6)


class PairRing:
    """The newest (call, result) pairs, and for each period how long they have repeated.

    `matches[p]` is how many pairs in a row equal the one `p` places before: at `p` two laps
    are complete, at `2 * p` three. One comparison a period keeps it, whatever the length.
    """

    __slots__ = ("_quiet", "matches", "pairs")

    def __init__(self) -> None:
        self.pairs: list[tuple[int, Hashable, str]] = []
        self.matches = [0] * (CYCLE_PERIODS[-1] + 1)
        self._quiet = True

    def append(self, number: int, token: Hashable, tool: str) -> None:
        """Add the newest pair, by its entry's number; a `None` token equals nothing."""
        pairs, matches = self.pairs, self.matches
        size = len(pairs)
        self._quiet = False
        for period in range(1, CYCLE_PERIODS[-1] + 1):
            if period > size:
                break
            other = pairs[-period]
            if other[0] == number and token is not None and other[1] == token:
                matches[period] += 1
            else:
                matches[period] = 0
        pairs.append((number, token, tool))
        if size == CYCLE_PERIODS[-1]:
            del pairs[0]

    def append_new(self, number: int, token: Hashable, tool: str) -> None:
        """Add the pair of a call seen for the first time: it equals none before it."""
        if not self._quiet:
            self.matches = [0] * (CYCLE_PERIODS[-1] + 1)
            self._quiet = True
        self.pairs.append((number, token, tool))
        if len(self.pairs) > CYCLE_PERIODS[-1]:
            del self.pairs[0]

    def clear(self) -> None:
        """Forget everything."""
        self.pairs.clear()
        self.matches = [0] * (CYCLE_PERIODS[-1] + 1)
        self._quiet = True
