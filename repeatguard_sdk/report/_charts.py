"""The figures behind the charts of the page: numbers only, no text of a tool."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import attrs

from repeatguard_sdk.report._values import Day

MOST_COLUMNS = 52


@attrs.frozen(kw_only=True)
class Column:
    """One column of the chart of events over time.

    Attributes:
        first, last: its days; equal for a column of one day.
        events, runs: what fell on them.
        height: of the highest column, in percent.
    """

    first: datetime.date
    last: datetime.date
    events: int
    runs: int
    height: float

    @property
    def days(self) -> str:
        """The days as a text."""
        one = self.first == self.last
        return self.first.isoformat() if one else f"{self.first} to {self.last}"


def columns(days: Sequence[Day], most: int = MOST_COLUMNS) -> list[Column]:
    """Return the columns of the chart, days without events among them.

    Args:
        days: oldest first.
        most: how many columns there may be; a column takes as many days as that needs.
    """
    if not days:
        return []
    by_date = [(datetime.date.fromisoformat(day.day), day) for day in days]
    first, last = by_date[0][0], by_date[-1][0]
    width = -(-((last - first).days + 1) // most)
    events = [0] * ((last - first).days // width + 1)
    runs = events.copy()
    for date, day in by_date:
        place = (date - first).days // width
        events[place] += day.events
        runs[place] += day.runs
    highest = max(*events, 1)
    return [
        Column(
            first=first + datetime.timedelta(days=place * width),
            last=min(first + datetime.timedelta(days=(place + 1) * width - 1), last),
            events=number,
            runs=runs[place],
            height=100 * number / highest,
        )
        for place, number in enumerate(events)
    ]
