"""One value as bytes: deterministic, type-tagged and injective, the ground of every comparison.

`_walk` knows the builtin types; here are all others, found by their type, never by what an instance
says of itself. Types of modules that may not be imported are recognised by name.
"""

from __future__ import annotations

import datetime
import enum
import functools
import re
import sys
import types
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from repeatguard_sdk._walk import (
    Handler,
    Walk,
    a_set,
    base_value,
    bounded,
    byte_string,
    class_of,
    mapping,
    plain,
    refusal,
    sequence,
    tagged,
    type_text,
)
from repeatguard_sdk.exceptions import NoIdentityError

# Builtins that a class with fields could build on: its fields alone would not tell its value.
_CONTAINERS = (str, int, float, complex, bytes, bytearray, list, tuple, dict, set, frozenset)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def encode(
    value: Any, pins: list[Any] | None = None, *, lenient: bool = False, folded: bool = False
) -> bytes:
    """Encode one value so that equal bytes mean the same value.

    `1` is `1.0`, but `True`, `"1"` and `Decimal(1)` are not; the order of a dict or set never
    matters, that of a list does; a list and a tuple are one kind.

    Args:
        value: anything.
        pins: gets each object that was encoded by its identity (a lambda, a local function, a bare
            ``object()``); the caller keeps them alive as long as it keeps the bytes.
        lenient: for results: encode a plain instance by its type and state.
        folded: the coarser identity: text collapsed and lower-cased, floats to the cent.

    Raises:
        NoIdentityError: the value has no identity, or its own methods raise. Nothing else is raised.
    """
    try:
        return Walk(_find, pins, lenient=lenient, folded=folded).encode(value, 0)
    except NoIdentityError:
        raise
    except Exception as error:
        raise refusal(value, f"encoding it raised {type(error).__name__}") from None


# --- scalars of the standard library -------------------------------------------------------------


