"""What one value is compared by."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import json
import math
import pathlib
import re
import subprocess
import sys
import threading
import types
import uuid
from typing import Any, NamedTuple

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from repeatguard_sdk._canonical import (
    Pinned,
    canonical,
    comparable,
    comparable_error,
    digest,
    encode,
    identity,
)
from repeatguard_sdk.exceptions import NoIdentityError

UTC = datetime.timezone.utc


class Point(NamedTuple):
    x: int
    y: int


class Size(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Address:
    city: str
    tags: list[str] = dataclasses.field(default_factory=list)

    @functools.cached_property
    def upper(self) -> str:
        return self.city.upper()


@dataclasses.dataclass
class OtherAddress:
    city: str
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Slotted:
    __slots__ = ("city",)
    city: str


@attrs.frozen
class Order:
    number: str
    amount: float = 0.0


class Plain:
    def __init__(self, value: Any = None) -> None:
        self.value = value


class Version:
    """A value by its own word."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


class Text(str):
    """A text that shouts when printed."""

    def __str__(self) -> str:
        return self.upper()


class Perm(enum.Flag):
    READ = 1
    WRITE = 2


def module_function() -> None:
    """Do nothing."""


def _equal(left: Any, right: Any) -> bool:
    return identity(left) == identity(right)


