"""A rate and how sure it is."""

from __future__ import annotations

import math
from statistics import NormalDist

import attrs

_Z = NormalDist().inv_cdf(0.975)

METHOD = (
    "Intervals are Wilson score intervals at 95 %. They take the events for independent; events of "
    "one run are not, so the true uncertainty is larger."
)


@attrs.frozen(kw_only=True)
class Rate:
    """So many of so many, with the 95 % Wilson score interval.

    Attributes:
        hits, of: the counts.
        rate: their ratio; `None` of nothing.
        low, high: the interval, within 0 and 1; `None` of nothing.
    """

    hits: int
    of: int
    rate: float | None
    low: float | None
    high: float | None


def rate_of(hits: int, of: int) -> Rate:
    """Return a rate with its interval.

    Example:
        >>> rate_of(8, 10).rate
        0.8

    Raises:
        ValueError: more hits than there can be.
    """
    if not 0 <= hits <= of:
        msg = f"rate_of({hits}, {of}): the first is a part of the second, so 0 <= {hits} <= {of}"
        raise ValueError(msg)
    if not of:
        return Rate(hits=0, of=0, rate=None, low=None, high=None)
    rate = hits / of
    weight = _Z * _Z / of
    middle = rate + weight / 2
    half = _Z * math.sqrt(rate * (1 - rate) / of + weight / (4 * of))
    # At the ends the formula gives exactly 0 and 1; floats may miss them by a little.
    low = 0.0 if not hits else max((middle - half) / (1 + weight), 0.0)
    high = 1.0 if hits == of else min((middle + half) / (1 + weight), 1.0)
    return Rate(hits=hits, of=of, rate=rate, low=min(low, rate), high=max(high, rate))