def _decimal(walk: Walk, value: Any, depth: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # a NaN or an infinity
        return tagged(b"D", "nan" if value.is_nan() else f"{sign}inf")
    # Not `normalize`: it rounds to the precision of the context.
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    if not short:
        return tagged(b"D", "0")
    return tagged(b"D", f"{sign}:{short}:{exponent + len(text) - len(short):x}")


def _fraction(walk: Walk, value: Any, depth: int) -> bytes:
    return tagged(b"Q", f"{value.numerator:x}/{value.denominator:x}")


def _complex(walk: Walk, value: complex, depth: int) -> bytes:
    return b"j" + walk.encode(value.real, depth) + walk.encode(value.imag, depth)


def _date(walk: Walk, value: datetime.date, depth: int) -> bytes:
    return tagged(b"d", value.isoformat())


def _datetime(walk: Walk, value: datetime.datetime, depth: int) -> bytes:
    # pandas keeps what is below a microsecond in an attribute of its own.
    below = getattr(value, "nanosecond", 0)
    if value.utcoffset() is None:
        return tagged(b"t", f"{value.replace(tzinfo=None).isoformat()}+{below}")
    instant = value - _EPOCH
    return tagged(b"z", f"{instant.days}:{instant.seconds}:{instant.microseconds}+{below}")


def _time(walk: Walk, value: datetime.time, depth: int) -> bytes:
    offset = value.utcoffset()
    zone = "" if value.tzinfo is None else str(value.tzinfo if offset is None else offset)
    return tagged(b"h", f"{value.replace(tzinfo=None).isoformat()} {zone}")


def _timedelta(walk: Walk, value: datetime.timedelta, depth: int) -> bytes:
    below = getattr(value, "nanoseconds", 0)
    return tagged(b"l", f"{value.days}:{value.seconds}:{value.microseconds}+{below}")


def _uuid(walk: Walk, value: Any, depth: int) -> bytes:
    return tagged(b"U", f"{value.int:x}")


def _path(walk: Walk, value: Any, depth: int) -> bytes:
    return tagged(b"P", value.as_posix())


def _windows_path(walk: Walk, value: Any, depth: int) -> bytes:
    return tagged(b"W", value.as_posix())


def _enum(walk: Walk, value: enum.Enum, depth: int) -> bytes:
    # A combination of flags has no name in Python 3.10.
    member = value.name or value.value
    return tagged(b"E", type_text(class_of(value))) + walk.encode(member, depth)


def _range(walk: Walk, value: Any, depth: int) -> bytes:
    parts = walk.each((value.start, value.stop, value.step), depth)
    return tagged(b"r", type(value).__name__) + b"".join(parts)


def _pattern(walk: Walk, value: re.Pattern[Any], depth: int) -> bytes:
    return b"p" + walk.encode(value.pattern, depth) + walk.encode(int(value.flags), depth)


def _constant(walk: Walk, value: Any, depth: int) -> bytes:
    return tagged(b"K", repr(value))


def _memory(walk: Walk, value: memoryview, depth: int) -> bytes:
    return byte_string(walk, value.tobytes(), depth)


def _array(walk: Walk, value: Any, depth: int) -> bytes:
    item = plain(value)
    if type(item) is not type(value):
        return walk.encode(item, depth)
    if value.dtype.hasobject:
        raise refusal(value, "its elements are arbitrary objects")
    head = tagged(b"A", f"{value.dtype.descr!r} {value.shape!r}")
    return head + byte_string(walk, value.tobytes(), depth)


# --- code and identity ---------------------------------------------------------------------------


def _by_identity(walk: Walk, value: Any, depth: int) -> bytes:
    if walk.pins is None:
        raise refusal(value, "only its place in memory tells it from another")
    walk.pins.append(value)
    return b"@%x;" % id(value)


def _class(walk: Walk, value: type, depth: int) -> bytes:
    return tagged(b"C", type_text(value))


def _function(walk: Walk, value: Any, depth: int) -> bytes:
    # A name counts only if it leads back to this very function: a wrapper may carry another's name.
    module, name = value.__module__, value.__qualname__
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return tagged(b"G", f"{module}:{name}") if found is value else _by_identity(walk, value, depth)


def _method(walk: Walk, value: types.MethodType, depth: int) -> bytes:
    return b"M" + walk.encode(value.__func__, depth + 1) + walk.encode(value.__self__, depth + 1)


# --- values with fields --------------------------------------------------------------------------


def record_fields(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass, attrs, pydantic or msgspec instance; None for anything else.

    What else stands in its ``__dict__`` counts too (a subclass may add to it), but no cached property.
    """
    cls = class_of(value)
    names: set[str] = set()
    if hasattr(cls, "__dataclass_fields__"):
        # Loaded already, for the class was made with it.
        from dataclasses import fields

        names.update(field.name for field in fields(cls))
    elif hasattr(cls, "__attrs_attrs__"):
        names.update(field.name for field in cls.__attrs_attrs__)
    elif hasattr(cls, "__struct_fields__"):
        names.update(cls.__struct_fields__)
    elif not any(hasattr(cls, name) for name in _FIELD_MARKS):
        return None
    for name in getattr(value, "__dict__", ()):
        if not isinstance(getattr(cls, name, None), functools.cached_property):
            names.add(name)
    # A field that was never set stays out; it is another value than one set to None.
    absent = object()
    found = {name: getattr(value, name, absent) for name in names}
    found = {name: part for name, part in found.items() if part is not absent}
    extra = getattr(value, "__pydantic_extra__", None)
    return {**found, **extra} if isinstance(extra, dict) else found


def _record(walk: Walk, value: Any, depth: int) -> bytes:
    if isinstance(value, _CONTAINERS):
        raise refusal(value, "it has both fields and contents")
    return walk.container(value, depth, _build_record)


def _build_record(walk: Walk, value: Any, depth: int) -> bytes:
    return tagged(b"R", type_text(class_of(value))) + walk.encode(record_fields(value), depth)


def _typed_sequence(walk: Walk, value: Any, depth: int) -> bytes:
    return walk.container(value, depth, _build_typed_sequence)


def _build_typed_sequence(walk: Walk, value: Any, depth: int) -> bytes:
    parts = walk.each(bounded(value, len(value)), depth)
    return tagged(b"S", type_text(class_of(value))) + b"".join(parts) + b"]"


def _instance(walk: Walk, value: Any, depth: int) -> bytes:
    """Encode an instance by its state, as pickling would.

    Python knows which types keep state that it cannot see (files, locks, generators) and refuses them.
    In an argument, only a type that defines its own equality and hash says that it is a value.
    """
    cls = class_of(value)
    if hasattr(cls, "__next__") or hasattr(cls, "__anext__"):
        raise refusal(value, "an iterator is used up by looking at it")
    own: list[Any] = [cls.__eq__, cls.__hash__]
    a_value = own[0] is not object.__eq__ and own[1] is not object.__hash__ and own[1] is not None
    if not (a_value or walk.lenient):
        raise refusal(value, "it defines no equality of its own")
    return walk.container(value, depth, _build_instance)


def _build_instance(walk: Walk, value: Any, depth: int) -> bytes:
    reduced = value.__reduce_ex__(2)
    if not isinstance(reduced, str) and any(part is not None for part in reduced[3:]):
        raise refusal(value, "its state is not plain")
    return tagged(b"O", type_text(class_of(value))) + walk.encode(reduced, depth)


# --- which of them -------------------------------------------------------------------------------

_BY_TYPE: dict[type, Handler] = {
    complex: _complex,
    datetime.date: _date,
    datetime.datetime: _datetime,
    datetime.time: _time,
    datetime.timedelta: _timedelta,
    range: _range,
    slice: _range,
    re.Pattern: _pattern,
    memoryview: _memory,
    type(...): _constant,
    type(NotImplemented): _constant,
    object: _by_identity,
    types.FunctionType: _function,
    types.BuiltinFunctionType: _function,
    types.MethodType: _method,
}

_BY_NAME: dict[str, Handler] = {
    "decimal.Decimal": _decimal,
    "fractions.Fraction": _fraction,
    "uuid.UUID": _uuid,
    "pathlib.PureWindowsPath": _windows_path,
    "pathlib.PurePath": _path,
    "collections.deque": _typed_sequence,
    "numpy.ndarray": _array,
    "numpy.generic": _array,
}

_FIELD_MARKS = (
    "__dataclass_fields__",
    "__attrs_attrs__",
    "__struct_fields__",
    "__pydantic_fields__",
    "model_fields",
    "__fields_set__",  # pydantic 1
)

_FAMILIES: tuple[tuple[type | tuple[type, ...], Handler], ...] = (
    ((str, int, float), base_value),
    ((bytes, bytearray), byte_string),
    ((dict, Mapping), mapping),
    ((set, frozenset, AbstractSet), a_set),
    (type, _class),
)


def _find(cls: type) -> Handler:
    """The handler of a type that is not a plain builtin."""
    found = _BY_TYPE.get(cls)
    if found is not None:
        return found
    has_fields = any(hasattr(cls, name) for name in _FIELD_MARKS)
    named_parts = hasattr(cls, "_fields")
    if issubclass(cls, enum.Enum):
        return _enum
    if has_fields:
        return _record
    for base in cls.__mro__[:-1]:
        # pathlib's classes live in `pathlib._local` in Python 3.13.
        name = f"{base.__module__.removesuffix('._local')}.{base.__qualname__}"
        found = _BY_NAME.get(name) or _BY_TYPE.get(base)
        if found is not None:
            return found
    for family, handler in _FAMILIES:
        if issubclass(cls, family):
            return handler
    if issubclass(cls, tuple | list):
        return _typed_sequence if named_parts else sequence
    return _instance
