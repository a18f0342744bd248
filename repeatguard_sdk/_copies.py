"""Results kept for a replay: copied on the way in and out, measured in bytes."""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import sys
import types
import uuid
from typing import Any, Final

from repeatguard_sdk._compiling import mypyc_attr
from repeatguard_sdk._types import TEXT_LIMIT, is_collection, is_mapping

_PLAIN = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        decimal.Decimal,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        uuid.UUID,
        range,
        type(Ellipsis),
    }
)
_MAX_DEPTH = 100
# The bytes of a short text are estimated, to half or twice what it takes: most calls return one, its
# place in the ledger takes more, and asking each costs more than all that is kept of it.
TEXT_HEAD: Final = 64
LETTER: Final = 2


class _TooBig(Exception):
    """The value passed its byte budget while it was measured."""


# The collector need not look into it: a copy of a result does not lead back here.
@mypyc_attr(acyclic=True)
class Stored:
    """A result kept for a replay.

    Attributes:
        value: the guard's own copy.
        size: estimated bytes.
        plain: whether the value is immutable all the way down and may be shared.
    """

    __slots__ = ("plain", "size", "value")

    def __init__(self, value: Any, size: int, plain: bool) -> None:
        self.value = value
        self.size = size
        self.plain = plain

    def deliver(self) -> Any:
        """Return the value for a receiver who may change it."""
        return self.value if self.plain else _copy(self.value, 0)


def store(value: Any, limit: int) -> Stored | None:
    """Keep a copy of `value`, or `None` when it is larger than `limit` bytes or cannot be copied."""
    if type(value) is str:
        size = plain_size(value)
        return Stored(value, size, True) if size <= limit else None
    try:
        size = _measure(value, limit, 0)
        if _is_plain(value, 0):
            return Stored(value, size, True)
        return Stored(_copy(value, 0), size, False)
    except Exception:
        # Whatever a foreign copy protocol does, it is the answer "cannot be copied".
        return None


def plain_size(value: Any) -> int:
    """Return the bytes of a plain value that is shared, not copied."""
    if type(value) is str and len(value) <= TEXT_LIMIT:
        return TEXT_HEAD + LETTER * len(value)
    return sys.getsizeof(value)


def longest_short_text(limit: int) -> int:
    """Return how long a text may be to be kept as it is, where a result may have `limit` bytes."""
    return min(TEXT_LIMIT, (limit - TEXT_HEAD) // LETTER)


def _is_plain(value: Any, depth: int) -> bool:
    kind = value.__class__
    if kind in _PLAIN or isinstance(value, enum.Enum):
        return True
    if kind is tuple or kind is frozenset:
        return depth < _MAX_DEPTH and all(_is_plain(item, depth + 1) for item in value)
    return False


def _copy(value: Any, depth: int) -> Any:
    """Copy JSON-like values by hand (several times faster than deepcopy), the rest by deepcopy."""
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if depth > _MAX_DEPTH:
        # Deep or self-referential: deepcopy has the memo that this way lacks.
        return copy.deepcopy(value)
    if kind is dict:
        named: dict[Any, Any] = value
        return {
            (key if key.__class__ in _PLAIN else copy.deepcopy(key)): _copy(item, depth + 1)
            for key, item in named.items()
        }
    if kind is list:
        listed: list[Any] = value
        return [_copy(item, depth + 1) for item in listed]
    if kind is tuple:
        parts: tuple[Any, ...] = value
        return tuple([_copy(item, depth + 1) for item in parts])
    return copy.deepcopy(value)


def _measure(value: Any, limit: int, depth: int) -> int:
    """Estimate the bytes of a value, giving up with `_TooBig` past `limit`."""
    size = sys.getsizeof(value, 64)
    if depth > _MAX_DEPTH:
        return size
    if is_mapping(value):
        for key, item in value.items():
            size += _measure(key, limit, depth + 1) + _measure(item, limit, depth + 1)
            if size > limit:
                raise _TooBig
    elif is_collection(value):
        for item in value:
            size += _measure(item, limit, depth + 1)
            if size > limit:
                raise _TooBig
    elif value.__class__ not in _PLAIN and hasattr(value, "__dict__"):
        size += _measure(vars(value), limit, depth + 1)
    if size > limit:
        raise _TooBig
    return size


def clone_error(error: BaseException) -> BaseException | None:
    """Rebuild an error without its traceback, or `None` when its class does not allow it.

    The original must not be raised again: its traceback grows with every raise and
    keeps alive every frame it passed.
    """
    ways = (_rebuilt, copy.copy) if _has_own_init(type(error)) else (copy.copy, _rebuilt)
    for way in ways:
        try:
            twin = way(error)
            if type(twin) is type(error) and str(twin) == str(error) and twin.args == error.args:
                return twin
        except Exception:
            continue
    return None


def _has_own_init(kind: type[BaseException]) -> bool:
    """Tell whether copying would call a constructor written in Python, which may do anything."""
    return isinstance(kind.__init__, types.FunctionType)


def _rebuilt(error: BaseException) -> BaseException:
    """Make the twin without its constructor: from arguments, attributes and slots."""
    kind = type(error)
    twin = kind.__new__(kind, *error.args)
    for base in kind.__mro__:
        for name in vars(base).get("__slots__", ()):
            if name not in ("__weakref__", "__dict__") and hasattr(error, name):
                object.__setattr__(twin, name, getattr(error, name))
    twin.__dict__.update(getattr(error, "__dict__", {}))
    return twin
