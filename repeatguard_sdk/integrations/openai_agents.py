"""openai-agents: the guard as run hooks, ``Runner.run(agent, "...", hooks=RepeatGuard())``.

A turn begins where the model is asked; there the loop ends too, with an exception of the framework's
kind, as it does where `max_turns` is exceeded. Every function tool is guarded when it is started,
whoever made it: `@function_tool`, `Agent.as_tool`, an MCP server.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import wrapt

from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._scope import Inside, active
from repeatguard_sdk._toolset import undeclared
from repeatguard_sdk.exceptions import EndedRun, StuckError
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._history import is_note, read_back, without_note
from repeatguard_sdk.integrations._records import Known
from repeatguard_sdk.integrations._tool_call import ToolCall

_agents = load("agents", extra="openai-agents")
_tools = load("agents.tool", extra="openai-agents")
_RunHooks: Any = _agents.RunHooks
_AgentsException: Any = _agents.AgentsException
_ObjectProxy: Any = wrapt.ObjectProxy

# What the framework makes of an error where nobody says otherwise; newer versions keep its text back.
_FAILED = "An error occurred while running the tool. Please try again."


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
        task = _Task.of(context, self._settings)
        task.settle_refusals(context, input_items)
        await task.offer(context, agent)
        users = [
            place
            for place, item in enumerate(input_items)
            if _is_message(item) and self._is_user(item)
        ]
        recent = input_items[users[-1] + 1 if users else 0 :]
        conversation = task.conversation
        go_on = conversation.next_turn(users=len(users), past=lambda: _past(context, recent, task))
        if not go_on:
            raise task.stop()
        # Into this one request: the history stays as the framework keeps it.
        input_items += conversation.run.messages("openai-responses")
        await self._hooks.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Take note of what the model asks for; not all of it will reach a tool."""
        _Task.of(context, self._settings).expect(agent, response.output)
        await self._hooks.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Put the guard around the tool that is about to be invoked."""
        invoke = getattr(tool, "on_invoke_tool", None)
        if invoke is not None:
            task = _Task.of(context, self._settings)
            task.started(getattr(context, "tool_call_id", ""))
            task.know(tool)
            if not isinstance(invoke, _GuardedInvoker):
                # On the tool itself, once: outside of a guarded run it is passed through.
                tool.on_invoke_tool = _GuardedInvoker(invoke)
        await self._hooks.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Call the host's hook."""
        await self._hooks.on_tool_end(context, agent, tool, result)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Call the host's hook."""
        await self._hooks.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """End the run, if it is the guard's own."""
        _Task.end(context)
        await self._hooks.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Call the host's hook."""
        await self._hooks.on_handoff(context, from_agent, to_agent)


# -- one run of the framework ----------------------------------------------------------------------


class _Task:
    """One `Runner.run` under guard.

    Args:
        settings: what the host said.
    """

    # By the usage record that all contexts of one run share, and by the tool whose body it is in.
    _tasks: ClassVar[dict[tuple[int, int], tuple[Any, _Task]]] = {}
    # Protects `_tasks`: runs begin and end in any thread.
    _lock = threading.Lock()

    def __init__(self, settings: Settings) -> None:
        self.conversation = Conversation(settings)
        self.known: dict[str, tuple[Known, Any]] = {}
        self._expected: dict[str, Any] = {}
        self._servers_tools: dict[int, list[Any]] = {}

    @staticmethod
    def _place(context: Any) -> tuple[int, int]:
        here = active.get()
        # An agent that is a tool of another one shares its usage, and has a run of its own.
        return id(context.usage), id(here) if isinstance(here, Inside) else 0

    @classmethod
    def of(cls, context: Any, settings: Settings) -> _Task:
        """Return the task of a context, new with the first hook of its run."""
        place = cls._place(context)
        with cls._lock:
            known = cls._tasks.get(place)
            if known is None:
                gone = weakref.ref(context.usage, functools.partial(cls._forget, place))
                known = cls._tasks[place] = (gone, cls(settings))
        return known[1]

    @classmethod
    def find(cls, context: Any) -> _Task | None:
        """Return the task of a context, if it is guarded."""
        with cls._lock:
            known = cls._tasks.get(cls._place(context))
        return None if known is None else known[1]

    @classmethod
    def end(cls, context: Any) -> None:
        """End the task of a context."""
        cls._forget(cls._place(context))

    @classmethod
    def _forget(cls, place: tuple[int, int], _: Any = None) -> None:
        known = cls._tasks.pop(place, None)
        if known is not None:
            known[1].conversation.close()

    def stop(self) -> BaseException:
        """Return what ends the framework's loop."""
        outcome = self.conversation.run.outcome
        assert outcome is not None
        error = AgentStuck(outcome) if outcome.reason == "stuck" else AgentStopped(outcome)
        self.conversation.stop(error)
        self.conversation.close()
        return error

    # -- tools -----------------------------------------------------------------------------------

    async def offer(self, context: Any, agent: Any) -> None:
        """Tell which tools the model is given: those of the agent whose turn it is."""
        tools = [*agent.tools, *await self._of_servers(context, agent)]
        known = [(tool.name, self.know(tool)) for tool in tools if hasattr(tool, "on_invoke_tool")]
        handoffs = [
            (name, Known(undeclared(name, "final", about), guards_itself=False))
            for name, about in map(_described, agent.handoffs)
        ]
        self.conversation.offer([*known, *handoffs])

    async def _of_servers(self, context: Any, agent: Any) -> list[Any]:
        """Return the tools of the agent's MCP servers; asked once, for a server may be far away."""
        if not getattr(agent, "mcp_servers", None):
            return []
        if id(agent) not in self._servers_tools:
            try:
                self._servers_tools[id(agent)] = await agent.get_mcp_tools(context)
            except Exception:
                # The framework will say what is wrong with the server.
                return []
        return self._servers_tools[id(agent)]

    def know(self, tool: Any) -> Known:
        """Return what is known of a function tool."""
        known, before = self.known.get(tool.name, (None, None))
        if known is None or before is not tool:
            known = self.conversation.known(
                tool.name,
                getattr(tool, "__wrapped__", None),
                annotations=getattr(tool, "mcp_annotations", None),
                description=tool.description,
            )
            self.known[tool.name] = (known, tool)
        return known

    # -- calls that reach no tool ----------------------------------------------------------------

    def expect(self, agent: Any, output: Sequence[Any]) -> None:
        """Remember what the model asked for."""
        handoffs = {_described(each)[0] for each in agent.handoffs}
        for item in output:
            if _get(item, "type") == "function_call" and _get(item, "name") not in handoffs:
                self._expected[_get(item, "call_id")] = item

    def started(self, call_id: str) -> None:
        """Note that a call has reached its tool."""
        self._expected.pop(call_id, None)

    def settle_refusals(self, context: Any, items: Sequence[Any]) -> None:
        """Count the calls that were answered without having reached a tool."""
        for item in items:
            asked = self._expected.pop(_get(item, "call_id"), None) if _is_output(item) else None
            if asked is None:
                continue
            name, call_id = _get(asked, "name"), _get(asked, "call_id")
            call = self.conversation.call(name, _get(asked, "arguments"), call_id)
            call.refuse(_text_of(item), denied=context.is_tool_approved(name, call_id) is False)