# --- one value, two spellings --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (-0.0, 0),
        ([1], [1.0]),
        (2**70, float(2**70)),
        (math.nan, -math.nan),
        ([math.nan], [float("nan")]),
        ([1, 2], (1, 2)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}),
        ({1: "a", "1": "b", None: "c"}, {None: "c", "1": "b", 1: "a"}),
        ({3, 1, "x"}, frozenset(["x", 1, 3])),
        (decimal.Decimal("1.0"), decimal.Decimal(1)),
        (decimal.Decimal("1E+2"), decimal.Decimal(100)),
        (decimal.Decimal("-0"), decimal.Decimal("0.00")),
        (fractions.Fraction(2, 4), fractions.Fraction(1, 2)),
        (b"ab", bytearray(b"ab")),
        (b"ab", memoryview(b"ab")),
        (b"b", memoryview(b"abcd")[1:2]),
        (
            datetime.datetime(2026, 1, 1, 12, tzinfo=UTC),
            datetime.datetime(
                2026, 1, 1, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=1))
            ),
        ),
        (pathlib.Path("a/b"), pathlib.PurePosixPath("a/b")),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (collections.ChainMap({"a": 1}, {"b": 2}), {"a": 1, "b": 2}),
        ({"a": 1}.keys(), {"a"}),
        (Text("abc"), "abc"),
        ([Text("abc")], ["abc"]),
        (Point(1, 2), Point(1, 2)),
        (Address("Bonn", ["x"]), Address("Bonn", ["x"])),
        (Slotted("Bonn"), Slotted("Bonn")),
        (Order("A1"), Order("A1", 0)),
        (Version("1"), Version("1")),
        (ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("10.0.0.1")),
        (Perm.READ | Perm.WRITE, Perm(3)),
        (re.compile("a"), re.compile("a")),
        (collections.deque([1]), collections.deque([1])),
        (Plain, Plain),
        (module_function, module_function),
        (list[int], list[int]),
        ("x" * 1000, "x" * 1000),
        ("\ud800", "\ud800"),
        (["\ud800" * 2000], ["\ud800" * 2000]),
        (10**5000, 10**5000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_one_value_two_spellings(left: Any, right: Any) -> None:
    """Two spellings of one value have one identity, which can be hashed."""
    assert identity(left) == identity(right)
    assert hash(identity(left)) == hash(identity(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([1, 2], [2, 1]),
        (["ab", "c"], ["a", "bc"]),
        ([["a"], "b"], [["a", "b"]]),
        ({"a": "b"}, ["a", "b"]),
        ({"a": None}, {}),
        ("x" * 1000, "x" * 1001),
        (["x" * 2000], ["x" * 1999 + "y"]),
        (2**53 + 1, float(2**53)),
        (decimal.Decimal("1." + "1" * 40), decimal.Decimal("1." + "1" * 41)),
        (Point(1, 2), (1, 2)),
        (Point(1, 2), Size(1, 2)),
        (Address("Bonn"), OtherAddress("Bonn")),
        (Address("Bonn"), Address("Köln")),
        (Address("Bonn"), {"city": "Bonn", "tags": []}),
        (Order("A1"), Order("A2")),
        (Version("1"), Version("2")),
        (Perm.READ, Perm.WRITE),
        (Perm(0), Perm.READ),
        (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
        (re.compile("a"), re.compile("a", re.IGNORECASE)),
        (collections.deque([1]), [1]),
        (pathlib.PureWindowsPath("a"), pathlib.PurePosixPath("a")),
        (datetime.time(12), datetime.time(12, tzinfo=UTC)),
        (Plain, Version),
        (b"x" * 2000, b"x" * 1999 + b"y"),
    ],
)
def test_two_values(left: Any, right: Any) -> None:
    """Values that differ have different identities, also behind a digest and inside a container."""
    assert not _equal(left, right)
    assert not _equal([left], [right])


def test_no_two_of_the_pool_are_conflated() -> None:
    """Of values that only look alike no two are one, alone or in a list, a dict or a result."""
    pool = strategies.DIFFERENT
    for wrap in (lambda v: v, lambda v: [v], lambda v: {"k": v}):
        tokens = [identity(wrap(value)) for value in pool]
        assert len(pool) == len(set(tokens))
    assert len(pool) == len({comparable(value) for value in pool})


def test_user_bytes_never_meet_a_token() -> None:
    """Bytes that a user passes are not taken for the encoding of another value."""
    for value in strategies.DIFFERENT:
        token = canonical(value)
        if isinstance(token, bytes):
            assert token != canonical(token)
            assert token != canonical(token.decode("latin-1"))


def test_classes_of_one_name() -> None:
    """Two classes of the same module and name are two, and so are their instances."""

    def make() -> Any:
        @dataclasses.dataclass
        class Local:
            x: int

        return Local

    first, second = make(), make()
    assert _equal(first(1), first(1))
    assert not _equal(first(1), second(1))
    assert not _equal(first, second)


def test_what_a_subclass_adds_counts() -> None:
    """An attribute beside the fields counts, a cached property does not."""
    left, right = Address("Bonn"), Address("Bonn")
    assert left.upper == "BONN"
    assert _equal(left, right)
    right.extra = 1  # type: ignore[attr-defined]
    assert not _equal(left, right)


def test_pydantic() -> None:
    """A model is compared by its type, fields and extras."""
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        model_config = pydantic.ConfigDict(extra="allow")
        x: int

    class Other(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        x: int

    assert _equal(Model(x=1, note="a"), Model(note="a", x=1))
    assert not _equal(Model(x=1, note="a"), Model(x=1, note="b"))
    assert not _equal(Model(x=1), Other(x=1))
    assert _equal(pydantic.SecretStr("a"), pydantic.SecretStr("a"))
    assert not _equal(pydantic.SecretStr("a"), pydantic.SecretStr("b"))
    assert comparable(Model(x=1, at=3), ("at",)) == comparable(Model(x=1, at=4), ("at",))


def test_numpy() -> None:
    """A numpy scalar is its Python value; an array has its type, shape and bytes."""
    np = pytest.importorskip("numpy")
    assert canonical(np.int64(1)) == canonical(1)
    assert canonical(np.float64(1.5)) == canonical(1.5)
    assert canonical(np.bool_(True)) == canonical(True)
    assert _equal(np.array([1, 2]), np.array([1, 2]))
    assert not _equal(np.array([1, 2]), np.array([[1, 2]]))
    assert not _equal(np.array([1], "i4"), np.array([1], "i8"))
    assert not _equal(np.datetime64(1, "ns"), 1)
    with pytest.raises(NoIdentityError):
        identity(np.array([object()]))


# --- identity by place ---------------------------------------------------------------------------


def test_pins() -> None:
    """A lambda, a local function and a bare object are themselves, and are kept alive."""

    def local() -> None:
        """Do nothing."""

    for make in (lambda: lambda: 0, object, lambda: functools.wraps(module_function)(lambda: 0)):
        one, other = make(), make()
        assert _equal(one, one)
        assert _equal({"f": one}, {"f": one})
        assert not _equal(one, other)
        found = identity([one, local])
        assert isinstance(found, Pinned)
        assert (one, local) == found.objects
        with pytest.raises(NoIdentityError):
            canonical(one)


def test_pinned_is_no_other_value() -> None:
    """A pinned token equals only a pinned token."""
    found = identity(object())
    assert isinstance(found, Pinned)
    assert found != found.token


# --- no identity ---------------------------------------------------------------------------------


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    def __hash__(self) -> int:
        raise ZeroDivisionError

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ZeroDivisionError

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise ZeroDivisionError

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError


class HostileMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise ZeroDivisionError

    def __hash__(cls) -> int:
        raise ZeroDivisionError


def _hostile_class() -> Any:
    # Not at module level: pytest looks at each class there.
    class HostileClass(metaclass=HostileMeta):
        pass

    return HostileClass


class EndlessDict(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        while True:
            yield "a", 1


class EndlessList(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        while True:
            yield 1


class HostileText(str):
    def split(self, *args: Any) -> Any:
        raise ZeroDivisionError

    def __len__(self) -> int:
        raise ZeroDivisionError

    def __hash__(self) -> int:
        raise ZeroDivisionError


def _selfish() -> Any:
    value: list[Any] = []
    value.append({"a": value})
    return value


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "make",
    [
        Plain,
        Hostile,
        lambda: _hostile_class()(),
        _hostile_class,
        EndlessDict,
        EndlessList,
        lambda: iter([1]),
        lambda: (x for x in [1]),
        lambda: open(__file__),  # noqa: SIM115
        threading.Lock,
        lambda: sys,
        lambda: Plain().__init__,
        lambda: map(str, []),
        _selfish,
        lambda: _deep(300),
        lambda: types.SimpleNamespace(a=1),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_no_identity(make: Any) -> None:
    """What has no identity is refused by an error that names its type, also deep inside."""
    value = make()
    for each in (value, [value], {"k": value}, (1, {"a": [value]})):
        with pytest.raises(NoIdentityError, match="identity"):
            identity(each)


def test_no_identity_names_the_type() -> None:
    """The error says which type it was."""
    with pytest.raises(NoIdentityError, match=r"Plain has no identity"):
        identity([1, Plain()])


def test_a_subclass_cannot_make_text_hostile() -> None:
    """A text subclass is read by the methods of text."""
    assert identity(HostileText("abc")) == "abc"
    assert _equal([HostileText("abc")], ["abc"])


def test_a_deep_value_has_an_identity() -> None:
    """A value nested deeper than any real argument is compared all the same."""
    assert _equal(_deep(100), _deep(100))
    assert not _equal(_deep(100), _deep(101))


def test_shared_parts_do_not_explode() -> None:
    """A structure that holds its parts twice at each of many levels is encoded at once."""
    left: Any = ["x"]
    right: Any = ["x"]
    for _ in range(100):
        left, right = [left, left], [right, list(right)]
    assert _equal(left, right)


def _with_odd_ones(value: Any) -> Any:
    """The value with each complex number replaced by an object that Hypothesis could not print."""
    odd = (Hostile, _hostile_class(), Plain, object, lambda: sys.stdin, lambda: Text("a"))
    if isinstance(value, complex):
        return odd[int(value.real)]()
    if isinstance(value, list):
        return [_with_odd_ones(each) for each in value]
    if isinstance(value, dict):
        return {key: _with_odd_ones(each) for key, each in value.items()}
    return value


@given(strategies.json_values(st.integers(0, 5).map(complex) | strategies.flat))
def test_only_one_error(value: Any) -> None:
    """Whatever it is given, `encode` returns bytes or raises NoIdentityError."""
    value = _with_odd_ones(value)
    for options in ({}, {"lenient": True}, {"folded": True}, {"pins": []}):
        try:
            assert isinstance(encode(value, **options), bytes)  # type: ignore[arg-type]
        except NoIdentityError:
            pass


# --- laws ----------------------------------------------------------------------------------------


def _oracle(value: Any) -> Any:
    """A slow and obvious form of a JSON value: types spelled out, dicts as sorted pairs."""
    if isinstance(value, dict):
        return ["dict", sorted(([k, _oracle(v)] for k, v in value.items()), key=json.dumps)]
    if isinstance(value, list):
        return ["list", [_oracle(v) for v in value]]
    if isinstance(value, float) and math.isnan(value):
        return ["nan"]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return [type(value).__name__, value]


@given(strategies.json_values(), strategies.json_values())
def test_json_values_against_a_slow_oracle(left: Any, right: Any) -> None:
    """Two JSON values have one encoding exactly if a slow canonical form is one."""
    same = json.dumps(_oracle(left)) == json.dumps(_oracle(right))
    assert same == (encode(left) == encode(right))
    assert same == (canonical(left) == canonical(right))


def _shuffled(value: Any) -> Any:
    """The same value with every dict and set built in the other order, lists as tuples."""
    if isinstance(value, dict):
        return {key: _shuffled(value[key]) for key in reversed(list(value))}
    if isinstance(value, list | tuple):
        return tuple(_shuffled(each) for each in value)
    if isinstance(value, frozenset):
        return set(value)
    return value


@given(strategies.values)
def test_order_is_irrelevant(value: Any) -> None:
    """The order of dicts and sets never matters, at any depth; nor does list or tuple."""
    assert encode(value) == encode(_shuffled(value))


@given(strategies.values, strategies.values)
def test_folding_is_coarser(left: Any, right: Any) -> None:
    """What is equal stays equal when folded."""
    if canonical(left) == canonical(right):
        assert canonical(left, folded=True) == canonical(right, folded=True)


@given(strategies.values)
def test_encoding_has_no_beginning_of_another(value: Any) -> None:
    """Encodings put side by side keep their borders."""
    raw = encode(value)
    assert encode([value, value]) != encode([[value, value]])
    assert b"" != raw


def test_folded() -> None:
    """Text at any depth is collapsed and lower-cased, floats are rounded, sizes do not matter."""
    left = {"q": {"name": "Bob  B ", "at": 1.001}}
    right = {"q": {"name": "bob b", "at": 1.0}}
    assert canonical(left, folded=True) == canonical(right, folded=True)
    assert canonical(left) != canonical(right)


# --- digests -------------------------------------------------------------------------------------


def test_digest_is_stable_across_processes() -> None:
    """Another process with another hash seed gives the same digest."""
    code = (
        "import datetime, decimal, pathlib\n"
        "from repeatguard_sdk._canonical import digest\n"
        "print(digest(({'b': {'x', 'y', 'z'}, 'a': [1, None, True]}, decimal.Decimal('1.5'),"
        " datetime.date(2026, 1, 1), pathlib.PurePath('a'))))"
    )
    root = str(pathlib.Path(__file__).parents[1])
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert 1 == len(found)
    assert re.fullmatch(r"[0-9a-f]{32}\n", found.pop())


def test_digest_of_a_pinned_key() -> None:
    """A key that holds a pinned token has a digest too."""
    key = ("a", (identity(object()),))
    assert digest(key) == digest(key)
    assert digest(key) != digest(("a",))


# --- results -------------------------------------------------------------------------------------


def test_comparable_of_texts() -> None:
    """A short text is itself, a long one a small token, and no text is no result."""
    assert "done" == comparable("done")
    assert 64 > len(comparable("x" * 10_000))  # type: ignore[arg-type]
    assert comparable(None) is not None
    assert comparable(None) != comparable("None")
    assert comparable("") is not None


def test_comparable_of_instances() -> None:
    """A plain instance is compared by its type and state, an unreadable one not at all."""
    assert comparable(Plain(1)) == comparable(Plain(1))
    assert comparable(Plain(1)) != comparable(Plain(2))
    assert comparable(types.SimpleNamespace(a=1)) == comparable(types.SimpleNamespace(a=1))
    for value in (Plain(threading.Lock()), object(), iter([1]), _selfish(), Hostile(), sys.stdin):
        assert comparable(value) is None


@pytest.mark.parametrize(
    ("left", "right", "volatile"),
    [
        ({"a": 1, "id": 2}, {"a": 1, "id": 3}, ("id",)),
        ({"a": 1, "id": 2}, {"a": 1}, ("id",)),
        ({"d": {"m": 1, "n": 2}}, {"d": {"m": 9, "n": 2}}, ("d.m",)),
        ({"d": [{"m": 1}, {"m": 2}]}, {"d": [{"m": 3}, {"m": 4}]}, ("d.m",)),
        ([{"id": 1, "a": 2}], [{"id": 2, "a": 2}], ("id",)),
        ('{"a": 1, "id": 2}', '{"id": 3, "a": 1}', ("id",)),
        (' [{"id": 1}]', '[{"id": 2}]', ("id",)),
        ({"x.y": 1}, {"x.y": 2}, ("x.y",)),
        (Address("Bonn", ["a"]), Address("Bonn", ["b"]), ("tags",)),
        ({"p": Order("A", 1)}, {"p": Order("A", 2)}, ("p.amount",)),
        ({"a": 1, "b": 2}, {"a": 3, "b": 4}, ("a", "b")),
        ({"a": 1, "t": 5}, {"a": 1, "t": 6}, lambda result: result["a"]),
    ],
)
def test_volatile_parts(left: Any, right: Any, volatile: Any) -> None:
    """Volatile parts do not count, wherever their path exists."""
    assert comparable(left) != comparable(right)
    assert comparable(left, volatile) == comparable(right, volatile)


def test_volatile_parts_elsewhere_count() -> None:
    """A name is a path from the root, not a name at any depth, and other types are told apart."""
    assert comparable({"d": {"id": 1}}, ("id",)) != comparable({"d": {"id": 2}}, ("id",))
    assert comparable({"d": 1}, ("d.id",)) != comparable({"d": 2}, ("d.id",))
    left, right = Address("Bonn"), OtherAddress("Bonn")
    assert comparable(left, ("tags",)) != comparable(right, ("tags",))
    assert comparable("{not json", ("a",)) != comparable("{no json", ("a",))
    assert comparable("[" * 5000, ("a",)) is not None


def test_volatile_callable_that_raises() -> None:
    """A callable that raises leaves the whole result to be compared."""
    assert comparable({"a": 1}, lambda r: r["b"]) == comparable({"a": 1})
    assert comparable({"a": 1}, lambda r: r["b"]) != comparable({"a": 2}, lambda r: r["b"])


@given(strategies.json_values())
def test_volatile_never_changes_the_result(result: Any) -> None:
    """Comparing leaves the result as it was."""
    wrapped = {"a": {"b": result, "c": [result]}, "d": 1}
    before = encode(wrapped)
    comparable(wrapped, ("a.b", "d", "a.c"))
    assert before == encode(wrapped)


# --- errors --------------------------------------------------------------------------------------


def test_errors() -> None:
    """Errors are compared by type and text, without memory addresses."""
    assert comparable_error(ValueError("x")) == comparable_error(ValueError("x"))
    assert comparable_error(ValueError("x")) != comparable_error(ValueError("y"))
    assert comparable_error(ValueError("x")) != comparable_error(TypeError("x"))
    first, second = object(), object()
    assert comparable_error(ValueError(first)) == comparable_error(ValueError(second))
    assert hash(comparable_error(ValueError("x" * 10_000)))


def test_errors_that_cannot_be_printed() -> None:
    """An error whose text raises is told by its type."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    assert comparable_error(Mute()) == comparable_error(Mute())
    assert comparable_error(Mute()) != comparable_error(ValueError())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are new in 3.11")
def test_error_groups() -> None:
    """A group is compared by the errors inside, which its own text only counts."""
    group: Any = __builtins__["ExceptionGroup"]  # type: ignore[index]
    left, right = group("g", [ValueError("a")]), group("g", [ValueError("b")])
    assert comparable_error(left) == comparable_error(group("g", [ValueError("a")]))
    assert comparable_error(left) != comparable_error(right)


def test_uuid_is_not_its_text() -> None:
    """A UUID and its text are two values."""
    value = uuid.uuid4()
    assert not _equal(value, str(value))
