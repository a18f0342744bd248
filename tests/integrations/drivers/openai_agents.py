"""openai-agents over its own scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from agents import Agent, FunctionTool, RunContextWrapper, Runner, function_tool
from agents.items import ToolApprovalItem
from agents.run_config import RunConfig
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from integrations._driver import Driver, Mode, Record, Step, faults, items_layout
from repeatguard_sdk.integrations.openai_agents import AgentStopped, RepeatGuard

NO_ANNOTATIONS = "this version does not keep the annotations of a server's tool"


class Pause(Exception):
    """Stands for what a host raises to leave a tool without an outcome."""


class AgentsDriver:
    """An agent whose run has the guard among its hooks."""

    name: ClassVar[str] = "openai-agents"
    adapter: ClassVar[str] = "openai_agents"
    distribution: ClassVar[str] = "openai-agents"
    cannot: ClassVar[Mapping[str, str]] = {
        "retry": "the framework delivers a call once",
        **({} if hasattr(FunctionTool, "mcp_annotations") else {"annotations": NO_ANNOTATIONS}),
    }

    def tool(self, function: Callable[..., Any], *, name: str | None = None) -> Any:
        return function_tool(function, name_override=name)

    def context_tool(self, guard: Callable[..., Any], body: Callable[[str], str]) -> Any:
        @function_tool
        @guard
        def with_context(context: RunContextWrapper[Any], word: str) -> str:
            """Look at the context."""
            assert isinstance(context, RunContextWrapper)
            return body(word)

        return with_context

    def typed_tool(self, guard: Callable[..., Any], body: Callable[[str], dict[str, int]]) -> Any:
        @function_tool
        @guard
        def typed(word: str) -> dict[str, int]:
            """Count the letters of a word."""
            return body(word)

        return typed

    def wrong_order(self, guard: Callable[..., Any], function: Callable[..., Any]) -> Any:
        return guard(function_tool(function))

    def annotated_tool(self, function: Callable[..., Any], annotations: Mapping[str, Any]) -> Any:
        tool = function_tool(function)
        tool._mcp_annotations = dict(annotations)  # as conversion from MCP sets it
        return tool

    def denying(self, tool: Any) -> Any:
        tool.needs_approval = True
        return tool

    def pausing(self) -> type[Exception]:
        return Pause

    def run(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        mode: Mode = "sync",
        user: str | None = "hello",
        history: Any = None,
        guard: Mapping[str, Any] | None = None,
    ) -> Record:
        self.record = Record()
        self.steps = list(script)
        self.items = list(history or ())
        if user is not None:
            self.items.append({"role": "user", "content": user})
        model = ScriptedModel([ModelStep.respond(self.respond) for _ in range(len(script) + 2)])
        agent = Agent(name="scripted", model=model, tools=list(tools))
        options: dict[str, Any] = {
            "hooks": RepeatGuard(**(guard or {})),
            "run_config": RunConfig(
                tracing_disabled=True, tool_not_found_behavior="return_error_to_model"
            ),
        }
        try:
            result = self.play(agent, options, mode)
        except AgentStopped as stop:
            self.record.stopped = True
            items = stop.run_data.new_items if stop.run_data is not None else []
            new = [item.to_input_item() for item in items if not isinstance(item, ToolApprovalItem)]
            self.finish([*self.items, *new])
            if getattr(stop, "__repeatguard_run__").guarding:  # noqa: B009
                # Inside a block of the host: that is who it is for.
                raise
        else:
            self.record.text = result.final_output
            self.finish(result.to_input_list())
        return self.record

    def play(self, agent: Any, options: dict[str, Any], mode: Mode) -> Any:
        if mode == "sync":
            # A loop of ours: the one that it would make stays open.
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            try:
                result = Runner.run_sync(agent, self.items, **options)
            finally:
                asyncio.set_event_loop(None)
                loop.close()
        else:
            result = asyncio.run(self.aplay(agent, self.items, options, mode))
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                state.reject(item)
            result = asyncio.run(self.aplay(agent, state, options, mode))
        return result

    async def aplay(self, agent: Any, given: Any, options: dict[str, Any], mode: Mode) -> Any:
        if mode != "stream":
            return await Runner.run(agent, given, **options)
        streamed = Runner.run_streamed(agent, given, **options)
        async for _ in streamed.stream_events():
            pass
        return streamed

    def respond(self, call: Any) -> Any:
        self.record.requests += 1
        items = call.input if isinstance(call.input, list) else []
        self.record.sent = items_layout(items)
        assert [] == faults(self.record.sent)
        step = self.steps.pop(0) if self.steps else "done"
        if isinstance(step, str):
            return [assistant_message(step)]
        return [
            function_call(
                ask.tool,
                ask.arguments if isinstance(ask.arguments, str) else json.dumps(ask.arguments),
                call_id=ask.call_id,
            )
            for ask in step
        ]

    def finish(self, items: list[Any]) -> None:
        self.record.history = items
        self.record.layout = items_layout(items)
        self.record.results = {
            item["call_id"]: item["output"]
            for item in items
            if str(item.get("type")).endswith("_output")
        }


DRIVERS: list[type[Driver]] = [AgentsDriver]
