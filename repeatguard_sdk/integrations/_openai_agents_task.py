"""One `Runner.run` of openai-agents under guard: its tools, its calls, what its history holds."""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import types
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

import wrapt

from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._scope import Inside, active
from repeatguard_sdk._toolset import undeclared
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._history import read_back
from repeatguard_sdk.integrations._openai_items import answered, get, is_output, text_of
from repeatguard_sdk.integrations._records import Known
from repeatguard_sdk.integrations._tool_call import ToolCall

_agents = load("agents", extra="openai-agents")
_tools = load("agents.tool", extra="openai-agents")
_ObjectProxy: Any = wrapt.ObjectProxy

# What the framework makes of an error where nobody says otherwise; newer versions keep its text back.
_FAILED = "An error occurred while running the tool. Please try again."


class Task:
    """One `Runner.run` under guard.

    Args:
        settings: what the host said.
    """

    # By the usage record that all contexts of one run share, and by the tool whose body it is in.
    _tasks: ClassVar[dict[tuple[int, int], tuple[Any, Task]]] = {}
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
    def of(cls, context: Any, settings: Settings) -> Task:
        """Return the task of a context, new with the first hook of its run."""
        place = cls._place(context)
        with cls._lock:
            known = cls._tasks.get(place)
            if known is None:
                gone = weakref.ref(context.usage, functools.partial(cls._forget, place))
                known = cls._tasks[place] = (gone, cls(settings))
        return known[1]

    @classmethod
    def find(cls, context: Any) -> Task | None:
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
            if get(item, "type") == "function_call" and get(item, "name") not in handoffs:
                self._expected[get(item, "call_id")] = item

    def started(self, call_id: str) -> None:
        """Note that a call has reached its tool."""
        self._expected.pop(call_id, None)

    def settle_refusals(self, context: Any, items: Sequence[Any]) -> None:
        """Count the calls that were answered without having reached a tool."""
        for item in items:
            asked = self._expected.pop(get(item, "call_id"), None) if is_output(item) else None
            if asked is None:
                continue
            name, call_id = get(asked, "name"), get(asked, "call_id")
            call = self.conversation.call(name, get(asked, "arguments"), call_id)
            call.refuse(
                text_of(get(item, "output")),
                denied=context.is_tool_approved(name, call_id) is False,
            )


class GuardedInvoker(_ObjectProxy):  # type: ignore[misc]
    """Invokes a function tool under guard, where its run has one; in all else it is the tool's own.

    A proxy, because the framework asks what kind of invoker a tool has, and for its wrapped function.
    """

    # By the annotations of its own the framework would choose another context for the tool.
    __signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in ("_ctx", "_given")]
    )

    async def __call__(self, ctx: Any, given: str) -> Any:
        task = Task.find(ctx)
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


def _described(handoff: Any) -> tuple[str, str]:
    """Return the name of a handoff's tool, and how it reads as an option."""
    if isinstance(handoff, _agents.Handoff):
        return handoff.tool_name, handoff.tool_description
    kind: Any = _agents.Handoff
    return kind.default_tool_name(handoff), kind.default_tool_description(handoff)


def past_calls(context: Any, items: Sequence[Any], task: Task) -> list[PastCall]:
    """Return the calls of a history that got an answer."""
    return [_past_call(context, *found, task) for found in answered(items)]


def _past_call(context: Any, item: Any, text: str | None, turn: int, task: Task) -> PastCall:
    name, call_id = get(item, "name"), get(item, "call_id")
    asked: dict[str, Any] = {
        "tool": name,
        "arguments": get(item, "arguments"),
        "call_id": call_id,
        "turn": turn,
    }
    denied = context.is_tool_approved(name, call_id) is False
    if denied or name not in task.known:
        return PastCall(**asked, refused=text or "", denied=denied)
    if text is None:
        # More than text: it counts, and is never served.
        return PastCall(**asked)
    if text.startswith(_FAILED):
        return PastCall(**asked, error=text.removeprefix(_FAILED).removeprefix(" Error: "))
    function = getattr(task.known[name][1], "__wrapped__", None)
    return PastCall(**asked, result=read_back(text, function))
