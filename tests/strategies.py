"""Hypothesis strategies for arguments, results and tools."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from pathlib import PurePosixPath
from typing import Any

from hypothesis import strategies as st


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    ONE = 1


texts = st.text(max_size=8) | st.text(alphabet=" \n\taAb", max_size=5)
flat = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-5, max_value=5)
    | st.integers()
    | st.floats()
    | texts
)


def json_values(leaves: st.SearchStrategy[Any] = flat) -> st.SearchStrategy[Any]:
    """Values a model can write as JSON."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )


keys = st.integers() | st.booleans() | texts | st.none() | st.binary(max_size=3)
scalars = (
    flat
    | st.binary(max_size=4)
    | st.decimals(allow_nan=False, places=2, min_value=-9, max_value=9)
    | st.fractions(max_denominator=9)
    | st.dates()
    | st.datetimes(timezones=st.just(datetime.timezone.utc) | st.none())
    | st.timedeltas()
    | st.uuids()
    | st.sampled_from([Colour.RED, Level.ONE])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=4)
        | st.frozensets(scalars, max_size=3)
    ),
    max_leaves=10,
)

# Each of these is another value than all others, however alike they look.
DIFFERENT: list[Any] = [
    None,
    "None",
    True,
    "True",
    False,
    0,
    1,
    "1",
    1.5,
    "1.5",
    float("inf"),
    float("nan"),
    "nan",
    1j,
    b"1",
    b"T",
    b"N",
    b"",
    "",
    "T",
    decimal.Decimal(1),
    decimal.Decimal("1.5"),
    decimal.Decimal("NaN"),
    decimal.Decimal("Infinity"),
    datetime.date(2026, 1, 1),
    datetime.datetime(2026, 1, 1),
    datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
    "2026-01-01",
    "2026-01-01T00:00:00",
    datetime.time(0, 0),
    datetime.timedelta(0),
    uuid.UUID(int=1),
    str(uuid.UUID(int=1)),
    PurePosixPath("a"),
    "a",
    Colour.RED,
    "red",
    "Colour.RED",
    Level.ONE,
    [],
    {},
    frozenset(),
    [1],
    ["1"],
    [True],
    [[1]],
    {1},
    {1: 1},
    {"1": 1},
    {"1": "1"},
    {"1": None},
    [None],
    range(3),
    [0, 1, 2],
    int,
    "int",
    len,
    ...,
    "Ellipsis",
]
