"""pydantic-ai: the guard as a capability, ``Agent(model, capabilities=[RepeatGuard()])``.

A turn begins where the model is asked; there the loop ends too, with an exception of the framework's
kind, as it does where a usage limit is exceeded. Every tool is guarded where its toolset is called,
whoever made it: `@agent.tool`, a toolset, an MCP server.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import attrs

from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import standing_for
from repeatguard_sdk.exceptions import EndedRun, StuckError
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._pydantic_ai_parts import (
    ModelRetry,
    ToolFailed,
    answered_calls,
    beside,
    function_of,
    may_be_said,
    outcome_of,
    past_call,
    put_behind,
    text_of,
    with_notes,
)
from repeatguard_sdk.integrations._records import Known
from repeatguard_sdk.integrations._tool_call import ToolCall

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
# Ids of the calls a run has counted: one of a host may last for several runs of the framework.
_counted: weakref.WeakKeyDictionary[Run, set[str]] = weakref.WeakKeyDictionary()


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
        self._task: _Task | None = None

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
        task = self._task = _Task(self._settings, self._is_user)
        try:
            result = await handler()
        except BaseException as error:
            task.conversation.close(error)
            raise
        task.conversation.close()
        return result

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Mark the next turn, or end the loop."""
        if self._task is not None:
            await self._task.next_turn(ctx, request_context)
        return request_context

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
        task: _Task | None = self.capability._task
        if task is not None:
            task.meet(tools)
        return tools

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        task: _Task | None = self.capability._task

        async def execute() -> Any:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)

        if task is None or task.is_inside:
            return await execute()
        return await task.execute(ctx, name, tool_args, tool, execute)


# -- one run of the framework ----------------------------------------------------------------------


