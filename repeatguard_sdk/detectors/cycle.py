"""Alternation and longer cycles over (key, result) pairs, periods 2 to 6, in constant time a call."""

from __future__ import annotations

from typing import NamedTuple

from repeatguard_sdk._ring import CYCLE_PERIODS, PairRing


class Cycle(NamedTuple):
    """A cycle that has just completed a lap.

    Attributes:
        period: calls in one lap.
        laps: whole laps so far.
        tools: the tools of one lap, in order.
    """

    period: int
    laps: int
    tools: tuple[str, ...]


def completed(ring: PairRing) -> Cycle | None:
    """Return the cycle whose lap the newest pair completes, from the second lap on.

    A lap of one call is a plain repeat, and one call whose answers alternate has answers
    that change: neither is a cycle. A lap that is itself a cycle counts by the shorter one.
    """
    matches = ring.matches
    for period in CYCLE_PERIODS:
        run = matches[period]
        if run < period or run % period:
            continue
        if any(
            period % shorter == 0 and matches[shorter] >= 2 * period - shorter
            for shorter in range(1, period)
        ):
            continue
        lap = ring.newest(period)
        if len({number for number, _, _ in lap}) > 1:
            return Cycle(period, run // period + 1, tuple(tool for _, _, tool in lap))
    return None
