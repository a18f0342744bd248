"""Events as records of a logger."""

from __future__ import annotations

import logging

import attrs

from repeatguard_sdk._event import Event, FollowUp, GuardWarning, RepeatEvent
from repeatguard_sdk._redaction import Redact, Redaction


class LoggingSink:
    """Writes events to a logger: interventions, what followed and ends at info, warnings at warning.

    Args:
        logger: default is ``repeatguard_sdk``.
        redact: called with each text that comes from a tool; what it returns is written instead.
        preview: whether results are shown at all.
    """

    in_place = True  # handlers may rely on the thread and the context of the call

    def __init__(
        self,
        logger: logging.Logger | None = None,
        *,
        redact: Redact | None = None,
        preview: bool = True,
    ) -> None:
        self._logger = logger or logging.getLogger("repeatguard_sdk")
        self._redaction = Redaction(redact, preview=preview)

    def emit(self, event: Event, /) -> None:
        """Log the event with its fields under ``extra={"repeatguard": ...}``."""
        event = self._redaction.apply(event)
        if isinstance(event, FollowUp):
            fields = {"run_id": event.event.run_id, "call": event.event.call, "did": event.did}
            self._logger.info(
                "call %d of %s was followed by: %s",
                event.event.call,
                event.event.tool or "the run",
                event.did,
                extra={"repeatguard": fields},
            )
        elif isinstance(event, RepeatEvent):
            self._logger.info(
                "call %d of %s: %s%s (%s, count %d)",
                event.call,
                event.tool or "the run",
                event.decision,
                "" if event.would == event.decision else f", would {event.would}",
                event.finding,
                event.count,
                extra={"repeatguard": attrs.asdict(event)},
            )
        elif isinstance(event, GuardWarning):
            self._logger.warning(
                "%s: %s",
                event.tool or "the run",
                event.what,
                extra={"repeatguard": attrs.asdict(event)},
            )
        else:
            self._logger.info(
                "run %s: %s", event.run_id, event.reason, extra={"repeatguard": attrs.asdict(event)}
            )
