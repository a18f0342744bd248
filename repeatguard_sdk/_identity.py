"""What makes a call the same as another: its key, its fold, and for a question the fact it asks for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from repeatguard_sdk._canonical import Key
from repeatguard_sdk._key import generic_key
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._shown import Shown
from repeatguard_sdk._types import KeyKind
from repeatguard_sdk.exceptions import NoIdentityError

# Text of these is folded to raise suspicion: they ask, and a question may be spelled in two ways.
FOLDED_EFFECTS = frozenset({"read", "ask"})


class Identity:
    """The identity of one call.

    Attributes:
        key: equal for equal calls.
        fact: the name of the fact a question asks for.
        fold: coarser; only where the key does not show its texts, and folding raises suspicion.
        shown: the arguments as they were, where the tool could change them.
    """

    __slots__ = ("fact", "fold", "key", "shown")

    def __init__(
        self,
        key: Hashable,
        fact: str | None = None,
        fold: Hashable = None,
        shown: Shown | None = None,
    ) -> None:
        self.key = key
        self.fact = fact
        self.fold = fold
        self.shown = shown


def fact_name(text: str) -> str:
    """Return the name of a fact as the guard compares it: "Order ID" and "order_id" are one."""
    return "_".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


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
        key = tool.keys.key(*args, **kwargs)
        if spec.slot is not None:
            fact = tool.keys.arguments(*args, **kwargs).get(spec.slot)
            if isinstance(fact, str) and fact_name(fact):
                return Identity((KeyKind.SLOT, fact_name(fact)), fact_name(fact))
        if convict:
            return Identity(tool.keys.fold(*args, **kwargs))
        return identity_of(tool, key, args, kwargs)
    except NoIdentityError:
        raise
    except TypeError:
        # Arguments that do not fit: the tool will say so itself, and again for the same ones.
        return Identity((KeyKind.MISFIT, generic_key({"args": args, "kwargs": dict(kwargs)})))


def identity_of(tool: Tool, key: Key, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Identity:
    """Return the identity of a call whose key is made, and is all there is to it."""
    if type(key) is tuple:
        return Identity(key)
    keys, fold = tool.keys, None
    if tool.spec.effect in FOLDED_EFFECTS:
        fold = keys.refold(key)
        if fold is None:
            fold = keys.fold(*args, **kwargs)
    return Identity(key, None, fold, Shown(keys.arguments(*args, **kwargs)))
