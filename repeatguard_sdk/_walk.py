"""The walk through a value that makes bytes of it, and the bytes of the builtin types.

Each kind of value starts with a tag of its own and ends where its own bytes say so (a length, a
terminator or a fixed width). No encoding is the beginning of another, so encodings can be put side
by side without a separator and two different values never meet.
"""

from __future__ import annotations

import enum
import struct
import threading
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from repeatguard_sdk.exceptions import NoIdentityError

MAX_DEPTH = 200
# What is longer than this is replaced by its digest inside the container that holds it: a megabyte is
# not copied level by level, and a structure that shares its parts (`x = [y, y]`, thirty times over)
# does not double with each.
_DIGEST_FROM = 1024
_FOLD_LIMIT = 20_000

# `type` as a function, for type checkers: of an Any it gives an unknown class.
class_of: Callable[[Any], type[Any]] = type

_HEADS = [b"s%d:" % size for size in range(128)]
_double = struct.Struct(">d").pack


class Walk:
    """One encoding under way: its options and the containers it has met.

    Attributes:
        pins: collects the objects that were encoded by identity; None forbids such objects.
        lenient: encode a plain instance by its state instead of refusing it.
        folded: collapse and lower-case all text and round floats to the cent.
        find: gives the handler of a type that is not a plain builtin.
        memo: id -> (the container, its bytes or None while it is being encoded). It finds cycles, and
            it holds the container so that no id is used twice during the walk.
    """

    __slots__ = ("find", "folded", "lenient", "memo", "pins")

    def __init__(
        self,
        find: Callable[[type], Handler],
        pins: list[Any] | None,
        *,
        lenient: bool,
        folded: bool,
    ) -> None:
        self.find = find
        self.pins = pins
        self.lenient = lenient
        self.folded = folded
        self.memo: dict[int, tuple[Any, bytes | None]] = {}

    def encode(self, value: Any, depth: int) -> bytes:
        """The bytes of one value, `depth` levels below the outermost one."""
        cls = class_of(value)
        handler = EXACT.get(cls)
        if handler is None:
            handler = self.find(cls)
        return handler(self, value, depth)

    def each(self, values: Iterable[Any], depth: int) -> list[bytes]:
        """The bytes of several values of one container."""
        # `encode`, written out: this loop is where a large argument spends its time.
        exact, find = EXACT.get, self.find
        return [
            (exact(class_of(value)) or find(class_of(value)))(self, value, depth)
            for value in values
        ]

    def container(self, value: Any, depth: int, build: Handler) -> bytes:
        """The bytes of a value that holds others: built once, a digest where they are long."""
        mark = id(value)
        known = self.memo.get(mark)
        if known is not None:
            if known[1] is None:
                raise refusal(value, "it contains itself")
            return known[1]
        if depth >= MAX_DEPTH:
            raise refusal(value, f"it is more than {MAX_DEPTH} levels deep")
        self.memo[mark] = (value, None)
        raw = build(self, value, depth + 1)
        if len(raw) > _DIGEST_FROM:
            raw = digested(raw)
        self.memo[mark] = (value, raw)
        return raw


Handler = Callable[[Walk, Any, int], bytes]


def refusal(value: Any, why: str) -> NoIdentityError:
    """The error that says which type has no identity, and why."""
    return NoIdentityError(f"a value of type {type_name(class_of(value))} has no identity: {why}")


def digested(raw: bytes) -> bytes:
    """A digest with a tag of its own, in place of a long encoding."""
    return b"#" + _hash(raw)


def text_digest(text: str) -> bytes:
    """A digest with a tag of its own, in place of a long text."""
    return b"$%d:%b" % (len(text), _hash(text.encode("utf-8", "surrogatepass")))


def _hash(raw: bytes | bytearray) -> bytes:
    # Imported here: it loads OpenSSL, and no flat value is digested.
    import hashlib

    return hashlib.blake2b(raw, digest_size=16).digest()


def tagged(tag: bytes, text: str) -> bytes:
    """A text of a known kind: tag, length, UTF-8 (lone surrogates pass)."""
    raw = text.encode("utf-8", "surrogatepass")
    return b"%b%d:%b" % (tag, len(raw), raw)


def fold_text(text: str) -> str:
    """The text as suspicion sees it: white space collapsed, lower case.

    A very long one is stood for by its digest: to collapse a megabyte takes 15 ms, and nobody writes
    one twice with other blanks.
    """
    if len(text) > _FOLD_LIMIT:
        return text_digest(text).decode("latin-1")
    return " ".join(text.split()).lower()


def fold_of_digest(token: Any) -> str | None:
    """The fold of a very long text that a key shows as `text_digest`; None for any other element."""
    if type(token) is not bytes or not token.startswith(b"$"):
        return None
    size = int(token[1 : token.index(b":")])
    return token.decode("latin-1") if size > _FOLD_LIMIT else None


def plain(value: Any) -> Any:
    """The base value of a str, int or float subclass and of a numpy scalar; anything else as it is.

    An enum member is not its value, nor a bool a number.
    """
    cls = class_of(value)
    if cls in EXACT or issubclass(cls, enum.Enum):
        return value
    # The base class's own methods: a subclass may have overridden them.
    if issubclass(cls, str):
        return str.__str__(value)
    if issubclass(cls, int):
        return int.__int__(value)
    if issubclass(cls, float):
        return float.__float__(value)
    if cls.__module__ == "numpy" and getattr(cls, "dtype", None) is not None and value.shape == ():
        item = value.item()
        # The kinds whose Python value says everything; not a datetime64 in nanoseconds.
        if value.dtype.kind in "biufSU" and type(item) in (bool, int, float, bytes, str):
            return item
    return value


