"""LangChain's `create_agent`, the guard first and last among the middleware, and a LangGraph by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    hook_config,
)
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from integrations._driver import Ask, Driver, Layout, Mode, Record, Step, faults
from repeatguard_sdk.integrations._history import is_note
from repeatguard_sdk.integrations.langchain import GuardedState, RepeatGuard


class Pause(GraphBubbleUp):
    """What the framework raises to leave a tool without an outcome."""


class ScriptedModel(BaseChatModel):
    """Plays a script, and checks every request as a provider would."""

    steps: list[Any]
    requests: list[Layout] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _respond(self, messages: Sequence[Any]) -> AIMessage:
        self.requests.append(layout_of(messages))
        assert [] == faults(self.requests[-1])
        step = self.steps.pop(0) if self.steps else "done"
        if isinstance(step, str):
            return AIMessage(step)
        if isinstance(step, AIMessage):
            return step
        good = [ask for ask in step if not isinstance(ask.arguments, str)]
        bad = [ask for ask in step if isinstance(ask.arguments, str)]
        return AIMessage(
            "",
            tool_calls=[_call(ask) for ask in good],
            invalid_tool_calls=[{**_call(ask), "error": "no JSON"} for ask in bad],
        )

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._respond(messages))])

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        message = self._respond(messages)
        if message.content:
            yield ChatGenerationChunk(message=AIMessageChunk(message.content))
        for place, call in enumerate([*message.tool_calls, *message.invalid_tool_calls]):
            args = call["args"] if isinstance(call["args"], str) else json.dumps(call["args"])
            chunk = {"name": call["name"], "args": args, "id": call["id"], "index": place}
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[chunk]))


def _call(ask: Ask) -> dict[str, Any]:
    return {"name": ask.tool, "args": ask.arguments, "id": ask.call_id}


def layout_of(messages: Sequence[Any]) -> Layout:
    found: Layout = []
    for message in messages:
        if isinstance(message, AIMessage):
            calls = [*message.tool_calls, *message.invalid_tool_calls]
            found += [("call", call["id"]) for call in calls] or [("assistant", "")]
        elif isinstance(message, ToolMessage):
            found.append(("result", message.tool_call_id))
        elif isinstance(message, HumanMessage):
            found.append(("note" if is_note(message.text) else "user", ""))
        elif isinstance(message, SystemMessage):
            found.append(("system", ""))
    return found


class ErrorsAsMessages(AgentMiddleware):
    """Tells the model what a tool raised, as the framework's guide shows it."""

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(request)
        except GraphBubbleUp:
            raise
        except Exception as error:
            return self.message(request, error)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return await handler(request)
        except GraphBubbleUp:
            raise
        except Exception as error:
            return self.message(request, error)

    def message(self, request: Any, error: Exception) -> ToolMessage:
        text = f"Tool error: {error}"
        return ToolMessage(text, tool_call_id=request.tool_call["id"], status="error")

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Answer calls that could not be parsed; by itself the agent would end with them."""
        answers = [
            ToolMessage("These arguments are no JSON.", tool_call_id=call["id"], status="error")
            for call in getattr(state["messages"][-1], "invalid_tool_calls", ())
        ]
        return {"messages": answers, "jump_to": "model"} if answers else None


class Redelivering(AgentMiddleware):
    """Makes each call several times, as a middleware that retries does."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        for _ in range(self.times):
            result = handler(request)
        return result


