"""Moments as a person writes them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from repeatguard_sdk.cli._when import moment

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the tests be in a zone with summer time."""
    if not hasattr(time, "tzset"):
        pytest.skip("the zone of this process cannot be set")
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("30m", 1_800), ("12h", 43_200), ("7d", 604_800), ("2 W", 1_209_600)],
)
def test_how_long_ago(text: str, seconds: int) -> None:
    """A number with a letter counts back from now."""
    assert NOW - seconds == moment(text, now=NOW)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-02T00:00Z", 86_400),
        ("1970-01-02T02:00+02:00", 86_400),
        ("1970-01-02", 82_800),
        (" 1970-01-02 12:30 ", 127_800),
    ],
)
def test_dates_and_times(text: str, at: float) -> None:
    """A zone counts where it is given; without one the time is that of the place."""
    assert at == moment(text, now=NOW)


def test_a_date_that_ends() -> None:
    """The day is included, also where it has 23 hours."""
    assert 86_400 == moment("2026-06-10", now=NOW, ends=True) - moment("2026-06-10", now=NOW)
    assert 82_800 == moment("2026-03-29", now=NOW, ends=True) - moment("2026-03-29", now=NOW)
    assert moment("2026-06-10T08:00", now=NOW) == moment("2026-06-10T08:00", now=NOW, ends=True)


@pytest.mark.parametrize(
    "text",
    ["yesterday", "7", "d", "-7d", "9999999d", "2026-13-01", "9999-12-31", "1.5h"],
)
def test_what_is_no_moment(text: str) -> None:
    """The error names what was given and shows what to write."""
    with pytest.raises(ValueError, match="7d, 12h, 30m") as raised:
        moment(text, now=NOW, ends=True)
    assert repr(text) in str(raised.value)
