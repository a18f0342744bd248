"""Where the events of a run go that was given no sink: the file an environment variable names."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repeatguard_sdk._event import EventSink

EVENTS_VARIABLE = "REPEATGUARD_EVENTS"
_LOG = logging.getLogger("repeatguard_sdk")

# By path as it is written; `None` for one that cannot be used, which was said once.
_sinks: dict[str, EventSink | None] = {}


def default_sink() -> EventSink | None:
    """Return the sink of the file that `REPEATGUARD_EVENTS` names, one a process and path.

    The variable is set by whoever runs the program, not by whoever wrote it: a path that cannot work
    is said in the log, once, and the runs go on without events.
    """
    path = os.environ.get(EVENTS_VARIABLE, "").strip()
    if not path:
        return None
    if path not in _sinks:
        # Two threads may both make one; a sink that gets no event costs nothing.
        _sinks.setdefault(path, _made(path))
    return _sinks[path]


def _made(path: str) -> EventSink | None:
    # Most programs do without, and the database is slow to load.
    from repeatguard_sdk.sinks.sqlite import SQLiteSink

    try:
        return SQLiteSink(path)
    except Exception as error:
        _LOG.warning("%s is not used, no events are kept: %s", EVENTS_VARIABLE, error)
        return None
