"""Importing a framework that may not be installed."""

from __future__ import annotations

import importlib
from typing import Any


def load(module: str, *, extra: str) -> Any:
    """Return a framework's module.

    It is `Any` to type checkers, installed or not: what they say must not depend on that.

    Args:
        module: dotted name.
        extra: the extra of this package that brings the framework along.

    Raises:
        ImportError: it is not installed; the text says what to install.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] != module.split(".")[0]:
            raise
        msg = f'{module} is not installed; write: pip install "repeatguard-sdk[{extra}]"'
        raise ModuleNotFoundError(msg, name=missing.name) from None
