"""What makes a call the same as another: its key, its fold, and for a question the fact it asks for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeGuard

from repeatguard_sdk._copies import store
from repeatguard_sdk._key import generic_key
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._text import quote
from repeatguard_sdk._types import KeyKind, is_tuple
from repeatguard_sdk.exceptions import NoIdentityError

# Text of these is folded to raise suspicion: they ask, and a question may be spelled in two ways.
FOLDED_EFFECTS = frozenset({"read", "ask"})
_FLAT = frozenset({str, int, float, type(None)})
_IMMUTABLE = _FLAT | {bool, bytes}
# How a key shows `True` and `False`, so that they are not 1 and 0.
_BOOLS = frozenset({b"T", b"F"})
_COPIED_BYTES = 8_000
_PREVIEW = 200


class Identity(NamedTuple):
    """The identity of one call.

    Attributes:
        key: equal for equal calls.
        fact: the name of the fact a question asks for.
        fold: coarser; only where the key does not show its texts, and folding raises suspicion.
        shown: the arguments as they were, where the tool could change them.
    """

    key: Hashable
    fact: str | None = None
    fold: Hashable = None
    shown: Mapping[str, Any] | None = None


def fact_name(text: str) -> str:
    """Return the name of a fact as the guard compares it: "Order ID" and "order_id" are one."""
    return "_".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def is_flat(key: Hashable) -> TypeGuard[tuple[Hashable, ...]]:
    """Tell whether a key shows all its texts: nested and long values are digests in it."""
    return is_tuple(key) and (
        _FLAT.issuperset(map(type, key))
        or all(type(part) in _FLAT or (type(part) is bytes and part in _BOOLS) for part in key)
    )


def _frozen(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments that stay as they are: in copies, and what cannot be copied as text."""
    frozen: dict[str, Any] = {}
    for name, value in arguments.items():
        if type(value) in _IMMUTABLE:
            frozen[name] = value
            continue
        kept = store(value, _COPIED_BYTES)
        frozen[name] = quote(value, _PREVIEW) if kept is None else kept.value
    return frozen


def identify(
    tool: Tool, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, convict: bool
) -> Identity:
    """Return the identity of a call.

    Args:
        convict: whether equal text after folding makes two calls one (the strict policy).

    Raises:
        NoIdentityError: an argument has no defined identity.
    """
    spec = tool.spec
    try:
        key: Hashable = tool.keys.key(*args, **kwargs)
        if spec.slot is not None:
            fact = tool.keys.arguments(*args, **kwargs).get(spec.slot)
            if isinstance(fact, str) and fact_name(fact):
                return Identity((KeyKind.SLOT, fact_name(fact)), fact_name(fact))
        if convict:
            return Identity(tool.keys.fold(*args, **kwargs))
        if not is_flat(key):
            fold = tool.keys.fold(*args, **kwargs) if spec.effect in FOLDED_EFFECTS else None
            return Identity(key, None, fold, _frozen(tool.keys.arguments(*args, **kwargs)))
    except NoIdentityError:
        raise
    except TypeError:
        # Arguments that do not fit: the tool will say so itself, and again for the same ones.
        return Identity((KeyKind.MISFIT, generic_key({"args": args, "kwargs": dict(kwargs)})))
    return Identity(key)
