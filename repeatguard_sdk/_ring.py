"""The newest calls of a run with their results, and how long they have gone round."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Hashable

CYCLE_PERIODS = (2, 3, 4, 5, 6)
_number_of = operator.itemgetter(0)


class PairRing:
    """The newest (call, result) pairs, and for each period how long they have repeated.

    `matches[p]` is how many pairs in a row equal the one `p` places before: at `p` two laps
    are complete, at `2 * p` three. One comparison a period keeps it, whatever the length.

    Attributes:
        pairs: number of the call's entry, identity of its result, name of its tool.
        quiet: whether all matches are 0, as they are while no call comes again after a few others.
    """

    __slots__ = ("matches", "pairs", "quiet")

    def __init__(self) -> None:
        self.pairs: deque[tuple[int, Hashable, str]] = deque(maxlen=CYCLE_PERIODS[-1])
        self.matches = [0] * (CYCLE_PERIODS[-1] + 1)
        self.quiet = True

    def append(self, number: int, token: Hashable, tool: str) -> None:
        """Add the newest pair, by its entry's number; a `None` token equals nothing."""
        pairs, matches = self.pairs, self.matches
        if not self.quiet or number in map(_number_of, pairs):
            self.quiet = True
            for period, other in enumerate(reversed(pairs), 1):
                if other[0] == number and token is not None and other[1] == token:
                    matches[period] += 1
                    self.quiet = False
                else:
                    matches[period] = 0
        pairs.append((number, token, tool))

    def append_new(self, number: int, token: Hashable, tool: str) -> None:
        """Add the pair of a call seen for the first time: it equals none before it."""
        if not self.quiet:
            self.matches = [0] * (CYCLE_PERIODS[-1] + 1)
            self.quiet = True
        self.pairs.append((number, token, tool))

    def clear(self) -> None:
        """Forget everything."""
        self.pairs.clear()
        self.matches = [0] * (CYCLE_PERIODS[-1] + 1)
        self.quiet = True
