"""What makes two calls of one tool the same."""

from __future__ import annotations

import decimal
import inspect
import linecache
import math
import pathlib
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from repeatguard_sdk import _rules
from repeatguard_sdk._canonical import canonical, digest, is_flat
from repeatguard_sdk._key import CompiledKey, compile_key, generic_key
from repeatguard_sdk._spec import ToolSpec, declare
from repeatguard_sdk.exceptions import NoIdentityError


def compiled(fn: Callable[..., Any], **options: Any) -> CompiledKey:
    """Compile the key of a plain function."""
    options.setdefault("signature", inspect.signature(fn))
    return compile_key(ToolSpec(name=fn.__name__, **options))


def track(order_id: Any, region: Any = "eu", limit: Any = 5) -> None:
    """Do nothing."""


TRACK = compiled(track)
WRITE = compiled(track, effect="write")


# --- binding -------------------------------------------------------------------------------------


@given(strategies.values, strategies.values)
def test_positional_keyword_and_defaulted_calls_are_one(first: Any, second: Any) -> None:
    """However the arguments are passed, the call is the same."""
    key = TRACK.key(first, second, 5)
    assert key == TRACK.key(order_id=first, region=second)
    assert key == TRACK.key(first, limit=5.0, region=second)
    assert TRACK.key(first) == TRACK.key(first, "eu")
    assert TRACK.fold(first, second) == TRACK.fold(region=second, order_id=first, limit=5)


def test_arguments_that_do_not_fit() -> None:
    """Arguments that do not fit are a TypeError that names the tool."""
    for fn in (TRACK.key, TRACK.fold, TRACK.arguments):
        with pytest.raises(TypeError, match=r"track\(\) missing 1 required positional argument"):
            fn()
        with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
            fn("a", nope=1)


def test_all_kinds_of_parameters() -> None:
    """Positional-only, starred and keyword-only parameters bind as they do in the tool."""

    def tool(a: Any, /, b: Any = 1, *rest: Any, c: Any, d: Any = 2, **more: Any) -> None:
        """Do nothing."""

    found = compiled(tool)
    assert found.key(1, c=3) == found.key(1, 1, c=3.0, d=2)
    assert found.key(1, 1, "x", c=3) != found.key(1, 1, c=3)
    assert found.key(1, 1, "x", "y", c=3) != found.key(1, 1, "y", "x", c=3)
    assert found.key(1, c=3, x=1, y=2) == found.key(1, y=2, x=1, c=3)
    assert found.key(1, c=3, x=1) != found.key(1, c=3, x=True)
    assert found.key(1, c=3, a="x") != found.key(1, c=3)
    assert hash(found.key(1, 1, [1], c={}, x=[{}]))
    with pytest.raises(TypeError):
        found.key(1)
    assert found.arguments(1, c=3, x=4) == {"a": 1, "b": 1, "rest": (), "c": 3, "d": 2, "x": 4}


def test_keyword_only_after_a_bare_star() -> None:
    """A keyword-only parameter cannot be passed by position."""

    def tool(a: Any, /, *, b: Any = 2) -> None:
        """Do nothing."""

    found = compiled(tool)
    assert found.key(1) == found.key(1, b=2)
    with pytest.raises(TypeError):
        found.key(1, 2)


def test_no_parameters() -> None:
    """A tool without parameters has one call."""
    found = compiled(lambda: None)
    assert () == found.key()
    assert () == found.fold()
    assert {} == found.arguments()
    with pytest.raises(TypeError):
        found.key(1)


def test_parameter_names_do_not_clash() -> None:
    """A parameter may have the name of anything the generated code uses."""

    def tool(type: Any, str: Any, len: Any, key: Any, _rg_kind: Any, _rg_key_0: Any = 1) -> None:
        """Do nothing."""

    found = compiled(tool)
    assert ("a", "b", 1, None, "c", 1) == found.key("a", "b", 1, None, "c")
    assert found.key([1], "b", 1, None, "c") == found.key((1,), "b", 1, None, "c")


def test_a_default_is_an_object_not_its_text() -> None:
    """A default whose text is not Python is bound all the same."""
    marker = object()

    def tool(a: Any = marker, b: Any = math.nan) -> None:
        """Do nothing."""

    found = compiled(tool)
    assert found.key() == found.key(marker, math.nan)
    assert found.arguments()["a"] is marker


def test_without_a_signature() -> None:
    """A tool without a usable signature is keyed by its arguments as given, rules by name."""
    bad = inspect.Signature([inspect.Parameter("a", inspect.Parameter.KEYWORD_ONLY)])
    object.__setattr__(bad.parameters["a"], "_name", "not a name")
    for signature in (None, bad):
        found = compiled(track, signature=signature, rules={"id": "id", "note": "ignore"})
        assert found.key(1, [2], id="a ") == found.key(1, (2,), id="A", note="x")
        assert found.key(1) != found.key(2)
        assert found.arguments(1, id="a") == {"args": (1,), "id": "a"}


