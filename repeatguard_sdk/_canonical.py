"""What one argument or result is compared by, inside a process and across processes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeGuard, cast

from repeatguard_sdk._encode import encode, record_fields
from repeatguard_sdk._types import TEXT_LIMIT, is_tuple
from repeatguard_sdk._walk import class_of, digested, fold_text, plain, text_digest, type_name

__all__ = [
    "TEXT_LIMIT",
    "Key",
    "Pinned",
    "VeiledKey",
    "canonical",
    "comparable",
    "comparable_error",
    "digest",
    "encode",
    "identity",
    "is_flat",
    "text_token",
    "veiled",
]

_TOKEN_LIMIT = 64
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_NONE = type(None)

# What a key shows as it is.
_FLAT = frozenset({str, int, float, _NONE})
# How a key shows `True` and `False`, so that they are not 1 and 0.
_BOOLS = frozenset({b"T", b"F"})

Key = tuple[Hashable, ...]
Volatile = tuple[str, ...] | Callable[[Any], Any]


class Pinned:
    """A token that names objects by their place in memory, and keeps them alive there.

    Two are equal if their tokens are: while one of them lives, its places hold the same objects.
    """

    __slots__ = ("objects", "token")

    def __init__(self, token: Hashable, objects: tuple[Any, ...]) -> None:
        self.token = token
        self.objects = objects

    def __eq__(self, other: object) -> bool:
        return type(other) is Pinned and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)


class VeiledKey(Key):
    """A call's key that does not show all its texts: its class tells that without a look at its parts.

    It equals the plain tuple, and the same arguments always make the same class of key.
    """

    __slots__ = ()


def is_flat(key: Hashable) -> TypeGuard[Key]:
    """Tell whether a key shows all its texts: nested and long values are digests in it."""
    return is_tuple(key) and (
        _FLAT.issuperset(map(type, key))
        or all(type(part) in _FLAT or (type(part) is bytes and part in _BOOLS) for part in key)
    )


def veiled(key: Key) -> Key:
    """Return a key as what it is: flat, or a `VeiledKey`."""
    return key if is_flat(key) else VeiledKey(key)


def canonical(
    value: Any, pins: list[Any] | None = None, *, lenient: bool = False, folded: bool = False
) -> Hashable:
    """The in-process identity of one value, to be part of a tuple that is used as a key.

    Texts, numbers and None stand for themselves, for their Python equality is the wanted one.
    Everything else becomes `bytes`, which is never a user's value: those are encoded too.

    Args:
        value: anything.
        pins: as in `encode`.
        lenient: as in `encode`.
        folded: as in `encode`.

    Raises:
        NoIdentityError: the value has no identity.
    """
    cls = class_of(value)
    if cls is bool:
        # The bytes that `encode` gives: too common to walk for.
        return b"T" if value else b"F"
    if cls is not str and cls is not int and cls is not float:
        value = _plain(value)
        cls = class_of(value)
    if cls is str:
        return text_token(fold_text(value) if folded else value)
    if cls is int or cls is _NONE:
        return cast(Hashable, value)
    if cls is float and value == value:
        return cast(Hashable, round(value, 2) if folded else value)
    raw = encode(value, pins, lenient=lenient, folded=folded)
    return raw if len(raw) <= _TOKEN_LIMIT else digested(raw)


def _plain(value: Any) -> Any:
    try:
        return plain(value)
    except Exception:
        return value


def identity(value: Any, *, folded: bool = False) -> Hashable:
    """The canonical value as one hashable thing that keeps alive what it must."""
    pins: list[Any] = []
    token = canonical(value, pins, folded=folded)
    return Pinned(token, tuple(pins)) if pins else token


def text_token(text: str) -> str | bytes:
    """The text itself, or for a long one its length and digest."""
    return text if len(text) <= TEXT_LIMIT else text_digest(text)


def digest(value: Any) -> str:
    """A short hexadecimal name of a value or a key, the same in every process.

    A key that holds a lambda or a bare object is named by where it lies: that name ends with the process.
    The digest of a key is not the digest of the arguments it was made from.

    Raises:
        NoIdentityError: the value has no identity.
    """
    import hashlib  # As in `_walk`.

    raw = encode(_unpinned(value), lenient=True)
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def _unpinned(value: Any) -> Any:
    if type(value) is Pinned:
        return value.token
    cls = class_of(value)
    if cls is tuple or cls is VeiledKey:
        return tuple(_unpinned(each) for each in value)
    return value


def comparable(result: Any, volatile: Volatile = ()) -> Hashable | None:
    """What a tool's result is compared by, or None if it has no identity.

    Args:
        result: what the tool returned; it is never changed.
        volatile: dotted names of the parts that do not count (through lists to each of their elements;
            inside JSON text too), or a callable result -> comparable; one that raises is left out.
    """
    if type(result) is str and not volatile:
        return text_token(result)
    try:
        token = canonical(_stable(result, volatile), lenient=True)
    except Exception:
        return None
    # None is the answer "no identity", so the result None needs another token.
    return b"N" if token is None else token


def _stable(result: Any, volatile: Volatile) -> Any:
    """The result without its volatile parts."""
    if callable(volatile):
        try:
            return volatile(result)
        except Exception:
            return result
    if not volatile:
        return result
    value = result
    if isinstance(result, str):
        if not result.lstrip().startswith(("{", "[")):
            return result
        try:
            value = json.loads(result)
        except (ValueError, RecursionError):
            return result
    for name in volatile:
        value = _without(value, name)
    return value


def _without(value: Any, name: str) -> Any:
    """A copy of the value that lacks the named part, wherever its path begins at the root."""
    if issubclass(class_of(value), Mapping):
        kept = {key: part for key, part in value.items() if key != name}
        head, _, rest = name.partition(".")
        if rest and head in kept:
            kept[head] = _without(kept[head], rest)
        return kept
    if isinstance(value, list | tuple):
        return [_without(part, name) for part in cast(list[Any], value)]
    fields = record_fields(value)
    return value if fields is None else (type(value), _without(fields, name))


def comparable_error(error: BaseException) -> Hashable:
    """What a tool's error is compared by: its type and its text, memory addresses masked.

    Of an exception group also the errors inside, for its own text only counts them.
    """
    return _error_token(error, 8)


def _error_token(error: BaseException, levels: int) -> Hashable:
    name = type_name(class_of(error))
    try:
        text = plain(str(error))
        if "0x" in text:
            text = _ADDRESS.sub("0x", text)
        token: Hashable = text_token(text)
    except Exception:
        token = None
    # Python 3.10 has no exception groups, but a backport of the same shape.
    inner: Any = getattr(error, "exceptions", None) if hasattr(type(error), "subgroup") else None
    if not isinstance(inner, tuple) or not levels:
        return (name, token)
    errors = cast(tuple[BaseException, ...], inner)
    return (name, token, tuple(_error_token(each, levels - 1) for each in errors))