def bounded(values: Iterable[Any], size: int) -> list[Any]:
    """The elements of a foreign container, refusing one that yields more or fewer than it says."""
    found: list[Any] = []
    for value in values:
        if len(found) == size:
            break
        found.append(value)
    else:
        if len(found) == size:
            return found
    msg = "a container that yields another number of elements than its length has no identity"
    raise NoIdentityError(msg)


# --- types by name -------------------------------------------------------------------------------

# The two tables belong together: a second class of the same name must get another number. The lock
# protects that pair against two threads meeting two such classes at once.
_type_texts: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
_types_of_name: dict[str, int] = {}
_naming = threading.Lock()


def type_name(cls: type) -> str:
    """``module.qualname``; a class that lies about it or raises gets a name all the same."""
    try:
        return f"{type.__getattribute__(cls, '__module__')}.{type.__getattribute__(cls, '__qualname__')}"
    except Exception:
        return "(unnamed)"


def type_text(cls: type) -> str:
    """The name of a class, the same in each process, numbered when this process has two of the name."""
    found = _type_texts.get(cls)
    if found is None:
        name = type_name(cls)
        with _naming:
            found = _type_texts.get(cls)
            if found is None:
                count = _types_of_name[name] = _types_of_name.get(name, 0) + 1
                found = _type_texts[cls] = name if count == 1 else f"{name}#{count}"
    return found


# --- flat values and builtin containers ----------------------------------------------------------


def _none(walk: Walk, value: Any, depth: int) -> bytes:
    return b"N"


def _bool(walk: Walk, value: bool, depth: int) -> bytes:
    return b"T" if value else b"F"


def _str(walk: Walk, value: str, depth: int) -> bytes:
    if walk.folded:
        value = fold_text(value)
    if len(value) > _DIGEST_FROM:
        return text_digest(value)
    raw = value.encode("utf-8", "surrogatepass")
    size = len(raw)
    # The heads of short texts are there: to format one takes longer than all the rest.
    return _HEADS[size] + raw if size < len(_HEADS) else b"s%d:%b" % (size, raw)


def _int(walk: Walk, value: int, depth: int) -> bytes:
    # Hexadecimal: Python limits the digits of a decimal text.
    return b"i%x;" % value


def _float(walk: Walk, value: float, depth: int) -> bytes:
    if walk.folded:
        value = round(value, 2)
    if value.is_integer():
        return b"i%x;" % int(value)
    # All NaNs are one value, whatever their bits.
    return b"f" + _double(value) if value == value else b"n"


def byte_string(walk: Walk, value: bytes | bytearray, depth: int) -> bytes:
    """The bytes of bytes."""
    if len(value) > _DIGEST_FROM:
        return b"B%d:%b" % (len(value), _hash(value))
    return b"b%d:" % len(value) + bytes(value)


def base_value(walk: Walk, value: Any, depth: int) -> bytes:
    """The bytes of a str, int or float subclass: those of its base value."""
    return walk.encode(plain(value), depth)


def sequence(walk: Walk, value: Any, depth: int) -> bytes:
    """The bytes of a list, a tuple, or a subclass of one."""
    return walk.container(value, depth, _build_sequence)


def _build_sequence(walk: Walk, value: Any, depth: int) -> bytes:
    elements = value if type(value) in EXACT else bounded(value, len(value))
    return b"[" + b"".join(walk.each(elements, depth)) + b"]"


def mapping(walk: Walk, value: Any, depth: int) -> bytes:
    """The bytes of a dict or any other mapping."""
    return walk.container(value, depth, _build_mapping)


def _build_mapping(walk: Walk, value: Any, depth: int) -> bytes:
    items: Iterable[Any] = value.items()
    if type(value) is not dict:
        items = bounded(items, len(value))
    # As `each` does, and this is the other loop of that kind.
    exact, find = EXACT.get, walk.find
    pairs = [
        (exact(class_of(name)) or find(class_of(name)))(walk, name, depth)
        + (exact(class_of(part)) or find(class_of(part)))(walk, part, depth)
        for name, part in items
    ]
    # Sorted as bytes: keys of mixed types have no order of their own.
    pairs.sort()
    return b"{%b}" % b"".join(pairs)


def a_set(walk: Walk, value: Any, depth: int) -> bytes:
    """The bytes of a set of any type."""
    return walk.container(value, depth, _build_set)


def _build_set(walk: Walk, value: Any, depth: int) -> bytes:
    elements = value if type(value) in EXACT else bounded(value, len(value))
    return b"<" + b"".join(sorted(walk.each(elements, depth))) + b">"


# Looked up by exact type, so that a flat value costs one dict access.
EXACT: dict[type, Handler] = {
    type(None): _none,
    bool: _bool,
    str: _str,
    int: _int,
    float: _float,
    bytes: byte_string,
    bytearray: byte_string,
    list: sequence,
    tuple: sequence,
    dict: mapping,
    set: a_set,
    frozenset: a_set,
    types.MappingProxyType: mapping,
}
