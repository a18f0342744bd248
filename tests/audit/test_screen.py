"""The cheap identity of arguments is never finer than the guard's own, nor than its fold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatguard_sdk import Registry, guarded_tool
from repeatguard_sdk._identity import identify
from repeatguard_sdk._spec import find_record
from repeatguard_sdk.audit import _screen
from repeatguard_sdk.audit._plan import may_be_empty
from repeatguard_sdk.audit._screen import coarse, exact
from repeatguard_sdk.detectors.same_outcome import is_empty
from strategies import json_values


@guarded_tool(registry=Registry())
def look(**arguments: Any) -> None:
    """Look something up."""


@guarded_tool(registry=Registry(), effect="write")
def save(**arguments: Any) -> None:
    """Save something."""


def guards_own(tool: Any, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """Return key and fold of a call."""
    record = find_record(tool)
    assert record is not None
    return record.keys.key(**arguments), record.keys.fold(**arguments)


_texts = st.text(alphabet=" \t\n\r\x0b\x0c\x1c\x85\u00a0\u2028aAbBéÉßıİΣςσ\\/\"'n.", max_size=6)
_values = (
    _texts
    | st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, -0.0, 1.0, 1.004, 1.005, 1.0049, 2.5, 1e20, float("inf"), float("nan")])
    | st.lists(_texts | st.floats(0, 2) | st.none(), max_size=2)
    | st.dictionaries(st.sampled_from(["k", "K"]), _texts | st.none(), max_size=2)
)
_arguments = st.dictionaries(st.sampled_from(["q", "Q", "n"]), _values, max_size=3)


@given(_arguments, _arguments)
def test_what_the_guard_takes_for_one_is_one(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Where it cannot promise that, it gives no identity at all."""
    first, second = coarse(one), coarse(other)
    if first is None or second is None or first == second:
        return
    for tool in (look, save):
        keys = zip(guards_own(tool, one), guards_own(tool, other), strict=True)
        assert not any(mine == theirs for mine, theirs in keys)


@given(st.dictionaries(st.sampled_from("qn"), json_values(), max_size=2), st.data())
def test_a_respelled_call_is_the_same(arguments: dict[str, Any], data: st.DataObject) -> None:
    """Case, white space, nulls and parts of a cent make no difference."""
    respelled = {
        name: f" {value.swapcase()}\t" if isinstance(value, str) and value.isascii() else value
        for name, value in reversed(arguments.items())
    }
    if data.draw(st.booleans()):
        respelled["nothing"] = None
    one, other = coarse(arguments), coarse(respelled)
    assert one is None or other is None or one == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"q": "a"}, {"q": "b"}),
        ({"q": 1}, {"q": "1"}),
        ({"q": 1}, {"q": True}),
        ({"q": "a"}, {"n": "a"}),
        ({"q": ["a"]}, {"q": ["b"]}),
        ({}, {"q": ""}),
        ({"q": 1.0}, {"q": 1.5}),
    ],
)
def test_other_calls_are_told_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Or nothing would be gained by it."""
    assert coarse(one) != coarse(other)


@pytest.mark.parametrize(
    "arguments", [{"q": "\x1c"}, {"q": [1.5]}, {"q": {"k": None}}, {"q": object()}]
)
def test_what_may_be_finer_has_none(arguments: dict[str, Any]) -> None:
    """Such calls are compared by the guard's own identity."""
    assert coarse(arguments) is None


@given(_arguments, _arguments)
def test_equal_exact_texts_are_equal_calls(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Whatever is written alike has one key."""
    if exact(one) == exact(other) is not None:
        for tool in (look, save):
            assert guards_own(tool, one)[0] == guards_own(tool, other)[0]


@given(_arguments, _arguments)
def test_without_the_quick_library_it_holds_too(one: dict[str, Any], other: dict[str, Any]) -> None:
    """The standard library's JSON gives the same answers about what is equal."""
    with pytest.MonkeyPatch.context() as patch:
        quick = coarse(one), coarse(other)
        patch.setattr(_screen, "_dumped", _screen._dump)
        plain = coarse(one), coarse(other)
    if None not in (*quick, *plain):
        assert (quick[0] == quick[1]) == (plain[0] == plain[1])
    if plain[0] != plain[1] and None not in plain:
        record = find_record(look)
        keys = [identify(record, (), each, convict=True).key for each in (one, other)]
        assert keys[0] != keys[1]


@given(st.text(alphabet=' \n{}[]",:ae0nN', max_size=12))
def test_what_is_told_at_a_glance_is_so(text: str) -> None:
    """A text that says something at a glance is none that found nothing."""
    assert may_be_empty(text) == is_empty(text)
