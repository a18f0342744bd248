"""pydantic-ai over its own function model."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, ClassVar

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    Tool,
    ToolDenied,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from integrations._driver import Driver, Layout, Mode, Record, Step, faults
from repeatguard_sdk.integrations._history import is_note
from repeatguard_sdk.integrations.pydantic_ai import AgentStopped, RepeatGuard

# The tools' own budget was named apart for some versions before the second.
RETRIES = "tool_retries" if "tool_retries" in inspect.signature(Agent).parameters else "retries"


class ErrorsAsText(AbstractCapability[Any]):
    """Tells the model of an error, which the framework would raise to the caller."""

    async def on_tool_execute_error(self, ctx: Any, *, error: Exception, **_: Any) -> Any:
        return f"failed: {error}"


class Again(AbstractCapability[Any]):
    """Executes each call several times, as a retry of a host's does."""

    def __init__(self, times: int) -> None:
        self.times = times

    async def wrap_tool_execute(self, ctx: Any, *, args: Any, handler: Any, **_: Any) -> Any:
        for _time in range(self.times):
            result = await handler(args)
        return result


class PydanticAIDriver:
    """An agent with the guard among its capabilities."""

    name: ClassVar[str] = "pydantic-ai"
    adapter: ClassVar[str] = "pydantic_ai"
    distribution: ClassVar[str] = "pydantic-ai-slim"
    cannot: ClassVar[Mapping[str, str]] = {}

    def tool(self, function: Callable[..., Any], *, name: str | None = None) -> Any:
        return Tool(function, name=name)

    def context_tool(self, guard: Callable[..., Any], body: Callable[[str], str]) -> Any:
        @guard
        def with_context(context: RunContext[None], word: str) -> str:
            """Look at the context."""
            assert isinstance(context, RunContext)
            return body(word)

        return Tool(with_context)

    def typed_tool(self, guard: Callable[..., Any], body: Callable[[str], dict[str, int]]) -> Any:
        @guard
        def typed(word: str) -> dict[str, int]:
            """Count the letters of a word."""
            return body(word)

        return Tool(typed)

    def wrong_order(self, guard: Callable[..., Any], function: Callable[..., Any]) -> Any:
        agent: Agent[None, Any] = Agent(FunctionModel(lambda *_: ModelResponse(parts=[])))
        guard(agent.tool_plain(function))
        return Tool(function)

    def annotated_tool(self, function: Callable[..., Any], annotations: Mapping[str, Any]) -> Any:
        # As a toolset of an MCP server does.
        return Tool(function, metadata={"meta": None, "annotations": dict(annotations)})

    def denying(self, tool: Any) -> Any:
        tool.requires_approval = True
        return tool

    def pausing(self) -> type[Exception]:
        return CallDeferred

    def run(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        mode: Mode = "sync",
        user: str | None = "hello",
        history: Any = None,
        guard: Mapping[str, Any] | None = None,
        capabilities: Sequence[Any] = (),
    ) -> Record:
        self.record = Record()
        self.steps = list(script)
        if user is None:
            # After a final text the framework asks nothing, so go on from the results before it.
            history = history[:-1]
        agent = Agent(
            FunctionModel(self.respond, stream_function=self.stream),
            tools=list(tools),
            capabilities=[ErrorsAsText(), *capabilities, RepeatGuard(**(guard or {}))],
            output_type=[str, DeferredToolRequests],
            **{RETRIES: 20},
        )
        try:
            result = self.play(agent, user, history, mode)
        except AgentStopped as stop:
            self.record.stopped = True
            self.finish(stop.all_messages())
            if getattr(stop, "__repeatguard_run__").guarding:  # noqa: B009
                # Inside a block of the host: that is who it is for.
                raise
        else:
            self.record.text, messages = result
            self.finish(messages)
        return self.record

    def retried(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        times: int,
        guard: Mapping[str, Any] | None = None,
    ) -> Record:
        return self.run(tools, script, guard=guard, capabilities=[Again(times)])

    def play(self, agent: Any, user: str | None, history: Any, mode: Mode) -> tuple[Any, list[Any]]:
        results = None
        while True:
            asked = {"message_history": history, "deferred_tool_results": results}
            if mode == "sync":
                loop = asyncio.new_event_loop()
                asyncio.set_event_loop(loop)
                try:
                    result = agent.run_sync(user, **asked)
                    output, messages = result.output, result.all_messages()
                finally:
                    asyncio.set_event_loop(None)
                    loop.close()
            else:
                output, messages = asyncio.run(self.aplay(agent, user, asked, mode))
            if not isinstance(output, DeferredToolRequests):
                return output, messages
            if output.calls:
                raise CallDeferred
            denied = {
                call.tool_call_id: ToolDenied("A person said no.") for call in output.approvals
            }
            user, history, results = None, messages, DeferredToolResults(approvals=denied)

    async def aplay(
        self, agent: Any, user: str | None, asked: dict[str, Any], mode: Mode
    ) -> tuple[Any, list[Any]]:
        if mode != "stream":
            result = await agent.run(user, **asked)
            return result.output, result.all_messages()
        async with agent.run_stream(user, **asked) as streamed:
            output = await streamed.get_output()
            return output, streamed.all_messages()

    def next_step(self, messages: list[Any]) -> Step:
        self.record.requests += 1
        self.record.sent = layout(messages)
        assert [] == faults(self.record.sent)
        return self.steps.pop(0) if self.steps else "done"

    def respond(self, messages: list[Any], info: Any) -> ModelResponse:
        step = self.next_step(messages)
        if isinstance(step, str):
            return ModelResponse(parts=[TextPart(step)])
        calls = [
            ToolCallPart(ask.tool, as_given(ask.arguments), tool_call_id=ask.call_id)
            for ask in step
        ]
        return ModelResponse(parts=calls)

    async def stream(self, messages: list[Any], info: Any) -> AsyncIterator[Any]:
        step = self.next_step(messages)
        if isinstance(step, str):
            yield step
            return
        for index, ask in enumerate(step):
            arguments = as_given(ask.arguments)
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            yield {index: DeltaToolCall(ask.tool, text, tool_call_id=ask.call_id)}

    def finish(self, messages: list[Any]) -> None:
        self.record.history = messages
        self.record.layout = layout(messages)
        for message in messages:
            for part in message.parts:
                if part.part_kind in ("tool-return", "retry-prompt"):
                    content = part.content
                    self.record.results[part.tool_call_id] = (
                        content if isinstance(content, str) else json.dumps(content, default=str)
                    )
                    if part.tool_name == "typed":
                        self.record.typed[part.tool_call_id] = content


def as_given(arguments: Mapping[str, Any] | str) -> dict[str, Any] | str:
    return arguments if isinstance(arguments, str) else dict(arguments)


def layout(messages: list[Any]) -> Layout:
    kinds = {
        "tool-call": "call",
        "tool-return": "result",
        "retry-prompt": "result",
        "text": "assistant",
        "system-prompt": "system",
        "user-prompt": "user",
    }
    found: Layout = []
    for message in messages:
        for part in message.parts:
            kind = kinds[part.part_kind]
            if kind == "user" and is_note(str(part.content)):
                kind = "note"
            call_id = part.tool_call_id if kind in ("call", "result") else ""
            found.append((kind, call_id))
    return found


DRIVERS: list[type[Driver]] = [PydanticAIDriver]
