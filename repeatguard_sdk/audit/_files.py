"""The documents of a file, one at a time: JSON lines, one document, or one list of documents."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from repeatguard_sdk.audit._json import BOM, BrokenJson, is_list, is_object, parse
from repeatguard_sdk.audit._recorded import Fault
from repeatguard_sdk.audit._values import MAX_DOCUMENT, Values

STDIN = "-"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_HEAD = 1 << 24  # how much of a first line is looked at, to tell what kind of file it is
# What a document has, and no message.
_WHOLE = ("messages", "request", "inputs", "calls", "steps")
_MAX_INSIDE = 3  # a list of lists of documents; deeper is no transcript


class Range(NamedTuple):
    """A part of a file of JSON lines, from the start of a line to the end of one, in bytes."""

    start: int
    stop: int


class Documents:
    """The documents of a file, each with its line, and a `Fault` for each part that is none.

    A file is JSON lines, one JSON document (or several, one after the other, indented or not), or
    one list of documents; `.gz` is unpacked, `-` is the standard input. A list whose first
    element is a message (it has a "role" or a "type") is one document, whether it fills a line or
    the file; of any other list each element is one.

    Args:
        path: the file, or "-".
        part: only this range of it, one of those that `ranges` gave; lines count from its start.

    Attributes:
        path: what faults call the file.
        lines: the number of lines read so far; after the last document of a range, those it has.
    """

    def __init__(self, path: str | os.PathLike[str], part: Range | None = None) -> None:
        self.path = "<stdin>" if path == STDIN else os.fspath(path)
        self._given = path
        self._part = part
        self.lines = 0

    def __iter__(self) -> Iterator[tuple[int, Any] | Fault]:
        self.lines = 0
        try:
            with self._open() as file:
                yield from self._range(file) if self._part else self._whole(file)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            yield self._fault(self.lines, f"the compressed data is broken: {error}")
        except OSError as error:
            yield self._fault(0, f"cannot be read: {error.strerror or error}")

    @contextmanager
    def _open(self) -> Generator[BinaryIO, None, None]:
        with ExitStack() as opened:
            file: Any
            if self._given == STDIN:
                file = sys.stdin.buffer
            else:
                file = opened.enter_context(Path(self._given).open("rb"))
            if not hasattr(file, "peek"):
                file = io.BufferedReader(file)  # what somebody put in the place of the input
            if file.peek(2).startswith(_GZIP):
                file = opened.enter_context(gzip.GzipFile(fileobj=file))
            yield file

    def _fault(self, line: int, what: str) -> Fault:
        return Fault(self.path, line, what)

    def _range(self, file: BinaryIO) -> Iterator[tuple[int, Any] | Fault]:
        assert self._part is not None
        file.seek(self._part.start)
        while file.tell() < self._part.stop and (line := file.readline(MAX_DOCUMENT)):
            yield from self._line(line, file)

    def _whole(self, file: BinaryIO) -> Iterator[tuple[int, Any] | Fault]:
        head, self.lines = _first_line(file)
        if not head:
            yield self._fault(0, "is empty")
        elif head.startswith(_UTF_16):
            yield self._fault(0, "is text in UTF-16; save it as UTF-8")
        elif _spans_lines(head):
            yield from self._values(file, head)
        else:
            self.lines -= 1
            while head:
                yield from self._line(head, file)
                head = file.readline(MAX_DOCUMENT)

    def _values(self, file: BinaryIO, head: bytes) -> Iterator[tuple[int, Any] | Fault]:
        above = self.lines - 1
        values = Values(file, head)
        is_array = head.removeprefix(BOM).lstrip().startswith(b"[")
        try:
            for line, value in self._elements(values) if is_array else values:
                yield from self._spread(above + line, value)
                self.lines = above + values.line
        except BrokenJson as error:
            yield self._fault(above + values.line, f"{error}; the rest of the file is not read")

    def _elements(self, values: Values) -> Iterator[tuple[int, Any]]:
        elements = values.elements()
        for line, first in elements:
            if is_part(first):
                yield 1, [first, *(element for _, element in elements)]
            else:
                yield line, first
                yield from elements

    def _line(self, line: bytes, file: BinaryIO) -> Iterator[tuple[int, Any] | Fault]:
        self.lines += 1
        while len(line) < MAX_DOCUMENT and line[-1] != 10 and (more := file.readline(MAX_DOCUMENT)):
            line += more
        if len(line) >= MAX_DOCUMENT:
            while not line.endswith(b"\n") and (line := file.readline(MAX_DOCUMENT)):
                pass
            yield self._fault(self.lines, f"a line of more than {MAX_DOCUMENT >> 20} MB")
            return
        if line.isspace():
            return
        try:
            document = parse(line)
        except BrokenJson as error:
            cut = "" if line.endswith(b"\n") else " (the file ends within this line)"
            yield self._fault(self.lines, f"{error}{cut}")
            return
        yield from self._spread(self.lines, document)

    def _spread(
        self, line: int, document: Any, inside: int = 0
    ) -> Iterator[tuple[int, Any] | Fault]:
        if is_object(document):
            yield line, document
        elif not is_list(document):
            yield self._fault(line, f"{_DOCUMENT}, not {_KINDS.get(type(document), 'null')}")
        elif document and is_part(document[0]):
            yield line, document
        elif inside == _MAX_INSIDE:
            yield self._fault(line, "lists in lists, and no document in them")
        else:
            for element in document:
                yield from self._spread(line, element, inside + 1)


_DOCUMENT = "a document is a JSON object or a list"
_KINDS: dict[Any, str] = {str: "a text", int: "a number", float: "a number", bool: "true or false"}


def is_part(element: Any) -> bool:
    """Tell whether an element of a list is a message, so that the list is one document."""
    return (
        is_object(element)
        and any(isinstance(element.get(name), str) for name in ("role", "type"))
        and not any(name in element for name in _WHOLE)
    )


def ranges(path: str | os.PathLike[str], size: int) -> list[Range]:
    """Return a file of JSON lines as ranges of about `size` bytes, each from line to line.

    A file that cannot be cut gives none: the standard input, a compressed file, a document that
    spans lines. It has to be read as a whole, by one process.

    Raises:
        OSError: the file cannot be read.
        ValueError: a size below 1.
    """
    if size < 1:
        msg = f"size is the bytes of a range, 1 or more, not {size}"
        raise ValueError(msg)
    if path == STDIN:
        return []
    cuts = [0]
    with Path(path).open("rb") as file:
        head, _ = _first_line(file)
        if not head or head.startswith((_GZIP, *_UTF_16)) or _spans_lines(head):
            return []
        end = file.seek(0, os.SEEK_END)
        for goal in range(size, end, size):
            if goal <= cuts[-1]:
                continue  # inside of a line that is longer than a range
            # One byte back, so that a goal at the very start of a line stays there.
            file.seek(goal - 1)
            while (line := file.readline(MAX_DOCUMENT)) and not line.endswith(b"\n"):
                pass
            if file.tell() < end:
                cuts.append(file.tell())
    return [Range(*pair) for pair in zip(cuts, [*cuts[1:], end], strict=True)]


def _first_line(file: BinaryIO) -> tuple[bytes, int]:
    """Return the first line that is not blank (at most `_HEAD` bytes) and its number."""
    for number in count(1):
        head = file.readline(_HEAD)
        if not head or head.removeprefix(BOM).strip():
            return head, number
    raise AssertionError


def _spans_lines(head: bytes) -> bool:
    """Tell whether a first line opens a document that goes on below it.

    It does if it ends where a printer of JSON breaks lines, which no line that is whole does. Any
    other line that is not whole is a broken one among others.
    """
    if len(head) >= _HEAD and not head.endswith(b"\n"):
        return head.removeprefix(BOM).lstrip().startswith(b"[")
    return head.rstrip().endswith((b"{", b"[", b",", b":"))