def test_hidden_and_ignored_parameters() -> None:
    """A hidden parameter is bound but neither keyed nor shown; an ignored one is shown."""

    def tool(ctx: Any, query: Any, request_id: Any = None) -> None:
        """Do nothing."""

    found = compiled(tool, hidden=frozenset({"ctx"}), rules={"request_id": "ignore"})
    assert found.key(object(), "q", 1) == found.key(open, query="q", request_id=object())
    assert found.arguments(1, "q") == {"query": "q", "request_id": None}


def test_traceback_shows_the_generated_line() -> None:
    """An error inside the generated code shows its source."""
    assert "<repeatguard key of track>" in linecache.cache
    with pytest.raises(NoIdentityError) as caught:
        TRACK.key(iter([]))
    text = "".join(traceback.format_tb(caught.value.__traceback__))
    assert "<repeatguard key of track" in text
    assert "order_id = _rg_key_0(order_id)" in text


# --- strings without a rule ----------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "ask", "live", "final"])
def test_outer_white_space_of_reads(effect: str) -> None:
    """A read compares one-line text without outer white space, other text byte for byte."""
    found = compiled(track, effect=effect)
    assert found.key(" a b\t") == found.key("a b")
    assert found.key("a  b") != found.key("a b")
    assert found.key("A b") != found.key("a b")
    assert found.key("  a\n b") != found.key("a\n b")
    assert found.key("x" * 500 + " ") == found.key("x" * 500)
    assert found.key(" " * 300 + "x") == found.key("x")


@pytest.mark.parametrize("effect", ["write", "unknown", "bookkeeping"])
def test_text_of_writes(effect: str) -> None:
    """A write compares text byte for byte."""
    found = compiled(track, effect=effect)
    assert found.key(" a") != found.key("a")
    assert found.key("x" * 500 + " ") != found.key("x" * 500)


def test_a_text_near_the_limit() -> None:
    """Short and long texts are told apart on both sides of the limit."""
    texts = ["x" * n for n in (255, 256, 257, 258)]
    assert 4 == len({TRACK.key(text) for text in texts})


def _normal(value: Any, *, strip: bool) -> Any:
    """The slow and obvious form of an argument without a rule."""
    if type(value) is str and strip and "\n" not in value:
        value = value.strip()
    return canonical(value)


@given(strategies.values, strategies.values)
def test_equal_exactly_if_the_normalized_arguments_are(left: Any, right: Any) -> None:
    """Two keys are equal exactly if the normalized arguments are."""
    for found, strip in ((TRACK, True), (WRITE, False)):
        same = _normal(left, strip=strip) == _normal(right, strip=strip)
        assert same == (found.key(left) == found.key(right))
        if same:
            assert hash(found.key(left)) == hash(found.key(right))
            assert found.fold(left) == found.fold(right)
            assert digest(found.key(left)) == digest(found.key(right))


def test_types_are_not_conflated() -> None:
    """Of arguments that only look alike no two make one call."""
    assert len(strategies.DIFFERENT) == len({WRITE.key(value) for value in strategies.DIFFERENT})


def test_a_changed_argument_is_another_call() -> None:
    """A key does not change with the argument it was made from."""
    argument = {"a": [1]}
    key = TRACK.key(argument)
    argument["a"].append(2)
    assert key == TRACK.key({"a": [1]})
    assert key != TRACK.key(argument)


def test_pinned_arguments() -> None:
    """A lambda is itself, stays alive with the key and does not shift other arguments."""
    one, other = lambda: 0, lambda: 0
    assert TRACK.key(one, "eu") == TRACK.key(one)
    assert TRACK.key(one) != TRACK.key(other)
    assert TRACK.fold(one) == TRACK.fold(one)
    assert 3 == len(TRACK.key({"f": one}))


def test_no_identity() -> None:
    """An argument without an identity makes the call uncountable."""
    for call in (TRACK.key, TRACK.fold):
        with pytest.raises(NoIdentityError):
            call(iter([]))


# --- the fold ------------------------------------------------------------------------------------


def test_fold() -> None:
    """The fold collapses and lower-cases text at any depth and rounds floats."""
    fold = TRACK.fold
    assert fold(" A  b\n") == fold("a b")
    assert fold(1.001) == fold(1.0) == fold(1)
    assert fold({"q": {"name": "Bob "}}) == fold({"q": {"name": "bob"}})
    assert fold(["X", 0.001]) == fold(("x", 0.0))
    assert fold("a") != fold("b")
    assert fold(True) != fold(1)
    assert fold(math.nan) == fold(math.nan)
    assert fold("x " * 200) == fold("x  " * 200)


