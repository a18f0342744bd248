"""pydantic-ai: the guard as a capability, ``Agent(model, capabilities=[RepeatGuard()])``.

A turn begins where the model is asked; there the loop ends too, with an exception of the framework's
kind, as it does where a usage limit is exceeded. Every tool is guarded where its toolset is called,
whoever made it: `@agent.tool`, a toolset, an MCP server. An agent inside a tool has a run of its own; its
stop is an error of that tool, which may catch it and go on.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

import attrs

from repeatguard_sdk.exceptions import EndedRun, StuckError
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._pydantic_ai_task import AgentTask

_capabilities = load("pydantic_ai.capabilities", extra="pydantic-ai")
_exceptions = load("pydantic_ai.exceptions", extra="pydantic-ai")
_toolsets = load("pydantic_ai.toolsets", extra="pydantic-ai")
_AbstractCapability: Any = _capabilities.AbstractCapability
_AgentRunError: Any = _exceptions.AgentRunError
_WrapperToolset: Any = _toolsets.WrapperToolset

# They leave a call without an outcome. `ModelRetry` does not: it is how a tool here tells the model that
# it failed, and one that fails alike again and again is what the guard is for.
_PAUSES = tuple(
    getattr(_exceptions, name)
    for name in ("ApprovalRequired", "CallDeferred", "RunCancelled", "SkipToolExecution")
    if hasattr(_exceptions, name)
)

# The run of the framework that is guarded here, so that a second guard of it stands back.
_guarded: ContextVar[str | None] = ContextVar("repeatguard_pydantic_ai_run", default=None)


class AgentStopped(_AgentRunError):  # type: ignore[misc]
    """Ends the loop of an agent whose run is over; the run's own block, if there is one, takes it.

    Attributes:
        outcome: how the run ended.
    """

    outcome: EndedRun

    def __init__(
        self, outcome: EndedRun, messages: Sequence[Any] = (), run_id: str | None = None
    ) -> None:
        # Not by `super`: it would be called twice where `StuckError` is another base.
        _AgentRunError.__init__(self, outcome.summary)
        self.outcome = outcome
        self._messages = list(messages)
        self._run_id = run_id

    def __str__(self) -> str:
        return self.outcome.summary

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.outcome, self._messages, self._run_id)

    def all_messages(self) -> list[Any]:
        """Return the history, a result for each call in it, to go on from as `message_history`."""
        return list(self._messages)

    def new_messages(self) -> list[Any]:
        """Return the messages of this run of the agent."""
        return [each for each in self._messages if each.run_id == self._run_id]


class AgentStuck(AgentStopped, StuckError):
    """Ends the loop of an agent that went in circles."""


class RepeatGuard(_AbstractCapability):  # type: ignore[misc]
    """A capability that guards the tools of an agent and ends its loop when it goes in circles.

    One object serves any number of agents and runs, also at once.

    Args:
        is_user: tells a person's words from a machine's, given a `UserPromptPart`; default: all are a
            person's that no tool returned.
        settings: policy, events, memory, registry, effects, deliver, control_flow.

    Raises:
        AgentStuck: out of the agent's run, where the run is stuck; inside ``with Run(...)`` the block
            takes it.
        AgentStopped: likewise, where a hand-off was repeated after its success.
    """

    def __init__(self, *, is_user: Callable[[Any], bool] | None = None, **settings: Any) -> None:
        given = Settings(**settings)
        self._settings = attrs.evolve(given, control_flow=(*given.control_flow, *_PAUSES))
        self._is_user: Callable[[Any], bool] = is_user or _anybody
        self._task: AgentTask | None = None

    def get_ordering(self) -> Any:
        """Ask to be around the others, so that what they make of a result or an error is seen."""
        return _capabilities.CapabilityOrdering(position="outermost")

    async def for_run(self, ctx: Any) -> Any:
        """Return the guard of one run."""
        return copy.copy(self)

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        """Return the toolset under guard."""
        guarded = _GuardedToolset(toolset)
        guarded.capability = self
        return guarded

    async def wrap_run(self, ctx: Any, *, handler: Callable[[], Awaitable[Any]]) -> Any:
        """Guard a run from its begin to its end."""
        if ctx.run_id is not None and _guarded.get() == ctx.run_id:
            return await handler()
        # Never reset: the framework hands it to the caller, and a run's id is of no use afterwards.
        _guarded.set(ctx.run_id)
        task = self._task = AgentTask(self._settings, self._is_user)
        try:
            result = await handler()
        except BaseException as error:
            task.conversation.close(error)
            raise
        task.conversation.close()
        return result

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Mark the next turn, or end the loop."""
        if self._task is not None and not await self._task.next_turn(ctx, request_context):
            raise self._stop(ctx, self._task.conversation, request_context.messages)
        return request_context

    def _stop(self, ctx: Any, conversation: Conversation, messages: Sequence[Any]) -> BaseException:
        outcome = conversation.run.outcome
        assert outcome is not None
        kind = AgentStuck if outcome.reason == "stuck" else AgentStopped
        error = kind(outcome, messages, ctx.run_id)
        conversation.stop(error)
        conversation.close()
        return error

    async def after_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any
    ) -> Any:
        """Put what there is to say behind a result."""
        if self._task is None or self._task.is_inside:
            return result
        return await self._task.answered(ctx, call, args, result)


@dataclasses.dataclass
class _GuardedToolset(_WrapperToolset):  # type: ignore[misc]
    """All tools of an agent's run, called under guard."""

    capability: Any = None

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        tools: dict[str, Any] = await self.wrapped.get_tools(ctx)
        task: AgentTask | None = self.capability._task
        if task is not None:
            task.meet(tools)
        return tools

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        task: AgentTask | None = self.capability._task

        async def execute() -> Any:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)

        if task is None or task.is_inside:
            return await execute()
        return await task.execute(ctx, name, tool_args, tool, execute)


def _anybody(part: Any) -> bool:
    return True
