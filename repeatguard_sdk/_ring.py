"""The newest calls of a run with their results, and how long they have gone round."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

CYCLE_PERIODS = (2, 3, 4, 5, 6)
_LONGEST: Final = CYCLE_PERIODS[-1]
_ROOM: Final = 8 * _LONGEST
# Number of the call's entry, identity of its result, name of its tool.
Pair = tuple[int, Hashable, str]


class PairRing:
    """The newest (call, result) pairs, and for each period how long they have repeated.

    `matches[p]` is how many pairs in a row equal the one `p` places before: at `p` two laps
    are complete, at `2 * p` three. One comparison a period keeps it, whatever the length.

    Attributes:
        quiet: whether all matches are 0, as they are while no call comes again after a few others.
    """

    __slots__ = ("_pairs", "matches", "quiet")

    def __init__(self) -> None:
        self._pairs: list[Pair] = []
        self.matches = [0] * (_LONGEST + 1)
        self.quiet = True

    def append(self, number: int, token: Hashable, tool: str) -> None:
        """Add the newest pair, by its entry's number; a `None` token equals nothing."""
        matches, newest = self.matches, self.newest(_LONGEST)
        if not self.quiet or number in [other[0] for other in newest]:
            self.quiet = True
            period = len(newest)
            for other in newest:
                if other[0] == number and token is not None and other[1] == token:
                    matches[period] += 1
                    self.quiet = False
                else:
                    matches[period] = 0
                period -= 1
        self._pairs.append((number, token, tool))
        if len(self._pairs) > _ROOM:
            del self._pairs[:-_LONGEST]

    def append_new(self, number: int, token: Hashable, tool: str) -> None:
        """Add the pair of a call seen for the first time: it equals none before it."""
        if not self.quiet:
            self.matches = [0] * (_LONGEST + 1)
            self.quiet = True
        pairs = self._pairs
        pairs.append((number, token, tool))
        if len(pairs) > _ROOM:
            # Rarely, and by a list's own means: a deque of fixed length costs a call each time.
            del pairs[:-_LONGEST]

    def newest(self, count: int) -> list[Pair]:
        """Return the newest pairs, the oldest of them first; no more than the longest period."""
        return self._pairs[-count:]

    def clear(self) -> None:
        """Forget everything."""
        self._pairs.clear()
        self.matches = [0] * (_LONGEST + 1)
        self.quiet = True