def test_fold_of_exact_parameters() -> None:
    """What the author declared exact stays exact, outer white space included."""
    found = compiled(track, rules={"order_id": "exact"})
    assert found.key("a ") != found.key("a")
    assert found.fold("a ") != found.fold("a")
    assert found.fold(["A"]) != found.fold(["a"])
    assert found.fold("a", "EU ") == found.fold("a", "eu")


def test_fold_of_starred_parameters() -> None:
    """The fold reaches into starred parameters."""

    def tool(*args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    found = compiled(tool, rules={"raw": "exact"})
    assert found.fold("A", x=" B") == found.fold("a", x="b")
    assert found.fold(raw="A") != found.fold(raw="a")


def test_a_megabyte_is_folded_by_no_means() -> None:
    """A very long text is only equal to itself, and its fold says so at once."""
    text = "Word " * 200_000
    assert TRACK.fold(text) == TRACK.fold("Word " * 200_000)
    assert TRACK.fold(text) != TRACK.fold(text.lower())
    assert TRACK.fold(text) == TRACK.fold(text.strip())
    found = compiled(track, rules={"order_id": "id"})
    assert found.fold(text) == found.fold(text.lower())


# --- rules ---------------------------------------------------------------------------------------

RULES: dict[str, Any] = {
    "space": _rules.space,
    "text": _rules.text,
    "id": _rules.identifier,
    "money": _rules.money,
    "path": _rules.path,
}


@pytest.mark.parametrize(
    ("rule", "same", "different"),
    [
        ("exact", [("a", "a"), (1, 1.0)], [("a", "a "), ("a", "A"), (1, True)]),
        ("space", [(" a\n b ", "a b"), (["a  b"], ["a b"])], [("A", "a"), ("ab", "a b")]),
        ("text", [(" A\tB", "a b"), (["A"], ["a"]), ({"A"}, {"a"})], [("ab", "a b")]),
        ("id", [("ord-1 ", "ORD-1"), (["a"], ["A"])], [("1", 1), ([["a"]], [["A"]])]),
        (
            "money",
            [
                (19.999, 20),
                (19.999, "20.00"),
                (20, decimal.Decimal("19.995")),
                (" 20 ", 20.0),
                (0.005, 0.01),
                (1.005, 1.01),
                (-0.005, "-0.01"),
                ([19.999, "3"], ["20", 3]),
                (1e300, int(1e300)),
                (math.nan, math.nan),
            ],
            [
                (True, 1),
                ("12 EUR", 12),
                (19.994, 20),
                ("nan", 0),
                (math.nan, 0),
                (math.inf, "inf"),
                ("1e999999", "1e999998"),
                ("1e999999", 0),
                (None, 0),
                ("", 0),
                (decimal.Decimal("NaN"), 0),
                (10**500, 10**500 + 1),
            ],
        ),
        (
            "path",
            [
                ("a//b/./c", "a/b/c"),
                ("a/x/../b", "a/b"),
                (pathlib.Path("a/b"), "a//b"),
                (["a/./b"], ["a/b"]),
                (".", "./"),
            ],
            [("", "."), ("a", "A"), ("a\\b", "a/b"), ("a\0b", "a"), ("/a", "a")],
        ),
        (lambda value: value[0], [("ab", "ac"), (1, 1)], [("ab", "bb"), (1, 2), (1, True)]),
    ],
    ids=["exact", "space", "text", "id", "money", "path", "callable"],
)
def test_rules(rule: Any, same: list[Any], different: list[Any]) -> None:
    """Each rule makes equal what it says, and nothing else."""
    for effect in ("read", "write"):
        found = compiled(track, rules={"region": rule}, effect=effect)
        for left, right in same:
            assert found.key(1, left) == found.key(1, region=right), (left, right)
            assert hash(found.key(1, left)) == hash(found.key(1, region=right))
            assert found.fold(1, left) == found.fold(1, right)
        for left, right in different:
            assert found.key(1, left) != found.key(1, right), (left, right)


@given(st.sampled_from(sorted(RULES)), strategies.values)
def test_rules_are_total_and_settle(rule: str, value: Any) -> None:
    """A rule takes any value, and applied twice does what it did once."""
    once = RULES[rule](value)
    assert canonical(once) == canonical(RULES[rule](once))


class _Hostile(str):
    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    def __hash__(self) -> int:
        raise ZeroDivisionError

    def split(self, *args: Any) -> Any:
        raise ZeroDivisionError


def test_rules_never_raise() -> None:
    """A value that raises when looked at is compared as it is."""
    endless: list[Any] = []
    endless.append(endless)
    for rule in RULES.values():
        assert endless is rule(endless)[0]
        for value in (object(), _Hostile(" a"), b"a", {}, None, Ellipsis, rule):
            rule(value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-999, max_value=999))
