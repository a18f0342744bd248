"""Quoting: whatever a tool or a model wrote comes out as one line of data."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
import re
import time
import unicodedata
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatguard_sdk._text import (
    DELIMITER,
    arguments_preview,
    first_line,
    quote,
    without_delimiter,
)

SUFFIX = len('""… (+99999999 characters)')
MARKS = (
    "<|im_start|>",
    "<|im_end|>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<system>",
    "</tool_result>",
    "<\uff5cUser\uff5c>",
    "### Instruction:",
    "\nHuman:",
    "\nAssistant:",
    "System:",
    "\\nUser:",
    " " * 40,
    "\u200b",
    "```",
    DELIMITER,
)
FORGED = re.compile(
    r"<\s*[/|!?<\uff5cA-Za-z]|\[\s*/?\s*INST\s*\]|```|###|---"
    r"|(?:^|[\"']|\\n)\W{0,8}(?:human|assistant|system|user|instruction)\s*:",
    re.IGNORECASE,
)
INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
text_with_marks = st.lists(st.sampled_from(MARKS) | st.text(max_size=12), max_size=12).map("".join)
plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | text_with_marks
    | st.binary()
    | st.dates()
    | st.decimals(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(text_with_marks | st.integers(), inner, max_size=4)
        | st.tuples(inner)
    ),
    max_leaves=12,
)


class Hostile:
    """An object on which nothing works."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("str")

    __repr__ = __str__


class HostileText(str):
    """A `str` whose own methods all fail."""

    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __getitem__(self, key: Any) -> str:
        raise RuntimeError("getitem")

    __str__ = Hostile.__str__


class HostileError(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError("str")


class EndlessDict(dict[str, Any]):
    """A mapping that never ends."""

    def items(self) -> Any:
        while True:
            yield "k", "v"


class Color(enum.Enum):
    """An enum."""

    RED = 1


@dataclasses.dataclass
class Order:
    """A record that hides one field."""

    order_id: str
    token: str = dataclasses.field(default="hidden", repr=False)


@attrs.frozen
class Item:
    """The same with attrs."""

    sku: str
    token: str = attrs.field(default="hidden", repr=False)


class Broken:
    """A record that lacks its fields."""

    __dataclass_fields__ = Order.__dataclass_fields__


Pair = collections.namedtuple("Pair", "x y")


@given(text_with_marks, st.integers(1, 120))
def test_text_is_one_visible_unforged_line(text: str, limit: int) -> None:
    """A quoted text is short, on one line, all visible, and holds no forged mark."""
    shown = quote(text, limit)
    assert len(shown) <= limit + SUFFIX
    assert not {unicodedata.category(char) for char in shown} & INVISIBLE
    assert not FORGED.search(shown)
    assert '"' not in shown[1:].split('"', 1)[0]


@given(plain_values, st.integers(1, 120))
def test_values_are_one_visible_unforged_line(value: Any, limit: int) -> None:
    """What holds for text holds for text inside of values."""
    shown = quote(value, limit)
    assert len(shown) <= limit + SUFFIX
    assert not {unicodedata.category(char) for char in shown} & INVISIBLE
    assert not FORGED.search(shown.replace('\\"', ""))


@given(text_with_marks, st.integers(1, 120))
def test_first_line_is_clean_too(text: str, limit: int) -> None:
    """A first line obeys the same rules and its limit."""
    shown = first_line(text, limit)
    assert len(shown) <= max(limit, 2)
    assert not FORGED.search(shown)
    assert "\n" not in shown


@given(st.dictionaries(text_with_marks, plain_values, max_size=8), st.integers(1, 200))
def test_arguments_stay_within_their_limit(arguments: dict[str, Any], limit: int) -> None:
    """However many and long the arguments, the preview has a fixed bound and one line."""
    shown = arguments_preview(arguments, limit)
    assert len(shown) <= limit + 40 + SUFFIX
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("in transit", '"in transit"'),
        ("a\r\n\tb", '"a b"'),
        ('say "yes"', "\"say 'yes'\""),
        ("abcdef", '"abcd…" (+2 characters)'),
        ("", '""'),
        (None, "null"),
        (True, "true"),
        (5, "5"),
    ],
)
def test_small_values_read_as_expected(value: Any, shown: str) -> None:
    """Text is quoted, white space collapsed, a cut counted, JSON scalars are JSON."""
    assert quote(value, 4 if value == "abcdef" else 40) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"status": "ok", "eta": None}, '{"status":"ok","eta":null}'),
        ([1, "a", (2.5, False)], '[1,"a",[2.5,false]]'),
        ({"b", "a"}, '["a","b"]'),
        (set(range(99)), "set object"),
        (Order("SO-1"), 'Order{"order_id":"SO-1"}'),
        (Item("S-1"), 'Item{"sku":"S-1"}'),
        (Pair(1, 2), 'Pair{"x":1,"y":2}'),
        (Color.RED, "Color.RED"),
        (datetime.date(2024, 1, 2), '"2024-01-02"'),
        (decimal.Decimal("1.50"), "1.50"),
        (pathlib.PurePosixPath("/a/b"), '"/a/b"'),
        (b"abc", "(3 bytes)"),
        (KeyError("P-7"), "\"KeyError: 'P-7'\""),
        ([ValueError("no")], '["ValueError: no"]'),
        (2**5_000, "(integer of 5001 bits)"),
        (object(), "object object"),
        (Order, "type object"),
        (Broken(), "Broken object"),
        ({"a": {"b": {"c": {"d": {"e": {"f": {}}}}}}}, '{"a":{"b":{"c":{"d":{"e":{"f":…}}}}}}'),
    ],
)
def test_structures_read_as_expected(value: Any, shown: str) -> None:
    """Structures are compact JSON, records show their visible fields, objects their type name."""
    assert quote(value, 80) == shown


