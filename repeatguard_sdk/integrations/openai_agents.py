"""openai-agents: the guard as run hooks, ``Runner.run(agent, "...", hooks=RepeatGuard())``.

A turn begins where the model is asked; there the loop ends too, with an exception of the framework's
kind, as it does where `max_turns` is exceeded. Every function tool is guarded when it is started,
whoever made it: `@function_tool`, `Agent.as_tool`, an MCP server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repeatguard_sdk.exceptions import EndedRun, StuckError
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._openai_agents_task import GuardedInvoker, Task, past_calls
from repeatguard_sdk.integrations._openai_items import is_user

_agents = load("agents", extra="openai-agents")
_RunHooks: Any = _agents.RunHooks
_AgentsException: Any = _agents.AgentsException


class AgentStopped(_AgentsException):  # type: ignore[misc]
    """Ends the loop of an agent whose run is over; the run's own block, if there is one, takes it.

    Attributes:
        outcome: how the run ended.
        run_data: the framework's account of the run so far: input, items, last agent.
    """

    outcome: EndedRun

    def __init__(self, outcome: EndedRun) -> None:
        # Not by `super`: it would be called twice where `StuckError` is another base.
        _AgentsException.__init__(self, outcome)
        self.outcome = outcome

    def __str__(self) -> str:
        return self.outcome.summary


class AgentStuck(AgentStopped, StuckError):
    """Ends the loop of an agent that went in circles."""


class RepeatGuard(_RunHooks):  # type: ignore[misc]
    """Run hooks that guard the function tools of a run and end its loop when it goes in circles.

    One object serves any number of runs, also at once.

    Args:
        hooks: hooks of the host's own, called as they would be without the guard.
        is_user: tells a person's message from a machine's, given an input item of role "user";
            default: all of them are a person's.
        settings: policy, events, memory, registry, effects, deliver, control_flow. Delivered as
            messages, observations stand behind the results in one request, and not in the history.

    Raises:
        AgentStuck: out of `Runner.run`, where the run is stuck; inside ``with Run(...)`` the block
            takes it.
        AgentStopped: likewise, where a hand-off was repeated after its success.
    """

    def __init__(
        self, *, hooks: Any = None, is_user: Callable[[Any], bool] | None = None, **settings: Any
    ) -> None:
        self._hooks = hooks if hooks is not None else _RunHooks()
        self._is_user: Callable[[Any], bool] = is_user or _anybody
        self._settings = Settings(**settings)

    # -- hooks -----------------------------------------------------------------------------------

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: Any, input_items: list[Any]
    ) -> None:
        """Mark the next turn, or end the loop."""
        task = Task.of(context, self._settings)
        task.settle_refusals(context, input_items)
        await task.offer(context, agent)
        users = [
            place for place, item in enumerate(input_items) if is_user(item) and self._is_user(item)
        ]
        recent = input_items[users[-1] + 1 if users else 0 :]
        conversation = task.conversation
        go_on = conversation.next_turn(
            users=len(users), past=lambda: past_calls(context, recent, task)
        )
        if not go_on:
            raise _stop(conversation)
        # Into this one request: the history stays as the framework keeps it.
        input_items += conversation.run.messages("openai-responses")
        await self._hooks.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Take note of what the model asks for; not all of it will reach a tool."""
        Task.of(context, self._settings).expect(agent, response.output)
        await self._hooks.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Put the guard around the tool that is about to be invoked."""
        invoke = getattr(tool, "on_invoke_tool", None)
        if invoke is not None:
            task = Task.of(context, self._settings)
            task.started(getattr(context, "tool_call_id", ""))
            task.know(tool)
            if not isinstance(invoke, GuardedInvoker):
                # On the tool itself, once: outside of a guarded run it is passed through.
                tool.on_invoke_tool = GuardedInvoker(invoke)
        await self._hooks.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Call the host's hook."""
        await self._hooks.on_tool_end(context, agent, tool, result)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Call the host's hook."""
        await self._hooks.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """End the run, if it is the guard's own."""
        Task.end(context)
        await self._hooks.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Call the host's hook."""
        await self._hooks.on_handoff(context, from_agent, to_agent)


def _anybody(item: Any) -> bool:
    return True


def _stop(conversation: Conversation) -> BaseException:
    """Return what ends the framework's loop."""
    outcome = conversation.run.outcome
    assert outcome is not None
    error = AgentStuck(outcome) if outcome.reason == "stuck" else AgentStopped(outcome)
    conversation.stop(error)
    conversation.close()
    return error
