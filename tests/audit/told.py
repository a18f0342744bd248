"""One short run, which the tests tell in every format, and how they read it back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from repeatguard_sdk.audit._files import Documents
from repeatguard_sdk.audit._recorded import Fault, Happening, RecordedCall, RecordedRun
from repeatguard_sdk.audit.readers import READERS, detect, read

SAMPLES = Path(__file__).parent / "samples"
ASKS = "Where are SO-1 and SO-2?"
THEN = "Then cancel SO-1."
FOUND = '{"status": "shipped"}'
NOT_FOUND = "Error: no order SO-2"

# The second call fails, the third repeats the first in a turn of its own.
STEPS: list[RecordedCall | Happening] = [
    "user_message",
    RecordedCall("get_order", {"order_id": "SO-1"}, FOUND, None, 1, "call_1"),
    RecordedCall("get_order", {"order_id": "SO-2"}, error=NOT_FOUND, turn=1, call_id="call_2"),
    RecordedCall("get_order", {"order_id": "SO-1"}, FOUND, None, 2, "call_3"),
    "user_message",
    RecordedCall("cancel", {"order_id": "SO-1", "note": "trop tôt"}, "done", None, 3, "call_4"),
]
CALLS = [step for step in STEPS if isinstance(step, RecordedCall)]


def runs_in(documents: Iterable[Any], name: str | None = None) -> list[RecordedRun]:
    """Return the runs of documents, by the reader that recognises them; there is no fault."""
    documents = list(documents)
    reader = READERS[name] if name else detect(documents)
    assert reader is not None
    numbered = enumerate(json.loads(json.dumps(documents)), start=1)
    runs: list[RecordedRun] = []
    for run in reader.read(numbered, "log.jsonl"):
        assert isinstance(run, RecordedRun), run
        runs.append(run)
    return runs


def steps_in(documents: Iterable[Any], name: str | None = None) -> list[RecordedCall | Happening]:
    """Return the steps of the one run that documents hold."""
    (run,) = runs_in(documents, name)
    return run.steps


def calls_in(documents: Iterable[Any], name: str | None = None) -> list[RecordedCall]:
    """Return the calls of the one run that documents hold."""
    return [step for step in steps_in(documents, name) if isinstance(step, RecordedCall)]


def faults_in(documents: Iterable[Any], name: str) -> list[tuple[int, str]]:
    """Return line and text of the faults that a reader finds."""
    found = READERS[name].read(enumerate(documents, start=1), "log.jsonl")
    return [(fault.line, fault.what) for fault in found if isinstance(fault, Fault)]


def sample(name: str) -> list[RecordedRun | Fault]:
    """Return what is in a file that the real clients wrote."""
    path = SAMPLES / name
    documents = list(Documents(path))
    reader = detect(found[1] for found in documents if not isinstance(found, Fault))
    assert reader is not None
    return list(read(reader, documents, str(path)))
