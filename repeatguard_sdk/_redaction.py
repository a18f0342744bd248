"""What of a tool's text a sink may keep."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from repeatguard_sdk._event import Event, FollowUp, GuardWarning, RepeatEvent

Redact = Callable[[str], str]

HIDDEN = "(hidden: the redact function failed)"


class Redaction:
    """Takes out of events what must not be kept: every text that a tool or a model wrote.

    Names of tools and of arguments, digests and counts stay; an argument's value is in no event.

    Args:
        redact: called with each such text; what it returns takes its place. If it
            fails or returns no text, nothing of the text is kept.
        preview: whether results and errors are shown at all.
        faults: whether the text of a fault of the guard is shown, which may quote an argument.

    Raises:
        TypeError: `redact` is no function.
    """

    def __init__(
        self, redact: Redact | None = None, *, preview: bool = True, faults: bool = True
    ) -> None:
        if redact is not None and not callable(redact):
            msg = f"redact={redact!r}: give a function that takes a text and returns one"
            raise TypeError(msg)
        self._redact = redact
        self._preview = preview
        self._faults = faults and preview

    def apply(self, event: Event) -> Event:
        """Return the event without what must not be kept."""
        if isinstance(event, FollowUp):
            return event
        if isinstance(event, RepeatEvent) and event.preview:
            return attrs.evolve(event, preview=self._text(event.preview))
        if isinstance(event, GuardWarning) and not (self._faults and self._redact is None):
            return self._warning(event)
        return event

    def _warning(self, event: GuardWarning) -> GuardWarning:
        # A fault may quote the value it was raised on, and the text tells of the fault.
        what = event.what
        if event.fault is not None and not self._faults:
            what = f"the guard failed and let the call through: {type(event.fault).__name__}"
        return attrs.evolve(event, what=self._redacted(what), fault=None)

    def _text(self, text: str) -> str:
        return self._redacted(text) if self._preview else ""

    def _redacted(self, text: str) -> str:
        if self._redact is None:
            return text
        try:
            redacted = self._redact(text)
        except Exception:
            return HIDDEN
        return redacted if type(redacted) is str else HIDDEN
