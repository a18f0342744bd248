"""The field rules: what of a parameter's value counts when two calls are compared.

Each rule takes any value and never raises: what it does not fit is compared exactly. Applied to a
list, a tuple or a set it is applied to each element (one level: deeper ones are compared exactly).
"""

from __future__ import annotations

import decimal
import posixpath
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from repeatguard_sdk._types import Rule
from repeatguard_sdk._walk import class_of, plain

# Room for every finite float, and for any amount a text may name.
_EXACT = decimal.Context(prec=1000, traps=[decimal.InvalidOperation])
_CENT = decimal.Decimal("0.01")
_LARGEST_EXPONENT = 400


def space(value: Any) -> Any:
    """Collapse white space: inner runs to one blank, outer ones to nothing."""
    return _each(_space, value)


def text(value: Any) -> Any:
    """Collapse white space and lower-case."""
    return _each(_text, value)


def identifier(value: Any) -> Any:
    """Collapse white space and upper-case (the rule ``"id"``)."""
    return _each(_identifier, value)


def path(value: Any) -> Any:
    """Normalize a path as POSIX does: ``a//b/./c`` and ``a/x/../b``; nothing is looked up."""
    return _each(_path, value)


def money(value: Any) -> Any:
    """Round an amount half-up to the cent; int, float, Decimal and numeric text meet in a Decimal."""
    return _each(_money, value)


def cents(value: Any) -> int | None:
    """The amount in whole cents, or None if the value is not a finite amount.

    A float counts as it is written (``repr``): 0.005 is half a cent, not a little more.
    """
    if type(value) is int:
        return value * 100
    try:
        value = plain(value)
        cls = class_of(value)
        if cls is int:
            return int(value) * 100
        if cls is float and value.is_integer():
            return int(value) * 100
        if cls is float:
            amount = decimal.Decimal(repr(value))
        elif cls is str:
            amount = decimal.Decimal(value.strip())
        elif isinstance(value, decimal.Decimal):
            amount = value
        else:
            return None
        # A text of nine characters can name a number of a million digits.
        if not amount.is_finite() or amount.adjusted() > _LARGEST_EXPONENT:
            return None
        rounded = amount.quantize(_CENT, decimal.ROUND_HALF_UP, _EXACT)
        return int(rounded.scaleb(2, _EXACT))
    except Exception:
        return None


def function_of(rule: Rule | str) -> Callable[[Any], Any] | None:
    """The function that applies a rule, or None for ``"exact"`` and ``"ignore"``."""
    return _tolerant(rule) if callable(rule) else _FUNCTIONS.get(rule)


def _tolerant(rule: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A user's rule; where it raises, the value is compared exactly."""

    def apply(value: Any) -> Any:
        try:
            return rule(value)
        except Exception:
            return value

    return apply


def _each(rule: Callable[[Any], Any], value: Any) -> Any:
    """Apply a rule to the value, or to each element of a plain container; never raise."""
    cls = class_of(value)
    try:
        if cls is list or cls is tuple:
            return [rule(part) for part in value]
        if cls is set or cls is frozenset:
            return frozenset([rule(part) for part in value])
        return rule(value)
    except Exception:
        return value


def _space(value: Any) -> Any:
    value = plain(value)
    return " ".join(value.split()) if type(value) is str else value


def _text(value: Any) -> Any:
    value = plain(value)
    return " ".join(value.split()).lower() if type(value) is str else value


def _identifier(value: Any) -> Any:
    value = plain(value)
    return " ".join(value.split()).upper() if type(value) is str else value


def _money(value: Any) -> Any:
    amount = cents(value)
    return value if amount is None else decimal.Decimal(amount).scaleb(-2, _EXACT)


def _path(value: Any) -> Any:
    value = value.as_posix() if isinstance(value, PurePath) else plain(value)
    # Nothing is no path; and some Python versions cut a path at its first zero byte.
    if type(value) is not str or not value or "\0" in value:
        return value
    return posixpath.normpath(value)


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "space": space,
    "text": text,
    "id": identifier,
    "money": money,
    "path": path,
}
