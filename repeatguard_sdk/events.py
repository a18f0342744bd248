"""What happens in a run, as values, and the sinks that need no extra; no sink can break a run."""

from __future__ import annotations

from repeatguard_sdk._event import Event, EventSink, FollowUp, GuardWarning, RepeatEvent, RunRecord
from repeatguard_sdk._suspicion import SUSPECTED_CAUSES
from repeatguard_sdk.sinks.logging import LoggingSink
from repeatguard_sdk.sinks.memory import MemorySink

__all__ = [
    "SUSPECTED_CAUSES",
    "Event",
    "EventSink",
    "FollowUp",
    "GuardWarning",
    "LoggingSink",
    "MemorySink",
    "RepeatEvent",
    "RunRecord",
]
