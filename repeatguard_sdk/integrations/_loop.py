"""A loop written by hand over a provider's client: its tools by name, its tool calls executed."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import attrs

from repeatguard_sdk._dispatch import Ready, Unfit, prepare
from repeatguard_sdk._portable import raw_function
from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._run import Run
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._history import read_back, without_note
from repeatguard_sdk.integrations._records import Known
from repeatguard_sdk.integrations._tool_call import ToolCall

# Functions, or what the model calls them.
Tools = Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]]

_ERROR = "Error: "


class Asked(NamedTuple):
    """One tool call as a model wrote it."""

    name: str
    arguments: Mapping[str, Any] | str | None
    call_id: str | None


class Answered(NamedTuple):
    """What the model should get for one of its tool calls: a text, or what `Loop.content` made of it."""

    call_id: str | None
    text: Any
    failed: bool


class Loop:
    """The guard of one loop: executes what the model asks for, and tells when the loop must end.

    Args:
        tools: functions, decorated or not, or a mapping from the names the model sees.
        settings: as for every adapter.
    """

    def __init__(self, tools: Tools, settings: Settings) -> None:
        self.settings = settings
        self.conversation = Conversation(settings)
        self._functions = _by_name(tools, self.conversation)
        self._dispatch: dict[str, tuple[Tool, Callable[..., Any]]] = {}
        self._offered_to: Run | None = None
        self._offer()

    def _offer(self) -> None:
        """Tell the run which tools there are; a run that was opened after the end of another is new."""
        conversation = self.conversation
        if self._offered_to is conversation.run:
            return
        self._offered_to = conversation.run
        self._known = {
            name: conversation.known(name, function, by_name=True)
            for name, function in self._functions.items()
        }
        conversation.offer(self._known.items())
        self._dispatch = {
            name: (_with_signature(known, self._functions[name]), self._functions[name])
            for name, known in self._known.items()
        }

    def next_turn(
        self, *, users: int | None, past: Callable[[], Sequence[PastCall]], state: Any
    ) -> bool:
        """Mark the boundary before a request; false where the loop must end instead."""
        go_on = self.conversation.next_turn(users=users, past=past, state=state)
        self._offer()
        return go_on

    def past(self, asked: Asked, text: str | None, turn: int) -> PastCall:
        """Return a call of the history.

        Args:
            asked: the call.
            text: its result as the model read it; `None` for one that is more than text, which counts
                and is never served.
            turn: which response it was in.
        """
        text = None if text is None else without_note(text)
        call = PastCall(
            tool=asked.name, arguments=asked.arguments, call_id=asked.call_id, turn=turn
        )
        if isinstance(prepare(asked.name, asked.arguments, self._dispatch), Unfit):
            return attrs.evolve(call, refused=text or "")
        if text is None:
            return call
        if text.startswith(_ERROR):
            return attrs.evolve(call, error=text.removeprefix(_ERROR).partition(": ")[2])
        return attrs.evolve(call, result=read_back(text, self._functions.get(asked.name)))

    # -- executing -------------------------------------------------------------------------------

    def answer(self, asked: Sequence[Asked]) -> list[Answered]:
        """Execute the tool calls of one response, one after the other.

        Raises:
            TypeError: a tool is a coroutine function.
        """
        return [self._answer(each) for each in asked]

    def _answer(self, asked: Asked) -> Answered:
        call, ready = self._prepared(asked)
        if isinstance(ready, Unfit):
            return Answered(asked.call_id, call.refuse(ready.reason), failed=True)
        if inspect.iscoroutinefunction(raw_function(ready.function)):
            msg = f"{asked.name} is a coroutine function; await the method with an a in front"
            raise TypeError(msg)
        try:
            result = call.guard(lambda: ready.function(**ready.arguments))
        except Exception as error:
            return self._failed(call, asked, error)
        return Answered(asked.call_id, self.content(call, result), failed=False)

    async def aanswer(self, asked: Sequence[Asked]) -> list[Answered]:
        """Execute the tool calls of one response at once, coroutine functions or not."""
        return list(await asyncio.gather(*map(self._aanswer, asked)))

    async def _aanswer(self, asked: Asked) -> Answered:
        call, ready = self._prepared(asked)
        if isinstance(ready, Unfit):
            return Answered(asked.call_id, call.refuse(ready.reason), failed=True)

        def execute() -> Awaitable[Any] | Any:
            return ready.function(**ready.arguments)

        try:
            result = await call.aguard(execute)
        except Exception as error:
            return self._failed(call, asked, error)
        return Answered(asked.call_id, self.content(call, result), failed=False)

    def content(self, call: ToolCall, result: Any) -> Any:
        """Return what the model gets for a result, with what there is to say behind it: text."""
        return call.answer(as_text(result))

    def _prepared(self, asked: Asked) -> tuple[ToolCall, Ready | Unfit]:
        known = self._known.get(asked.name)
        call = self.conversation.call(asked.name, asked.arguments, asked.call_id, known)
        return call, prepare(asked.name, asked.arguments, self._dispatch)

    def _failed(self, call: ToolCall, asked: Asked, error: Exception) -> Answered:
        if isinstance(error, self.settings.control_flow):
            raise error
        text = f"{_ERROR}{type(error).__name__}: {error}"
        return Answered(asked.call_id, call.answer(text), failed=True)


def as_text(result: Any) -> str:
    """Return a result as the text of a tool message: text as it is, anything else as JSON."""
    if isinstance(result, str):
        return result
    dump = getattr(result, "model_dump_json", None)
    if callable(dump):
        return str(dump())
    try:
        return json.dumps(result, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(result)


def _by_name(tools: Tools, conversation: Conversation) -> dict[str, Callable[..., Any]]:
    if isinstance(tools, Mapping):
        return dict(cast("Mapping[str, Callable[..., Any]]", tools))
    named: dict[str, Callable[..., Any]] = {}
    for function in tools:
        given = getattr(function, "__name__", "")
        known = conversation.known(given, function)
        named[known.tool.spec.name if known.guards_itself else given] = function
    return named


def _with_signature(known: Known, function: Callable[..., Any]) -> Tool:
    """Return the record to check arguments by: of a tool that nobody declared, its own signature."""
    tool = known.tool
    partial: Any = functools.partial
    if known.guards_itself and not isinstance(function, partial):
        return tool
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return tool
    return attrs.evolve(tool, spec=attrs.evolve(tool.spec, signature=signature))
