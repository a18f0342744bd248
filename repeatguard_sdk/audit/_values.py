"""JSON documents that span lines: one after the other, or the elements of one list, of any length."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from repeatguard_sdk.audit._json import BOM, BrokenJson

CHUNK = 1 << 20
MAX_DOCUMENT = 1 << 28  # characters: one run must fit in memory, a file need not
LONGEST_TOKEN = 16  # a pair of escaped surrogates, or -Infinity

_SPACE = re.compile(r"\s*")
_SPACE_OR_COMMA = re.compile(r"[\s,]*")


class Values:
    """The values of a stream of JSON text, decoded one at a time.

    A value that does not decode may be cut off by the end of what was read so far, so more is
    read, twice as much each time, before it is called broken: then nothing behind it can be
    trusted, and the stream is over.
    """

    def __init__(self, stream: BinaryIO, head: bytes = b"") -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._ended = False
        self._bad: str | None = None
        self.line = 1
        self._feed(head.removeprefix(BOM))

    def elements(self) -> Iterator[tuple[int, Any]]:
        """Yield the line and the value of each element of the list that the stream is.

        Raises:
            BrokenJson: the rest of the stream cannot be read; `line` is where it begins.
        """
        self._skip(_SPACE)
        self._at += 1  # the bracket
        while self._skip(_SPACE_OR_COMMA):
            if self._text[self._at] == "]":
                self._at += 1
                if self._skip(_SPACE):
                    msg = "something follows the end of the list"
                    raise BrokenJson(msg)
                return
            yield self.line, self._next()
        msg = "the list is cut off: no ] at the end of the file"
        raise BrokenJson(msg)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield the line and the value of each document of the stream.

        Raises:
            BrokenJson: the rest of the stream cannot be read; `line` is where it begins.
        """
        while self._skip(_SPACE):
            yield self.line, self._next()

    def _next(self) -> Any:
        wanted = CHUNK
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended or self._is_final(error):
                    line = self.line + error.lineno - self._above()
                    msg = self._bad or f"no JSON: {error.msg} at line {line}"
                    raise BrokenJson(msg) from None
            except (ValueError, RecursionError) as error:
                msg = f"no JSON that can be read: {error}"
                raise BrokenJson(msg) from None
            else:
                # A number at the very end may go on in what was not read yet.
                if end < len(self._text) or self._ended:
                    self._pass(end)
                    return value
            if len(self._text) - self._at > MAX_DOCUMENT:
                msg = f"no JSON, or a document of more than {MAX_DOCUMENT >> 20} MB"
                raise BrokenJson(msg)
            self._read(wanted)
            wanted *= 2

    def _is_final(self, error: json.JSONDecodeError) -> bool:
        """Tell whether no text to come can mend this: it is not at the end of what was read."""
        return "Unterminated" not in error.msg and error.pos < len(self._text) - LONGEST_TOKEN

    def _above(self) -> int:
        """Return the line, within the text at hand, on which the next value begins."""
        return self._text.count("\n", 0, self._at) + 1

    def _skip(self, what: re.Pattern[str]) -> bool:
        """Go to the next character that counts; `False` if there is none."""
        while True:
            found = what.match(self._text, self._at)
            assert found is not None
            self._pass(found.end())
            if self._at < len(self._text):
                return True
            if self._bad is not None:
                raise BrokenJson(self._bad)
            if self._ended:
                return False
            self._read(CHUNK)

    def _pass(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self._at = end

    def _read(self, size: int) -> None:
        self._text = self._text[self._at :]
        self._at = 0
        data = self._stream.read(size)
        self._ended = not data
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        try:
            self._text += self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            # What stands before it is still good.
            self._text += error.object[: error.start].decode()
            self._ended = True
            self._bad = f"not UTF-8: byte 0x{error.object[error.start]:02x}"
