"""LangChain: the guard as agent middleware, ``create_agent(model, tools, middleware=[RepeatGuard()])``.

A turn begins where the model is asked; there the loop ends too, by a jump to the end with a last message
that says why. Every tool call is guarded, whoever made the tool: `@tool`, a subclass, an MCP server.

A LangGraph written by hand has the same places: `GuardedState` as its state, `before_model` as the node
in front of the model, `after_agent` as the node in front of the end, `wrap_tool_call` in its `ToolNode`::

    guard = RepeatGuard()
    graph = StateGraph(GuardedState)
    graph.add_node("guard", guard.before_model)  # START and "tools" lead here
    graph.add_node("end", guard.after_agent)
    graph.add_conditional_edges("guard", lambda state: state.get("jump_to") or "model")
    graph.add_node("tools", ToolNode(tools, wrap_tool_call=guard.wrap_tool_call))
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import attrs

import repeatguard_sdk.integrations._langchain_messages as reading
from repeatguard_sdk.integrations._conversation import Settings
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._langchain_call import Way
from repeatguard_sdk.integrations._langchain_task import TASK, Tasks, task_in

_types = load("langchain.agents.middleware.types", extra="langchain")
_errors = load("langgraph.errors", extra="langchain")
_AgentMiddleware: Any = _types.AgentMiddleware
_AgentState: Any = _types.AgentState
_Hidden: Any = _types.PrivateStateAttr
_Hook = TypeVar("_Hook", bound=Callable[..., Any])


class GuardedState(_AgentState):  # type: ignore[misc]
    """An agent's state, with the name under which the guard finds its task again."""

    repeatguard_task: Annotated[str, _Hidden]


def _can_end(hook: _Hook) -> _Hook:
    marked: _Hook = _types.hook_config(can_jump_to=["end"])(hook)
    return marked


class RepeatGuard(_AgentMiddleware):  # type: ignore[misc]
    """Middleware that guards an agent's tool calls and ends its loop when it goes in circles.

    One object serves any number of agents and invocations, also at once. It works anywhere in the list;
    best behind what changes a request or a call, such as a choice of tools, cleared results or an edit
    by a person, so that it sees what the model and the tools get.

    Args:
        is_user: tells a person's message from a machine's, given a `HumanMessage`; default: all but
            notes and summaries are a person's.
        settings: policy, events, memory, registry, effects, deliver, control_flow.
    """

    state_schema = GuardedState

    def __init__(self, *, is_user: Callable[[Any], bool] | None = None, **settings: Any) -> None:
        given = Settings(**settings)
        control_flow = (*given.control_flow, _errors.GraphBubbleUp)
        self.tools: list[Any] = []
        self._tasks = Tasks(attrs.evolve(given, control_flow=control_flow), is_user)

    # -- the agent -------------------------------------------------------------------------------

    def before_agent(self, state: Any, runtime: Any = None) -> dict[str, Any]:
        """Begin a task; one of the same thread that was left unfinished is over."""
        self._tasks.end(task_in(state))
        return {TASK: uuid.uuid4().hex}

    async def abefore_agent(self, state: Any, runtime: Any = None) -> dict[str, Any]:
        """Begin a task, as `before_agent` does."""
        return self.before_agent(state)

    def after_agent(self, state: Any, runtime: Any = None) -> None:
        """End the task."""
        self._tasks.end(task_in(state))

    async def aafter_agent(self, state: Any, runtime: Any = None) -> None:
        """End the task, as `after_agent` does."""
        self.after_agent(state)

    # -- the model -------------------------------------------------------------------------------

    @_can_end
    def before_model(self, state: Any, runtime: Any = None) -> dict[str, Any] | None:
        """Mark the next turn, or end the loop."""
        task = self._tasks.of(state)
        messages = reading.messages_in(state)
        if task.is_rewound(messages):
            self._tasks.end(task.name)
            task = self._tasks.of(state, name=task.name)
        update = task.settle(messages)
        if task.next_turn(messages):
            notes = task.conversation.run.messages("openai")
            update += [reading.HumanMessage(note["content"]) for note in notes]
            named = {} if task_in(state) else {TASK: task.name}
            return {**named, "messages": update} if update or named else None
        self._tasks.end(task.name)
        return {"messages": [*update, task.farewell()], "jump_to": "end"}

    @_can_end
    async def abefore_model(self, state: Any, runtime: Any = None) -> dict[str, Any] | None:
        """Mark the next turn or end the loop, as `before_model` does."""
        return self.before_model(state)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Take note of the tools the model is given."""
        ended = self._given_tools(request, asynchronous=False)
        return handler(request) if ended is None else ended

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Take note of the tools the model is given."""
        ended = self._given_tools(request, asynchronous=True)
        return await handler(request) if ended is None else ended

    def _given_tools(self, request: Any, *, asynchronous: bool) -> Any:
        task = self._tasks.of(request.state)
        task.lost(request.messages)
        if task.offer(request.tools, asynchronous=asynchronous):
            return None
        # What the history holds had to wait for the tools, and it is a loop already.
        self._tasks.end(task.name)
        return task.farewell()

    # -- the tools -------------------------------------------------------------------------------

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Execute a tool call under guard."""
        way = Way(self._tasks.of(request.state), request, asynchronous=False)
        try:
            kept = way.call.guard(lambda: way.keep(handler(way.request)))
        except Exception as error:
            return way.failed(error)
        return way.answered(kept)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Execute a tool call under guard."""
        way = Way(self._tasks.of(request.state), request, asynchronous=True)

        async def execute() -> Any:
            return way.keep(await handler(way.request))

        try:
            kept = await way.call.aguard(execute)
        except Exception as error:
            return way.failed(error)
        return way.answered(kept)
