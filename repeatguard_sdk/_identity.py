"""What makes a call the same as another: its key, its fold, and for a question the fact it asks for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from repeatguard_sdk._key import generic_key
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._types import KeyKind
from repeatguard_sdk.exceptions import NoIdentityError


class Identity(NamedTuple):
    """The identity of one call.

    Attributes:
        key: equal for equal calls.
        fact: the name of the fact a question asks for.
    """

    key: Hashable
    fact: str | None = None


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
        key: Hashable = tool.keys.key(*args, **kwargs)
        if spec.slot is not None:
            fact = tool.keys.arguments(*args, **kwargs).get(spec.slot)
            if isinstance(fact, str) and fact_name(fact):
                return Identity((KeyKind.SLOT, fact_name(fact)), fact_name(fact))
        if convict:
            return Identity(tool.keys.fold(*args, **kwargs))
    except NoIdentityError:
        raise
    except TypeError:
        # Arguments that do not fit: the tool will say so itself, and again for the same ones.
        return Identity((KeyKind.MISFIT, generic_key({"args": args, "kwargs": dict(kwargs)})))
    return Identity(key)
