"""The formats that are read: one module each, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from repeatguard_sdk.audit._recorded import Fault, RecordedRun
from repeatguard_sdk.audit.readers._reader import Reader
from repeatguard_sdk.audit.readers.anthropic import AnthropicReader
from repeatguard_sdk.audit.readers.langchain import LangChainReader
from repeatguard_sdk.audit.readers.lines import LinesReader
from repeatguard_sdk.audit.readers.openai_chat import OpenAIChatReader
from repeatguard_sdk.audit.readers.openai_responses import OpenAIResponsesReader
from repeatguard_sdk.audit.readers.otel import OpenTelemetryReader
from repeatguard_sdk.audit.readers.steps import StepsReader

_CHAT = OpenAIChatReader()
_ALL: tuple[Reader, ...] = (
    _CHAT,
    OpenAIResponsesReader(),
    AnthropicReader(),
    LangChainReader(),
    OpenTelemetryReader(),
    LinesReader(),
    StepsReader(),
)
READERS: dict[str, Reader] = {reader.name: reader for reader in _ALL}


def reader_named(name: str) -> Reader:
    """Return the reader of a format.

    Raises:
        ValueError: there is none of that name; it says which there are.
    """
    if name not in READERS:
        msg = f"no format {name!r}; write one of {', '.join(sorted(READERS))}"
        raise ValueError(msg)
    return READERS[name]


def detect(documents: Iterable[Any]) -> Reader | None:
    """Return the reader of the first documents of a file, `None` if none recognises any of them.

    The format that most of them are of. Messages without calls could be of any provider and count
    as Chat Completions, so that format gives way to any other.
    """
    votes: dict[str, int] = {}
    for document in documents:
        for reader in _ALL:
            if reader.recognises(document):
                votes[reader.name] = votes.get(reader.name, 0) + 1
                break
    if len(votes) > 1:
        votes.pop(_CHAT.name, None)
    return READERS[max(votes, key=lambda name: votes[name])] if votes else None


def read(
    reader: Reader, documents: Iterable[tuple[int, Any] | Fault], path: str
) -> Iterator[RecordedRun | Fault]:
    """Yield the runs of a file's documents, and the faults of the file where they are met."""
    faults: list[Fault] = []

    def whole() -> Iterator[tuple[int, Any]]:
        for found in documents:
            if isinstance(found, Fault):
                faults.append(found)
            else:
                yield found

    for run in reader.read(whole(), path):
        yield from faults
        faults.clear()
        yield run
    yield from faults