class _GuardedInvoker(_ObjectProxy):  # type: ignore[misc]
    """Invokes a function tool under guard, where its run has one; in all else it is the tool's own.

    A proxy, because the framework asks what kind of invoker a tool has, and for its wrapped function.
    """

    # By the annotations of its own the framework would choose another context for the tool.
    __signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in ("_ctx", "_given")]
    )

    async def __call__(self, ctx: Any, given: str) -> Any:
        task = _Task.find(ctx)
        known, tool = (None, None) if task is None else task.known.get(ctx.tool_name, (None, None))
        if task is None or known is None:
            return await self._self_plainly(ctx, given)
        call = task.conversation.call(ctx.tool_name, given, ctx.tool_call_id, known)
        output = await self._self_guarded(call, ctx, given)
        if type(output) is str and getattr(tool, "output_json_schema", None) is None:
            return call.answer(output)
        call.leave_notes()
        return output

    async def _self_guarded(self, call: ToolCall, ctx: Any, given: str) -> Any:
        inner = getattr(self.__wrapped__, "_invoke_tool_impl", None)
        if inner is None:
            return await call.aguard(lambda: self._self_plainly(ctx, given))
        # Inside of what makes a text of an error, so that the error is seen.
        twin = copy.copy(self.__wrapped__)

        async def guarded(ctx: Any, given: str) -> Any:
            return await call.aguard(lambda: inner(ctx, given))

        twin._invoke_tool_impl = guarded
        return await twin(ctx, given)

    async def _self_plainly(self, ctx: Any, given: str) -> Any:
        # A tool made by hand may be annotated to take the narrower context.
        choose = getattr(_tools, "_get_function_tool_invoke_context", None)
        if choose is not None:
            ctx = choose(types.SimpleNamespace(on_invoke_tool=self.__wrapped__), ctx)
        return await self.__wrapped__(ctx, given)


# -- reading items, objects of the framework or mappings -------------------------------------------


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def _anybody(item: Any) -> bool:
    return True


def _is_output(item: Any) -> bool:
    return str(_get(item, "type")).endswith("_output")


def _text_of(item: Any) -> str:
    content = _get(item, "output") or _get(item, "content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(_get(part, "text") or "") for part in content)


def _is_message(item: Any) -> bool:
    return _get(item, "role") == "user" and not is_note(_text_of(item))


def _described(handoff: Any) -> tuple[str, str]:
    """Return the name of a handoff's tool, and how it reads as an option."""
    if isinstance(handoff, _agents.Handoff):
        return handoff.tool_name, handoff.tool_description
    kind: Any = _agents.Handoff
    return kind.default_tool_name(handoff), kind.default_tool_description(handoff)


def _past(context: Any, items: Sequence[Any], task: _Task) -> list[PastCall]:
    """Return the calls of a history that got an answer."""
    outputs = {_get(item, "call_id"): _text_of(item) for item in items if _is_output(item)}
    past: list[PastCall] = []
    turn, answered = 0, False
    for item in items:
        answered = answered or _is_output(item)
        call_id = _get(item, "call_id")
        if _get(item, "type") != "function_call" or call_id not in outputs:
            continue
        # What comes after an output belongs to the next response.
        turn, answered = turn + answered, False
        past.append(_past_call(context, item, without_note(outputs[call_id]), turn, task))
    return past


def _past_call(context: Any, item: Any, text: str, turn: int, task: _Task) -> PastCall:
    name, call_id = _get(item, "name"), _get(item, "call_id")
    asked: dict[str, Any] = {
        "tool": name,
        "arguments": _get(item, "arguments"),
        "call_id": call_id,
        "turn": turn,
    }
    denied = context.is_tool_approved(name, call_id) is False
    if denied or name not in task.known:
        return PastCall(**asked, refused=text, denied=denied)
    if text.startswith(_FAILED):
        return PastCall(**asked, error=text.removeprefix(_FAILED).removeprefix(" Error: "))
    function = getattr(task.known[name][1], "__wrapped__", None)
    return PastCall(**asked, result=read_back(text, function))
