"""The guard around the tool runner of Anthropic's client, which it is iterated over instead of."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, cast

import wrapt

import repeatguard_sdk.integrations._anthropic_content as content
from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._run import Run
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._history import read_back, without_note
from repeatguard_sdk.integrations._loop import Asked
from repeatguard_sdk.integrations._records import Known
from repeatguard_sdk.integrations._tool_call import ToolCall

_ObjectProxy: Any = wrapt.ObjectProxy

# What the client makes of arguments that do not reach their function.
_UNFIT = re.compile(
    r"(?:ValueError|TypeError)\('((?:Invalid arguments for function|Input must be a dict).*)'\)"
)


class RunnerGuard:
    """Guards `client.beta.messages.tool_runner(...)`: iterate over this instead of the runner.

    It yields what the runner yields, messages or streams, with ``for`` or ``async for`` as the client is,
    and ends where the run is over: before the model is asked again, with a result for every call.

    Args:
        runner: the runner, not yet iterated over.
        settings: policy, events, memory, registry, effects, deliver, control_flow. In `effects` the
            tools of a toolset are called "browser.navigate".

    Raises:
        TypeError: what is given is no such runner.
        ValueError: it has a guard already.
    """

    def __init__(self, runner: Any, **settings: Any) -> None:
        self._settings = Settings(**settings)
        self._runner = runner
        self.is_async = hasattr(runner, "__anext__")
        self._tools = _tools_of(runner)
        self._generate: Callable[[], Any] = runner.generate_tool_call_response
        self._run_member: Callable[[Any], Any] | None = getattr(runner, "_run_toolset_member", None)
        self._calls: dict[str | None, ToolCall] = {}
        self._refused: dict[str, str] = {}
        self._item: Any = None
        self._heeded: Any = None
        self._response: Any = None
        self._replies = 0
        self._advancing = self._marked = False
        self._install()

    def _install(self) -> None:
        """Put the guard into this one runner; its tools are left as they are."""
        runner = self._runner
        if hasattr(runner, "_runnable_tools"):
            runner._runnable_tools = self._guarded_tools
        else:
            runner._tools_by_name = self._guarded_tools()
        if self._run_member is not None:
            runner._run_toolset_member = self._amember if self.is_async else self._member
        runner.generate_tool_call_response = self._aanswers if self.is_async else self._answers

    @functools.cached_property
    def _conversation(self) -> Conversation:
        # Not before it is iterated over: there the host's block is, if there is one.
        return Conversation(self._settings)

    @property
    def run(self) -> Run:
        """The run: that of the host's block, or one of the guard's own."""
        return self._conversation.run

    @property
    def messages(self) -> list[Any]:
        """The history, with the newest reply and its results: what the user's next turn goes on with.

        The blocks of the model are the client's objects, which it takes back as they are.
        """
        messages: list[Any] = list(self._params().get("messages", ()))
        reply, response = content.reply_in(self._item), self._response
        if reply is None or reply.stop_reason is None:
            return messages
        if content.replies_in(messages) <= self._replies:
            to_param = getattr(reply, "to_param", None)
            plain = {"role": "assistant", "content": reply.content}
            messages.append(plain if to_param is None else to_param())
        if response is not None and not content.answered_in(messages) & content.answered_in(
            [response]
        ):
            messages.append(response)
        return messages

    def close(self) -> None:
        """End the guard's own run, as the end of the iteration does; a host's run is left alone."""
        if "_conversation" in vars(self):
            self._conversation.close()

    def until_done(self) -> Any:
        """Iterate to the end and return the last message, or an awaitable of it, as the runner does."""
        if self.is_async:
            return self._auntil_done()
        for _ in self:
            pass
        return content.reply_in(self._item)

    async def _auntil_done(self) -> Any:
        async for _ in self:
            pass
        return content.reply_in(self._item)

    # -- iterating -------------------------------------------------------------------------------

    def __iter__(self) -> Generator[Any, None, None]:
        if self.is_async:
            msg = "this runner is asynchronous; write: async for message in guard"
            raise TypeError(msg)
        try:
            go_on = self._next_turn()
            while go_on:
                self._advancing = True
                item = next(self._runner, None)
                self._advancing = False
                if item is None:
                    return
                self._receive(item)
                yield item
        except _Stopped:
            pass
        except Exception as error:
            self._conversation.close(error)
            raise
        finally:
            self._advancing = False
            self._conversation.close()

    async def __aiter__(self) -> AsyncGenerator[Any, None]:
        if not self.is_async:
            msg = "this runner is not asynchronous; write: for message in guard"
            raise TypeError(msg)
        try:
            go_on = self._next_turn()
            while go_on:
                self._advancing = True
                item = await anext(self._runner, None)
                self._advancing = False
                if item is None:
                    return
                self._receive(item)
                yield item
        except _Stopped:
            pass
        except Exception as error:
            self._conversation.close(error)
            raise
        finally:
            self._advancing = False
            self._conversation.close()

    def _receive(self, item: Any) -> None:
        """Take note of a reply, which may still be streaming."""
        if not self._marked:
            # It was asked for without results, as where a turn that had paused goes on.
            self._next_turn()
        self._marked = False
        self._item, self._response = item, None
        self._calls.clear()
        self._refused.clear()
        self._replies = content.replies_in(self._params().get("messages", ()))

    def _next_turn(self) -> bool:
        """Mark the boundary before a request; false where the loop must end instead."""
        self._marked = True
        self._heed_compaction()
        params = self._params()
        messages = params.get("messages", ())
        tools = self._tools()
        offered = [(name, self._known(tool)) for name, tool in tools.items()]
        for raw in params.get("tools", ()):
            # What the provider runs is an option too.
            name = content.get(raw, "name")
            if isinstance(name, str) and name not in tools:
                offered.append((name, self._conversation.known(name)))
        self._conversation.offer(offered)
        return self._conversation.next_turn(
            users=sum(map(content.is_user, messages)),
            past=lambda: content.past_of(messages, self._remember),
        )

    def _heed_compaction(self) -> None:
        """Take note that the model has lost its history, before it may ask again for what was in it."""
        if self._heeded is not self._item and content.is_compacted(self._blocks()):
            self._heeded = self._item
            self.run.compacted()

    def _remember(self, asked: Asked, result: Any, turn: int) -> PastCall | None:
        if result is None:
            return None
        text = without_note(content.text_of(result))
        call: dict[str, Any] = {"tool": asked.name, "arguments": asked.arguments}
        call |= {"call_id": asked.call_id, "turn": turn}
        tool = self._tools().get(asked.name)
        if not content.get(result, "is_error"):
            return PastCall(**call, result=read_back(text, getattr(tool, "func", None)))
        unfit = _UNFIT.fullmatch(text)
        if unfit or (tool is None and "." not in asked.name):
            return PastCall(**call, refused=unfit[1] if unfit else text)
        # It is what `repr` made of the error; which one it was cannot be told.
        return PastCall(**call, error="")

    def _params(self) -> dict[str, Any]:
        """Return the parameters of the next request."""
        found: dict[str, Any] = {}

        def look(params: Any) -> Any:
            found.update(params)
            # The runner shows them to who may change them; nothing is to be changed.
            raise _Looked

        try:
            self._runner.set_messages_params(look)
        except _Looked:
            pass
        return found

    # -- executing what a reply asks for ---------------------------------------------------------

    def _known(self, tool: Any) -> Known:
        about = getattr(tool, "description", "")
        return self._conversation.known(
            tool.name, getattr(tool, "func", None), description=about or ""
        )

    def _guarded_tools(self) -> dict[str, Any]:
        return {name: _GuardedTool(tool, self) for name, tool in self._tools().items()}

    def _blocks(self) -> list[Any]:
        return list(content.blocks_of(content.reply_in(self._item)))

    def begin(self, tool: Any, given: Any) -> ToolCall:
        """Return the call that a tool is invoked for; the runner does not tell which it is."""
        self._heed_compaction()
        asked = [block for block in self._blocks() if block.type == "tool_use"]
        named = [each for each in asked if each.name == tool.name and each.id not in self._calls]
        same = [each for each in asked if each.input is given]
        call_id = next((each.id for each in same or named if each.input == given), None)
        call = self._conversation.call(tool.name, given, call_id, self._known(tool))
        self._calls[call_id] = call
        return call

    def _begin_member(self, asked: Any) -> ToolCall:
        self._heed_compaction()
        name = content.name_of(asked)
        call = self._conversation.call(name, asked.input, asked.id, self._conversation.known(name))
        self._calls[asked.id] = call
        return call

    def _member(self, asked: Any) -> Any:
        run = self._run_member
        assert run is not None
        try:
            result = self._begin_member(asked).guard(lambda: content.neutral(run(asked)))
        except content.MemberFailed as failed:
            result = failed.result
        return content.as_result_of(asked, result)

    async def _amember(self, asked: Any) -> Any:
        run = self._run_member
        assert run is not None

        async def execute() -> Any:
            return content.neutral(await run(asked))

        try:
            result = await self._begin_member(asked).aguard(execute)
        except content.MemberFailed as failed:
            result = failed.result
        return content.as_result_of(asked, result)

    # -- answering -------------------------------------------------------------------------------

    def _answers(self) -> Any:
        """Do what `generate_tool_call_response` does, under guard; a host may call it too."""
        response = self._generate()
        self._settle(response)
        if self._must_stop(response) and not content.closed(self._runner):
            raise _Stopped
        return response

    async def _aanswers(self) -> Any:
        """Do what `_answers` does, in the other kind of runner."""
        response = await self._generate()
        self._settle(response)
        if self._must_stop(response) and not await content.aclosed(self._runner):
            raise _Stopped
        return response

    def _must_stop(self, response: Any) -> bool:
        return self._advancing and response is not None and not self._next_turn()

    def _settle(self, response: Any) -> None:
        """Add to the results what there is to say, and count the calls that reached no tool."""
        if response is None or response is self._response:
            return
        self._response = response
        asked = {block.id: block for block in self._blocks() if block.type == "tool_use"}
        for result in response["content"]:
            call_id = result.get("tool_use_id", "")
            call, block = self._calls.get(call_id), asked.get(call_id)
            if call is not None:
                result["content"] = content.with_note(result.get("content"), call)
            elif call_id in self._refused:
                result["content"] = self._refused[call_id]
            elif block is not None and content.get(block, "toolset_name") is None:
                result["content"] = self._refuse(block, content.text_of(result))
        if self._settings.deliver == "messages":
            response["content"] += content.notes_behind(asked.values(), self.run)

    def _refuse(self, asked: Any, reason: str) -> str:
        call = self._conversation.call(asked.name, asked.input, asked.id)
        self._refused[asked.id] = call.refuse(reason)
        return self._refused[asked.id]


class _GuardedTool(_ObjectProxy):  # type: ignore[misc]
    """A tool as one runner sees it; a proxy, because the runner asks what kind of tool it has."""

    def __init__(self, tool: Any, guard: RunnerGuard) -> None:
        _ObjectProxy.__init__(self, tool)
        self._self_guard = guard
        self._self_is_async = guard.is_async

    def call(self, given: Any) -> Any:
        """Call the tool under guard."""
        tool = self.__wrapped__
        call = self._self_guard.begin(tool, given)
        if not self._self_is_async:
            return call.guard(lambda: content.settled(tool.call(given)))

        async def execute() -> Any:
            return content.settled(await tool.call(given))

        awaitable: Awaitable[Any] = call.aguard(execute)
        return awaitable


class _Stopped(BaseException):
    """Ends a runner that cannot be closed at work; no `Exception`, which it would show to the model."""


class _Looked(Exception):
    """Leaves the runner's parameters as they are."""


def _tools_of(runner: Any) -> Callable[[], dict[str, Any]]:
    """Return what gives the tools of a runner by name, as the host gave them.

    Raises:
        TypeError: this is no tool runner of Messages, or keeps its tools elsewhere.
        ValueError: the runner has a guard already.
    """
    held = cast("dict[str, Any]", getattr(runner, "__dict__", {}))
    if "generate_tool_call_response" in held:
        msg = "this runner has a guard already; make a new runner for each turn of the user"
        raise ValueError(msg)
    runnable = getattr(runner, "_runnable_tools", None)
    if not hasattr(runner, "generate_tool_call_response") or (
        runnable is None and "_tools_by_name" not in held
    ):
        msg = (
            f"{type(runner).__name__} is not a tool runner that this adapter knows; give it what "
            "client.beta.messages.tool_runner(...) returned, or use MessagesGuard in a loop of your own"
        )
        raise TypeError(msg)
    if runnable is None:
        by_name: dict[str, Any] = dict(held["_tools_by_name"])
        return lambda: by_name
    return lambda: {
        # The runner keeps what it was given back.
        name: tool.__wrapped__ if type(tool) is _GuardedTool else tool
        for name, tool in runnable().items()
    }
