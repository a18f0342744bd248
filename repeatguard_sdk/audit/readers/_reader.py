"""What a reader is, and what those of messages have in common."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Protocol

from repeatguard_sdk.audit._json import is_list, is_object, name_in, object_in, value_of
from repeatguard_sdk.audit._recorded import Fault, RecordedRun
from repeatguard_sdk.audit.readers._histories import Histories, Part

# What a record may call the run that it belongs to.
_RUN_NAMES = ("run_id", "conversation_id", "session_id", "sessionId", "thread_id", "trace_id")
_PAIRS = (("request", "response"), ("request_body", "response_body"), ("body", "response"))


class Reader(Protocol):
    """Reads one format.

    Attributes:
        name: the word for it, as in ``--from``.
        one_line_one_run: whether every document gives runs of its own, so that a file may be cut
            between lines.
    """

    name: ClassVar[str]
    one_line_one_run: ClassVar[bool]

    def recognises(self, document: Any) -> bool:
        """Tell whether a document is of this format and of no other."""
        ...

    def read(
        self, documents: Iterable[tuple[int, Any]], path: str
    ) -> Iterator[RecordedRun | Fault]:
        """Yield the runs of documents, each given with its line; a fault for what holds none."""
        ...


class MessageReader(abc.ABC):
    """The base of readers of messages: a document is a history, a request, or one message."""

    name: ClassVar[str]
    one_line_one_run: ClassVar[bool] = False

    def read(
        self, documents: Iterable[tuple[int, Any]], path: str
    ) -> Iterator[RecordedRun | Fault]:
        """Yield the runs of documents, each given with its line; a fault for what holds none."""
        histories = Histories(path)
        for line, document in documents:
            try:
                part = self.part(document)
            except Exception as error:
                yield broken(path, line, error)
                continue
            if isinstance(part, str):
                yield Fault(path, line, part)
            elif part is not None:
                yield from histories.add(line, part)
        yield from histories.close()

    @abc.abstractmethod
    def part(self, document: Any) -> Part | str | None:
        """Return what a document tells of a run; `None` for nothing, a text for what is wrong."""

    def nothing(self) -> str:
        """Return what is said of a document that holds no messages."""
        return f"no messages as {self.name} has them"


def broken(path: str, line: int, error: Exception) -> Fault:
    """Return the fault of a document that no reader had thought of."""
    return Fault(path, line, f"cannot be read: {type(error).__name__}: {error}")


def run_name(document: Any) -> str | None:
    """Return what a document calls its run, if it does; at its top or in its metadata."""
    if not is_object(document):
        return None
    for place in (document, object_in(document.get("metadata"))):
        for name in _RUN_NAMES:
            if found := name_in(place.get(name)):
                return found
    return None


def exchange(document: Any) -> tuple[Any, Any]:
    """Return the request and the response that a document holds; itself and `None` if none.

    Either may be JSON in a text, as a log of bodies has it, and either may be in a "body".
    """
    if is_object(document):
        for asked, got in _PAIRS:
            if asked in document:
                return _body(document[asked]), _body(document.get(got))
    return document, None


def _body(found: Any) -> Any:
    found = value_of(found) if isinstance(found, str) else found
    if is_object(found) and "body" in found:
        return _body(found["body"])
    return found


def messages_in(document: Any, name: str = "messages") -> list[Any] | None:
    """Return the messages of a document: itself or under its name; `None` if it has none."""
    found = document.get(name) if is_object(document) else document
    if not is_list(found):
        return None
    return found[0] if len(found) == 1 and is_list(found[0]) else found