def test_money_meets_in_every_type(amount: decimal.Decimal) -> None:
    """An amount is one as a Decimal, a float and a text, rounded half up."""
    expected = amount.quantize(decimal.Decimal("0.01"), decimal.ROUND_HALF_UP)
    assert expected == _rules.money(amount) == _rules.money(float(amount))
    assert expected == _rules.money(str(amount))


@given(st.text(max_size=6, alphabet=" \tabC\n"), st.text(max_size=6, alphabet=" \tabC\n"))
def test_text_rules_against_the_obvious(left: str, right: str) -> None:
    """The compiled text rules agree with the functions of the rules."""
    for rule in ("space", "text", "id"):
        found = compiled(track, rules={"order_id": rule})
        assert (RULES[rule](left) == RULES[rule](right)) == (found.key(left) == found.key(right))


def test_rules_reach_extra_names() -> None:
    """In ``**kwargs`` a rule holds for the name it was declared for, not for a parameter of that name."""

    def tool(a: Any, /, **more: Any) -> None:
        """Do nothing."""

    found = compiled(tool, rules={"a": "ignore", "amount": "money", "id": "id", "at": "ignore"})
    assert found.key(1, amount=19.999, id="x", at=1) == found.key(2, id="X ", amount="20", at=9)
    assert found.key(1, a=1) != found.key(1, a=2)


def test_a_rule_that_raises_compares_exactly() -> None:
    """A callable that raises leaves the value as it is."""
    found = compiled(track, rules={"order_id": lambda value: value["id"]})
    assert found.key({"id": 1, "x": 1}) == found.key({"id": 1, "x": 2})
    assert found.key("a ") != found.key("a")


# --- calls that reached no tool ------------------------------------------------------------------


def test_generic_key() -> None:
    """Arguments of an unknown tool are compared by name in any order, or whole."""
    assert () == generic_key(None)
    assert generic_key({"a": 1, "b": [2]}) == generic_key({"b": (2,), "a": 1.0})
    assert generic_key({"a": 1}) != generic_key({"a": True})
    assert generic_key({"a": 1}) != generic_key({"b": 1})
    assert generic_key("{broken") != generic_key("{broke")
    assert hash(generic_key({"a": {}}))
    with pytest.raises(NoIdentityError):
        generic_key({"a": iter([])})


def test_exact_is_exact_for_names_that_a_tool_takes_as_kwargs() -> None:
    """A rule by name holds wherever the name is, and keeps the white space it was told to keep."""

    def look(**kwargs: str) -> str:
        return ""

    exact = compile_key(declare(look, fields={"q": "exact"}))
    assert exact.key(q="a") != exact.key(q="a ")
    assert exact.key(other="a") == exact.key(other="a ")


RULE_OR_NONE = ["exact", "space", "text", "id", "money", "path", None]
LONG_TEXTS = st.builds(
    lambda text, times: text * times, strategies.texts, st.sampled_from([100, 3_000, 9_000])
)


@pytest.mark.parametrize("rule", RULE_OR_NONE)
@pytest.mark.parametrize("effect", ["read", "write"])
@given(first=strategies.values | LONG_TEXTS, second=strategies.values | LONG_TEXTS)
def test_a_fold_told_by_the_key_is_the_fold(
    effect: Any, rule: Any, first: Any, second: Any
) -> None:
    """Where a key tells its fold, it is the fold of the arguments."""
    rules = {} if rule is None else {"order_id": rule}
    found = compiled(track, effect=effect, rules=rules)
    key = found.key(first, second)
    assert found.refold(key) in (None, found.fold(first, second))


@given(strategies.values | LONG_TEXTS, strategies.values | LONG_TEXTS)
def test_the_class_of_a_key_tells_whether_it_is_flat(first: Any, second: Any) -> None:
    """A key is a plain tuple if it shows all its texts, and has one digest whatever it is."""
    key = TRACK.key(first, second)
    assert is_flat(key) == (type(key) is tuple)
    assert digest(key) == digest(tuple(key))


def test_very_long_texts_have_one_digest() -> None:
    """A very long text is digested once: its fold is told by its key."""
    text = "One  two\n" * 5_000
    key = TRACK.key(text)
    assert TRACK.refold(key) == TRACK.fold(text)
    assert TRACK.refold(TRACK.key(text[:9_000])) is None