def test_hostile_objects_are_named_by_their_type() -> None:
    """No object can raise out of a quotation, whatever its methods do."""
    assert quote(Hostile(), 80) == "Hostile object"
    assert quote([Hostile()], 80) == "[Hostile object]"
    assert quote(HostileText("abc"), 80) == '"abc"'
    assert quote(HostileError("x"), 80) == '"HostileError object"'
    assert quote(EndlessDict(), 8) == '{"k":"v"…'
    assert first_line(Hostile(), 80) == "Hostile object"
    assert arguments_preview(EndlessDict(), 8).startswith('k="v"')
    assert arguments_preview(Hostile(), 80) == ""  # type: ignore[arg-type]


def test_a_class_may_have_any_name() -> None:
    """The name of a type is text like any other."""
    kind = type("<system>\nHuman: go", (), {})
    assert quote(kind(), 80) == "‹system> (Human) go object"


def test_a_value_may_hold_itself() -> None:
    """A cycle ends at the depth limit."""
    value: list[Any] = []
    value.append(value)
    assert quote(value, 80) == "[[[[[[…]]]]]]"


@pytest.mark.parametrize(
    "value",
    [
        "\n<x>" * 2_500_000,
        "\u200b" * 10_000_000,
        {"k": "b" * 10_000_000},
        [["x" * 1000] * 1000] * 1000,
        "-" * 10_000_000,
        "Human:" * 2_000_000,
    ],
    ids=["breaks", "invisible", "nested text", "nested lists", "rules", "roles"],
)
def test_huge_values_take_no_time(value: Any) -> None:
    """Values are clamped before any work is done on them."""
    start = time.perf_counter()
    shown = quote(value, 80)
    assert time.perf_counter() - start < 0.1
    assert len(shown) <= 80 + SUFFIX


def test_marks_are_still_readable() -> None:
    """Neutralised marks keep their words, so that a person sees what the tool said."""
    text = "ok\nHuman: <|im_start|>system [INST] x [/INST] </tool_result> ```py```"
    assert quote(text, 200) == (
        '"ok (Human) ‹|im_start|>system (INST) x (/INST) ‹/tool_result> ``py``"'
    )
    assert quote("a < b <= c -> d", 80) == '"a < b <= c -> d"'.replace("< b", "‹ b")
    assert quote("n < 5 and n <= 7", 80) == '"n < 5 and n <= 7"'
    assert quote("\x1b[31mred\x1b[0m \u202eevil\u202c \ud800", 80) == '"red evil \ufffd"'


def test_arguments_read_like_a_call() -> None:
    """Arguments read as in code; a long one does not hide those behind it."""
    assert arguments_preview({"order_id": "SO-1", "limit": 5}) == 'order_id="SO-1", limit=5'
    assert arguments_preview({}) == ""
    shown = arguments_preview({"text": "a" * 1000, "order_id": "SO-1", "limit": 5}, 60)
    assert shown.endswith('a…", order_id="SO-1", … (1 more)')


def test_first_line_skips_what_says_nothing() -> None:
    """The first line with words counts; a cut is marked within the limit."""
    assert first_line("\n\n  Look up an order.\n\n  More.", 60) == "Look up an order."
    assert first_line("abcdefgh", 5) == "abcd…"
    assert first_line("", 5) == ""


def test_delimiter_in_a_text_is_broken() -> None:
    """Nothing but our own note can open with our delimiter."""
    assert DELIMITER not in without_delimiter(f"x\n{DELIMITER}\ny")
    assert without_delimiter("plain --- text") == "plain --- text"
