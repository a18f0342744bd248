"""Text of tools made visible, and how numbers and times read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import report_strategies as given_
from repeatguard_sdk.report import Filters, build_report, rate_of
from repeatguard_sdk.report import _sentences as sentences
from repeatguard_sdk.report import _words as words
from repeatguard_sdk.report._visible import shown, visible


@given(st.text() | st.sampled_from(given_.HOSTILE))
def test_every_character_is_seen(text: str) -> None:
    """What comes out is printable, can be encoded, and does not change when it is done again."""
    seen = visible(text)
    assert seen.isprintable()
    seen.encode()
    assert seen == visible(seen)


@given(st.text(st.characters(categories=("L", "N", "P", "S"), max_codepoint=0xFF)))
def test_ordinary_text_stays(text: str) -> None:
    """Letters, digits and signs come out as they went in."""
    assert text == visible(text)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("\x00\t\n\r\x7f", "\\x00\\t\\n\\r\\x7f"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("a\u00a0b\u3000c", "a b c"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("e\u0301" + "\u0301" * 9, "e\u0301\u0301\u0301"),
        ("שלום 你好 ñ 😀", "שלום 你好 ñ 😀"),
    ],
)
def test_what_is_seen(text: str, seen: str) -> None:
    """What has no shape of its own is written as in a Python text; all that has one stays."""
    assert seen == visible(text)


def test_a_long_text_is_cut() -> None:
    """The ellipsis of the cut is within the limit."""
    assert "abcd…" == shown("abcdefgh", 5)
    assert "abcde" == shown("abcde", 5)
    assert 5 >= len(shown("\u202e" * 9, 5))


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "–"), (0, "0 %"), (0.004, "0.4 %"), (0.098, "9.8 %"), (0.5, "50 %"), (1, "100 %")],
)
def test_percentages(share: float | None, text: str) -> None:
    """Small shares keep a digit behind the point."""
    assert text == words.percent(share)


def test_a_rate_of_nothing_has_no_interval() -> None:
    """There is no number where there is none."""
    assert "" == words.interval(rate_of(0, 0))
    assert "52 to 95 %" == words.interval(rate_of(9, 11))


@pytest.mark.parametrize(
    ("at", "text"),
    [(None, "–"), (0.0, "1970-01-01 00:00 UTC"), (1e300, "1e+300"), (math.nan, "nan")],
)
def test_moments(at: float | None, text: str) -> None:
    """A time that no calendar has is shown as it is."""
    assert text == words.moment(at)


def test_the_filters_are_said() -> None:
    """Each filter has a line, and a tool's name in it is data."""
    filters = Filters(since=0.0, until=60.0, tools=("a\x1bb", ""), findings=("cycle",))
    assert [
        "since 1970-01-01 00:00 UTC",
        "before 1970-01-01 00:01 UTC",
        "tools: a\\x1bb, the run itself",
        "findings: cycle",
    ] == sentences.filter_lines(build_report([], [], filters=filters))
