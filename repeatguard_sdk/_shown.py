"""The arguments of a call as they were before the tool could change them, for a preview."""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from typing import Any

from repeatguard_sdk._copies import store
from repeatguard_sdk._text import quote

_IMMUTABLE = frozenset({str, int, float, type(None), bool, bytes})
_COPIED_BYTES = 8_000
_PREVIEW = 200


class Shown:
    """The arguments of one call, kept for one that may want to show them; most are never read.

    What cannot be copied, or is too big to be, is kept as text.
    """

    __slots__ = ("_frozen",)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._frozen = {
            name: value if type(value) in _IMMUTABLE else _dumped(value) or _kept(value)
            for name, value in arguments.items()
        }

    def arguments(self) -> dict[str, Any]:
        """Return them by name."""
        return {
            name: value.read() if type(value) is _Dumped else value
            for name, value in self._frozen.items()
        }


class _Dumped:
    """A value of JSON's types as bytes, which takes a fraction of the time of a measured copy."""

    __slots__ = ("_raw",)

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def read(self) -> Any:
        return _kept(marshal.loads(self._raw))  # noqa: S302 - written by ourselves


def _dumped(value: Any) -> _Dumped | None:
    try:
        raw = marshal.dumps(value)
        if len(raw) > _COPIED_BYTES:
            return None
        # It dumps builtin types only, but whatever has a buffer as bytes: that is refused by JSON.
        json.dumps(value)
    except Exception:
        return None
    return _Dumped(raw)


def _kept(value: Any) -> Any:
    kept = store(value, _COPIED_BYTES)
    return quote(value, _PREVIEW) if kept is None else kept.value
