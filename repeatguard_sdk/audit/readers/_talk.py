"""What every format of messages tells: who said what, which calls were asked for, what came back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast

from repeatguard_sdk._messages import USER_HEAD
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._json import is_list, is_object, text_in, value_of
from repeatguard_sdk.audit._recorded import Happening, RecordedCall
from repeatguard_sdk.audit.readers._errors import reads_as_error

_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


class Said(NamedTuple):
    """A message in a user's place that a person wrote."""

    text: str


class Called(NamedTuple):
    """A call that the model asked for.

    Attributes:
        tool: its name.
        arguments: an object, or the text that the model wrote.
        call_id: the provider's id, where there is one.
        response: the id of the model's response; calls of one response are one turn. Without it
            calls are, that stand together.
        refused: why it never reached its tool, if it did not.
        free: whether its input is a free text, which is not looked into.
    """

    tool: str
    arguments: Any
    call_id: str | None = None
    response: str | None = None
    refused: str | None = None
    free: bool = False


class Answered(NamedTuple):
    """What came back for a call.

    Attributes:
        call_id: that of the call; `None` for the oldest open call of that name, or of any.
        tool: its name, where the message tells it.
        result: what the model was given.
        failed: the format's flag; `None` where it has none and the text has to tell.
    """

    call_id: str | None
    tool: str | None
    result: Any
    failed: bool | None = None


Entry = Said | Called | Answered | Literal["compaction"]


def steps_of(entries: Iterable[Entry]) -> list[RecordedCall | Happening]:
    """Return entries as the steps of a run, each call with its answer.

    An answer to no call is left out, and so is a second answer to one; a call without an answer
    has no result.
    """
    talk = _Talk()
    for entry in entries:
        if isinstance(entry, Called):
            talk.call(entry)
        elif isinstance(entry, Answered):
            talk.answer(entry)
        else:
            talk.happen("compaction" if entry == "compaction" else "user_message")
    return talk.steps


class _Talk:
    """The steps so far, and which calls among them wait for their answer."""

    def __init__(self) -> None:
        self.steps: list[RecordedCall | Happening] = []
        self._open: dict[int, str | None] = {}  # place of a call to its id
        self._turn = 0
        self._response: str | None = None
        self._answered = True

    def happen(self, what: Happening) -> None:
        self.steps.append(what)
        self._answered = True

    def call(self, entry: Called) -> None:
        same = entry.response is not None and entry.response == self._response
        if not same and (self._answered or entry.response is not None):
            self._turn += 1
        self._response, self._answered = entry.response, False
        if entry.refused is None:
            self._open[len(self.steps)] = entry.call_id
        self.steps.append(
            RecordedCall(
                entry.tool,
                entry.arguments if entry.free else arguments_of(entry.arguments),
                error=entry.refused,
                turn=self._turn,
                call_id=entry.call_id,
                refused=entry.refused is not None,
            )
        )

    def answer(self, entry: Answered) -> None:
        self._answered = True
        place = self._place(entry)
        if place is None:
            return
        del self._open[place]
        call = cast("RecordedCall", self.steps[place])
        result = entry.result
        failed = reads_as_error(result) if entry.failed is None else entry.failed
        self.steps[place] = RecordedCall(
            call.tool,
            call.arguments,
            MISSING if failed else result,
            text_of(result) if failed else None,
            call.turn,
            call.call_id,
        )

    def _place(self, entry: Answered) -> int | None:
        """Return where the call is that an answer belongs to, `None` for none."""
        if entry.call_id is not None:
            # The newest: servers that count from zero give the same ids in every turn.
            return next(
                (place for place in reversed(self._open) if self._open[place] == entry.call_id),
                None,
            )
        for place in self._open:
            call = cast("RecordedCall", self.steps[place])
            if entry.tool is None or call.tool == entry.tool:
                return place
        return None


def arguments_of(given: Any) -> Mapping[str, Any] | str:
    """Return the arguments of a call: an object, or the text where a model wrote no object."""
    if is_object(given):
        return given
    if given is None:
        return {}
    if not isinstance(given, str):
        return text_of(given)
    value = value_of(given)
    if is_object(value):
        return value
    return given if given.strip() else {}


def text_of(value: Any) -> str:
    """Return a value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def content_of(content: Any, names: tuple[str, ...] = ("text",)) -> Any:
    """Return the content of a message: one text, if it is a text or has only parts of text.

    Args:
        content: a text, or a list of parts.
        names: where a part of text may keep it.
    """
    if content is None:
        return ""
    if not is_list(content):
        return content
    texts: list[str] = []
    for part in content:
        text = part if isinstance(part, str) else None
        if is_object(part):
            text = next((part[name] for name in names if isinstance(part.get(name), str)), None)
        if text is None:
            return content
        texts.append(text)
    return "\n".join(texts)


def said(content: Any) -> Iterable[Said]:
    """Yield what a person said in a user's message; nothing if the host wrote all of it.

    The host's are system reminders and the guard's own notes. A part that is no text, such as an
    image, is a person's.
    """
    parts: list[Any] = content if is_list(content) else [content]
    texts: list[str] = []
    for part in parts:
        text: Any = part
        if is_object(part):
            text = part.get("text", part.get("content"))
        if isinstance(text, str):
            text = _REMINDER.sub("", text).strip()
            if text and not text.startswith(USER_HEAD):
                texts.append(text)
        elif is_object(part) and text_in(part.get("type")):
            texts.append(str(part["type"]))
    if texts:
        yield Said("\n".join(texts))
