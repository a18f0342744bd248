"""What the real clients write is read back: as it was written once, and by the clients installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audit.clients import MADE
from audit.told import CALLS, SAMPLES, STEPS, sample, steps_in
from repeatguard_sdk.audit._files import Documents
from repeatguard_sdk.audit._recorded import RecordedRun
from repeatguard_sdk.audit.readers import READERS

FORMATS = {"lang": "langchain", "anth": "anthropic", "otel": "otel"}
FORMATS |= {"openai_chat": "openai-chat", "openai_resp": "openai-responses"}
READER_OF = {
    name: next(own for begin, own in FORMATS.items() if name.startswith(begin)) for name in MADE
}


def expected(name: str) -> list[Any]:
    """Return the steps that a format tells of the run."""
    return list(CALLS) if name == "otel_without_messages" else STEPS


@pytest.mark.parametrize("name", MADE)
def test_samples_of_the_clients_are_read(name: str) -> None:
    """A file that a client wrote gives the one run with its calls, results, failures and turns."""
    (run,) = sample(f"{name}.jsonl")
    assert isinstance(run, RecordedRun)
    assert expected(name) == run.steps
    assert 1 == run.line


@pytest.mark.parametrize("name", MADE)
def test_what_the_clients_write_today_is_read(name: str) -> None:
    """What the installed client writes gives the same run."""
    module, make = MADE[name]
    pytest.importorskip(module)
    if module.startswith("opentelemetry.exporter"):
        pytest.importorskip("google.protobuf.json_format")
    assert expected(name) == steps_in(make())


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_reader_recognises_only_its_own(path: Path) -> None:
    """Each document of a sample is recognised by the reader of its format and by no other."""
    own = READER_OF[path.stem]
    for found in Documents(path):
        assert isinstance(found, tuple)
        names = [name for name, reader in READERS.items() if reader.recognises(found[1])]
        # Messages without calls could be of any provider; they count as Chat Completions.
        if own == "anthropic" and not _has_calls(found[1]):
            assert ["openai-chat"] == names
        else:
            assert [own] == names


def _has_calls(document: Any) -> bool:
    return "tool_" in str(document)


def test_every_sample_has_its_maker() -> None:
    """No file of the samples is left over from a maker that is gone."""
    assert sorted(MADE) == sorted(path.stem for path in SAMPLES.glob("*.jsonl"))
