"""Consecutive identical calls, whatever they return: the advisory policy's only detector."""

from __future__ import annotations

import fnmatch
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

import attrs

from repeatguard_sdk._ladder import check_threshold
from repeatguard_sdk._text import arguments_preview, first_line
from repeatguard_sdk.exceptions import PolicyError

if TYPE_CHECKING:
    from repeatguard_sdk._wording import ObservationFacts

# Longer arguments are not rendered in full only to be counted.
_LONGEST = 100_000


@attrs.frozen(kw_only=True)
class Advice:
    """When the advisory policy speaks, and of which tools.

    Attributes:
        thresholds: counts at which a text is given, each once a chain; the first is a nudge.
        include, exclude: names of tools, with `*`; the others are transparent.
        preview_chars: how much of the arguments a reminder shows.
    """

    thresholds: tuple[int, ...] = (3, 5, 8)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    preview_chars: int = 500

    def looks_at(self, tool: str) -> bool:
        """Tell whether calls of a tool are part of a chain."""
        if any(fnmatch.fnmatchcase(tool, pattern) for pattern in self.exclude):
            return False
        return not self.include or any(
            fnmatch.fnmatchcase(tool, pattern) for pattern in self.include
        )

    def write(self, facts: ObservationFacts) -> str:
        """Write the nudge, or later the reminder that names the call."""
        if facts.finding != "repeat" or facts.count <= self.thresholds[0]:
            return (
                f"You have made the same call {facts.count} times in a row. "
                "If its answer did not help, try something else."
            )
        name = first_line(facts.tool, 64)
        shown = self._clamped(arguments_preview(facts.arguments, _LONGEST))
        return (
            f"{name} has now been called {facts.count} times in a row with the same arguments: "
            f"{shown}. Repeating it has not helped. Change the arguments, use another tool, "
            "or answer with what is known."
        )

    def _clamped(self, text: str) -> str:
        left = len(text) - self.preview_chars
        return text if left <= 0 else f"{text[: self.preview_chars]}… (+{left} characters)"


def advice(
    thresholds: Iterable[int],
    include: Iterable[str],
    exclude: Iterable[str],
    preview_chars: int,
) -> Advice:
    """Make an `Advice`, or say what is wrong with it.

    Raises:
        PolicyError: no threshold, one below 2, a duplicate, a bool, a bare string of names.
    """
    if not isinstance(thresholds, Iterable) or isinstance(thresholds, str):
        msg = f"Policy.advisory: thresholds={thresholds!r} is no list; write [{thresholds!r}]"
        raise PolicyError(msg)
    steps = tuple(thresholds)
    if not steps:
        msg = "Policy.advisory: thresholds is empty; write at least one, such as (3, 5, 8)"
        raise PolicyError(msg)
    for step in steps:
        check_threshold("Policy.advisory", "thresholds", step)
    if len(set(steps)) != len(steps):
        msg = f"Policy.advisory: thresholds={steps!r} has a duplicate; each counts once a chain"
        raise PolicyError(msg)
    for option, names in (("include", include), ("exclude", exclude)):
        if isinstance(names, str):
            msg = f"Policy.advisory: {option}={names!r} is a bare string; write [{names!r}]"
            raise PolicyError(msg)
    if isinstance(preview_chars, bool) or preview_chars < 1:
        msg = f"Policy.advisory: preview_chars must be at least 1, not {preview_chars!r}"
        raise PolicyError(msg)
    return Advice(
        thresholds=tuple(sorted(steps)),
        include=tuple(include),
        exclude=tuple(exclude),
        preview_chars=preview_chars,
    )


class Chain:
    """The present chain of identical calls.

    Attributes:
        tool, key: the call it is made of.
        count: its length.
        first_call: number of its first call.
    """

    __slots__ = ("count", "first_call", "key", "tool")

    def __init__(self) -> None:
        self.tool = ""
        self.key: Hashable = None
        self.count = 0
        self.first_call = 0

    def extend(self, tool: str, key: Hashable, number: int) -> int:
        """Add a call and return the length; a call without identity ends the chain."""
        if key is None or tool != self.tool or key != self.key:
            self.tool, self.key, self.count, self.first_call = tool, key, 0, number
        self.count += 1
        return self.count

    def clear(self) -> None:
        """Forget the chain."""
        self.tool, self.key, self.count, self.first_call = "", None, 0, 0