class LangChainDriver:
    """An agent whose first middleware is the guard."""

    name: ClassVar[str] = "langchain"
    adapter: ClassVar[str] = "langchain"
    distribution: ClassVar[str] = "langchain"
    cannot: ClassVar[Mapping[str, str]] = {}

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.times = 1

    # -- tools -----------------------------------------------------------------------------------

    def tool(self, function: Callable[..., Any], *, name: str | None = None) -> Any:
        return tool(function) if name is None else tool(name)(function)

    def context_tool(self, guard: Callable[..., Any], body: Callable[[str], str]) -> Any:
        @tool
        @guard
        def with_context(word: str, runtime: ToolRuntime) -> str:
            """Look at the context."""
            assert isinstance(runtime, ToolRuntime)
            return body(word)

        return with_context

    def typed_tool(self, guard: Callable[..., Any], body: Callable[[str], dict[str, int]]) -> Any:
        @tool(response_format="content_and_artifact")
        @guard
        def typed(word: str) -> tuple[str, dict[str, int]]:
            """Count the letters of a word."""
            found = body(word)
            return json.dumps(found), found

        return typed

    def wrong_order(self, guard: Callable[..., Any], function: Callable[..., Any]) -> Any:
        return guard(tool(function))

    def annotated_tool(self, function: Callable[..., Any], annotations: Mapping[str, Any]) -> Any:
        made = tool(function)
        made.metadata = dict(annotations)  # as the adapters of MCP servers keep them
        return made

    def denying(self, tool: Any) -> Any:
        self.denied.add(tool.name)
        return tool

    def pausing(self) -> type[Exception]:
        return Pause

    # -- the agent -------------------------------------------------------------------------------

    def agent(self, model: Any, tools: Sequence[Any], guard: RepeatGuard) -> Any:
        rejecting = HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(self.denied, True))
        return create_agent(
            model,
            list(tools),
            middleware=[
                *([Redelivering(self.times)] if self.times > 1 else []),
                *self.ordered(guard, ErrorsAsMessages()),
                *([rejecting] if self.denied else []),
            ],
            checkpointer=InMemorySaver() if self.denied else None,
        )

    def ordered(self, guard: Any, errors: Any) -> list[Any]:
        return [guard, errors]

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
        messages = [*(history or ()), *([HumanMessage(user)] if user is not None else [])]
        model = ScriptedModel(steps=list(script), requests=[])
        agent = self.agent(model, tools, RepeatGuard(**(guard or {})))
        state = self.play(agent, {"messages": messages}, mode)
        return self.record(model, state["messages"])

    def play(self, agent: Any, given: Any, mode: Mode) -> Any:
        config = {"configurable": {"thread_id": "1"}, "recursion_limit": 100}
        state = self.once(agent, given, mode, config)
        while state.get("__interrupt__"):
            (pause,) = state["__interrupt__"]
            rejected = [{"type": "reject"} for _ in pause.value["action_requests"]]
            state = self.once(agent, Command(resume={"decisions": rejected}), mode, config)
        return state

    def once(self, agent: Any, given: Any, mode: Mode, config: Any) -> Any:
        if mode == "sync":
            return agent.invoke(given, config)
        if mode == "async":
            return asyncio.run(agent.ainvoke(given, config))
        states = agent.stream(given, config, stream_mode=["messages", "values"])
        return [state for kind, state in states if kind == "values"][-1]

    def record(self, model: ScriptedModel, messages: list[Any]) -> Record:
        last = messages[-1]
        results = [each for each in messages if isinstance(each, ToolMessage)]
        stopped = "repeatguard" in getattr(last, "response_metadata", {})
        return Record(
            results={each.tool_call_id: each.text for each in results},
            typed={
                each.tool_call_id: each.artifact for each in results if each.artifact is not None
            },
            requests=len(model.requests),
            stopped=stopped,
            text=None if stopped else last.text,
            layout=layout_of(messages),
            sent=model.requests[-1] if model.requests else [],
            history=messages,
        )

    def retried(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        times: int,
        guard: Mapping[str, Any] | None = None,
    ) -> Record:
        self.times = times
        return self.run(tools, script, guard=guard)


class LastDriver(LangChainDriver):
    """An agent whose last middleware is the guard, so that others make messages of errors."""

    name: ClassVar[str] = "langchain, guard last"

    def ordered(self, guard: Any, errors: Any) -> list[Any]:
        return [errors, guard]


class GraphDriver(LangChainDriver):
    """A LangGraph written by hand."""

    name: ClassVar[str] = "langgraph"
    distribution: ClassVar[str] = "langgraph"

    def agent(self, model: Any, tools: Sequence[Any], guard: RepeatGuard) -> Any:
        errors = ErrorsAsMessages()

        def rejects(request: Any) -> ToolMessage | None:
            if request.tool_call["name"] not in self.denied:
                return None
            return ToolMessage("No.", tool_call_id=request.tool_call["id"], status="error")

        def outside(request: Any, execute: Any) -> Any:
            if rejected := rejects(request):
                return rejected
            for _ in range(self.times):
                result = errors.wrap_tool_call(
                    request, lambda request: guard.wrap_tool_call(request, execute)
                )
            return result

        async def aoutside(request: Any, execute: Any) -> Any:
            return await errors.awrap_tool_call(
                request, lambda request: guard.awrap_tool_call(request, execute)
            )

        def ask(state: Any) -> dict[str, Any]:
            return {"messages": [model.bind_tools(tools).invoke(state["messages"])]}

        def invalid(state: Any) -> dict[str, Any]:
            return {"messages": (errors.after_model(state, None) or {}).get("messages", [])}

        def onward(state: Any) -> str:
            last = state["messages"][-1]
            if isinstance(last, ToolMessage):
                return "guard"
            return "tools" if last.tool_calls else "end"

        graph = StateGraph(GuardedState)
        graph.add_node("guard", guard.before_model)
        graph.add_node("model", ask)
        graph.add_node("invalid", invalid)
        graph.add_node(
            "tools", ToolNode(list(tools), wrap_tool_call=outside, awrap_tool_call=aoutside)
        )
        graph.add_node("end", guard.after_agent)
        graph.add_edge(START, "guard")
        graph.add_conditional_edges("guard", lambda state: state.get("jump_to") or "model")
        graph.add_edge("model", "invalid")
        graph.add_conditional_edges("invalid", onward)
        graph.add_edge("tools", "guard")
        return graph.compile()


DRIVERS: list[type[Driver]] = [LangChainDriver, LastDriver]
if "tools" in ToolRuntime.__dataclass_fields__:
    # Before langgraph 1.1 a `ToolNode` does not tell which tools there are.
    DRIVERS.append(GraphDriver)