class _Task:
    """One run of an agent under guard.

    Args:
        settings: what the host said.
        is_user: tells a person's words.
    """

    def __init__(self, settings: Settings, is_user: Callable[[Any], bool]) -> None:
        self.conversation = Conversation(settings)
        self._settings = settings
        self._is_user = is_user
        self._tools: dict[str, Any] = {}
        # Whether the history was taken up, and whether the model was asked.
        self._begun = self._asked = False
        # Calls whose results are on their way through the hooks, and those put off.
        self._under_way: dict[str, list[ToolCall]] = {}
        self._put_off: set[str] = set()
        # What tools gave for a place of its own, where it looks like a user's words.
        self._given: list[Any] = []

    @property
    def is_inside(self) -> bool:
        """Whether this is the body of one of the tools: what it calls is part of that call."""
        run = self.conversation.run
        return standing_for(run) is not run

    @property
    def _ids(self) -> set[str]:
        return _counted.setdefault(self.conversation.run, set())

    # -- tools -----------------------------------------------------------------------------------

    def meet(self, tools: Mapping[str, Any]) -> None:
        """Take note of the tools of the next step."""
        self._tools = dict(tools)

    def _know(self, name: str, tool: Any = None) -> Known | None:
        tool = tool or self._tools.get(name)
        if tool is None:
            return None
        definition = tool.tool_def
        metadata: Any = definition.metadata or {}
        return self.conversation.known(
            name,
            function_of(tool),
            annotations=metadata.get("annotations"),
            description=definition.description or "",
        )

    def _offer(self, definitions: Sequence[Any]) -> None:
        known = [(each.name, self._know(each.name)) for each in definitions]
        self.conversation.offer((name, found) for name, found in known if found is not None)

    # -- calls -----------------------------------------------------------------------------------

    async def execute(
        self, ctx: Any, name: str, args: Any, tool: Any, execute: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Call a tool under guard."""
        self._begin(ctx.messages)
        call_id = ctx.tool_call_id
        call = self.conversation.call(name, args, call_id, self._know(name, tool))
        self._ids.add(call_id)
        self._under_way.setdefault(call_id, []).append(call)
        try:
            return await call.aguard(execute)
        except (ModelRetry, ToolFailed) as error:
            self._under_way.pop(call_id, None)
            kind = ModelRetry if isinstance(error, ModelRetry) else ToolFailed
            raise kind(call.answer(str(error))) from error
        except self._settings.control_flow:
            self._under_way.pop(call_id, None)
            self._ids.discard(call_id)
            self._put_off.add(call_id)
            raise

    async def answered(self, ctx: Any, call: Any, args: Any, result: Any) -> Any:
        """Return the result of a call with what there is to say, wherever it came from."""
        calls = self._under_way.pop(call.tool_call_id, None)
        if calls is None:
            # It was answered in front of the tool, by another capability or a person.
            self._begin(ctx.messages)
            on_purpose = call.tool_call_id in self._put_off
            calls = [await self._made_elsewhere(call, args, result, on_purpose=on_purpose)]
        for made in calls:
            result = with_notes(made, result)
        if beside(result) is not None:
            self._given.append(beside(result))
        return result

    async def _made_elsewhere(
        self, part: Any, args: Any, result: Any, *, on_purpose: bool
    ) -> ToolCall:
        """Count a call whose result came without its tool; not on purpose that is warned of."""
        name, call_id = part.tool_name, part.tool_call_id
        known = self._know(name)
        external = known is not None and self._tools[name].tool_def.kind == "external"
        if known is not None and (external or on_purpose):
            known = known._replace(guards_itself=False, fix="")
        call = self.conversation.call(name, args, call_id, known)
        self._ids.add(call_id)
        await call.aguard(lambda: result)
        return call

    # -- turns -----------------------------------------------------------------------------------

    async def next_turn(self, ctx: Any, request_context: Any) -> None:
        """Mark the boundary before a request.

        Raises:
            AgentStopped: the loop must end here.
        """
        messages: list[Any] = request_context.messages
        parameters = request_context.model_request_parameters
        self._offer(parameters.function_tools)
        outputs = {each.name for each in parameters.output_tools}
        # What was answered before the user spoke is no matter of this run.
        spoken = not self._asked and ctx.prompt is not None
        notes = [] if spoken else await self._settle(messages, outputs)
        for call in itertools.chain.from_iterable(self._under_way.values()):
            # Another capability did not let the result through.
            call.leave_notes()
        self._under_way.clear()
        self._begun = self._asked = True
        go_on = self.conversation.next_turn(
            users=self._users(messages), past=lambda: self._past(messages)
        )
        if not go_on:
            raise self._stop(ctx, messages)
        notes += [each["content"] for each in self.conversation.run.messages("openai")]
        put_behind(notes, messages)

    def _begin(self, messages: Sequence[Any]) -> None:
        """Take up the history, where calls come before the first request, as approved ones do."""
        if not self._begun:
            self._begun = True
            self.conversation.next_turn(
                users=self._users(messages), past=lambda: self._past(messages)
            )

    def _stop(self, ctx: Any, messages: Sequence[Any]) -> BaseException:
        outcome = self.conversation.run.outcome
        assert outcome is not None
        kind = AgentStuck if outcome.reason == "stuck" else AgentStopped
        error = kind(outcome, messages, ctx.run_id)
        self.conversation.stop(error)
        self.conversation.close()
        return error

    async def _settle(self, messages: Sequence[Any], outputs: set[str]) -> list[str]:
        """Count the calls of the last response that were answered without their tools.

        Returns:
            What there is to say about them.
        """
        if not self._begun and self.conversation.run.calls == 0:
            # They are part of what is taken up.
            return []
        start = max((n for n, each in enumerate(messages) if each.kind == "response"), default=None)
        if start is None:
            return []
        notes: list[str] = []
        for _, part, answer in answered_calls(messages[start:]):
            if part.tool_name not in outputs and part.tool_call_id not in self._ids:
                notes += await self._settle_one(part, answer)
        return notes

    async def _settle_one(self, part: Any, answer: Any) -> list[str]:
        outcome = outcome_of(answer)
        if outcome == "interrupted":
            return []
        if outcome == "success":
            # Before the first request here: what a person or another program gave for a call put off.
            on_purpose = not self._asked or part.tool_call_id in self._put_off
            call = await self._made_elsewhere(
                part, part.args, answer.content, on_purpose=on_purpose
            )
            note = call.note_text()
        else:
            self._ids.add(part.tool_call_id)
            call = self.conversation.call(part.tool_name, part.args, part.tool_call_id)
            reason = text_of(answer)
            note = call.refuse(reason, denied=outcome == "denied").removeprefix(reason).strip()
        return [note] if note else []

    # -- the history -----------------------------------------------------------------------------

    def _is_said(self, part: Any) -> bool:
        """Whether a part holds the words of a person."""
        return may_be_said(part) and part.content not in self._given and self._is_user(part)

    def _users(self, messages: Sequence[Any]) -> int:
        return sum(self._is_said(part) for each in messages for part in each.parts)

    def _past(self, messages: Sequence[Any]) -> list[PastCall]:
        """Return the calls since a person spoke that got an answer."""
        said = [n for n, each in enumerate(messages) if any(map(self._is_said, each.parts))]
        recent = messages[said[-1] + 1 if said else 0 :]
        calls = [(*each, self._tools.get(each[1].tool_name)) for each in answered_calls(recent)]
        past = [found for each in calls if (found := past_call(*each)) is not None]
        if self.conversation.run.calls == 0:
            self._ids.update(each.call_id for each in past if each.call_id is not None)
        return past


def _anybody(part: Any) -> bool:
    return True
