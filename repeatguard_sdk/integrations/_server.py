"""A tool call that reaches an MCP server: guarded in its client's run, answered, and never fatal.

A server cannot end the loop of its client. It answers from store, says so in a block of text behind the
result, and once the run is over its answers are tool errors.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs

from repeatguard_sdk._hosted import hosted_calls
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import Inside, active
from repeatguard_sdk._telling import ended_text
from repeatguard_sdk._text import DELIMITER
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._records import Known
from repeatguard_sdk.integrations._server_forms import (
    Failed,
    Form,
    Listed,
    Paused,
    Request,
    Tools,
)
from repeatguard_sdk.integrations._server_runs import Kept, ServerRuns, caller_of
from repeatguard_sdk.integrations._tool_call import ToolCall

_anyio = load("anyio", extra="mcp")
_log = logging.getLogger("repeatguard_sdk")

Execute = Callable[[], Awaitable[Any]]


@attrs.frozen(kw_only=True)
class ServerOptions:
    """What a host may say about the runs of a server, besides `Settings`.

    Attributes:
        idle: seconds without a call after which a run is closed; the next call opens a new one.
        longest: seconds after which a run is closed that no client named.
        principal: tells who an HTTP request is from; default: whom the server has authenticated.
    """

    idle: float = 300.0
    longest: float = 600.0
    principal: Callable[[Any], str | None] | None = None


class GuardedServer:
    """Guards the tool calls that reach one server.

    Args:
        form: how its framework writes results.
        flow: exception types by which that framework leaves a tool without an outcome.
        options: `ServerOptions` and `Settings` by name.
    """

    def __init__(
        self, form: Form, flow: tuple[type[BaseException], ...] = (), **options: Any
    ) -> None:
        ours = {each.name for each in attrs.fields(ServerOptions)}
        mine = {name: options.pop(name) for name in [*options] if name in ours}
        self._options = ServerOptions(**mine)
        settings = Settings(**options)
        if settings.deliver != "result":
            msg = f'deliver={settings.deliver!r}: a server sends results only; write "result"'
            raise ValueError(msg)
        control_flow = (*settings.control_flow, *flow, Paused)
        self._settings = attrs.evolve(settings, control_flow=control_flow)
        self._form = form
        self.runs = ServerRuns(
            self._settings, idle=self._options.idle, longest=self._options.longest
        )

    async def serve(
        self,
        request: Request,
        tools: Tools,
        execute: Execute,
    ) -> Any:
        """Answer a call: by its tool, or as the guard decides.

        Args:
            request: what the client asked for.
            tools: what this client sees.
            execute: calls the tool as the framework would.
        """
        if _is_part_of_a_call():
            return await self._alive(request, execute)
        try:
            caller = caller_of(request.meta, request.http, self._options.principal)
            serving = self.runs.serving(caller)
            kept = serving.__enter__()
        except Exception:
            _log.exception("the call of %r is not guarded: its client cannot be told", request.name)
            return await self._alive(request, execute)
        try:
            if kept is None:
                return await self._alive(request, execute)
            try:
                known = await self._known(kept, request, tools)
                kept.mark(caller.turn)
                call = kept.conversation.call(
                    request.name, request.arguments, caller.call_id, known
                )
            except Exception:
                _log.exception("the call of %r is not guarded", request.name)
                return await self._alive(request, execute)
            return await self._answer(kept, call, known, request, execute)
        finally:
            serving.__exit__(None, None, None)

    # -- before the call -------------------------------------------------------------------------

    async def _known(self, kept: Kept, request: Request, tools: Tools) -> Known | None:
        """Return what is known of the tool; the run is told of all tools when that is new to it."""
        conversation = kept.conversation
        self._make_place(kept, request)
        tool = await tools.find(request.name)
        new = conversation.owns_run and kept.told is not conversation.run
        if new or (tool is None and request.name not in kept.tools):
            kept.told = conversation.run
            kept.tools = {each.name: each for each in await tools.all()}
            if conversation.owns_run:
                named = kept.tools.items()
                conversation.offer((name, self._of(conversation, each)) for name, each in named)
        tool = tool or kept.tools.get(request.name)
        return None if tool is None else self._of(conversation, tool)

    def _make_place(self, kept: Kept, request: Request) -> None:
        """Open a new run for an unnamed client whose task has ended, once it asks for something else.

        It may be at another task by now, and nothing else would tell.
        """
        run = kept.conversation.run
        if not kept.shared or not run.over or kept.ended_by is None:
            return
        if kept.ended_by != _identity(kept.conversation, request):
            kept.start_afresh(self.runs.clock())

    @staticmethod
    def _of(conversation: Conversation, tool: Listed) -> Known:
        if tool.function is None:
            # A handler that calls tools by name; where one is declared, it will meet its guard.
            declared = conversation.run.find_tool(tool.name)
            if declared is not None and declared.function is not None:
                return Known(declared, guards_itself=True)
        return conversation.known(
            tool.name,
            tool.function,
            annotations=tool.annotations,
            description=tool.description,
        )

    # -- the call --------------------------------------------------------------------------------

    async def _answer(
        self, kept: Kept, call: ToolCall, known: Known | None, request: Request, execute: Execute
    ) -> Any:
        run, form = kept.conversation.run, self._form
        was_over = run.over
        produced: list[Any] = []

        async def body() -> Any:
            result = await self._alive(request, execute)
            if form.pause(result):
                raise Paused(result)
            failure = form.failure(result)
            if failure is not None:
                raise Failed.of(failure, result)
            produced.append(result)
            try:
                return form.kept(result)
            except Exception as fault:
                _log.exception("a result of %r cannot be compared; it is not counted", request.name)
                raise Paused(result) from fault

        def text() -> str:
            refused = was_over and not call.executed
            return call.note_text() or (_ended(run) if refused and call.spoken is None else "")

        try:
            kept_result = await call.aguard(body)
            # What its own guard answered stands in the result as the framework has written it.
            result = produced[-1] if produced else form.rebuilt(kept_result)
        except Failed as failed:
            result = failed.result
        except Paused as paused:
            call.leave_notes()
            if known is not None and known.guards_itself and run.guarding:
                # Its guard has taken the question for the tool's result; it must not be served again.
                run.progress()
            return paused.result
        except Exception as error:
            if not form.tells(error):
                call.leave_notes()
                raise
            note = text()
            if not note:
                raise
            raise form.raised(error, note) from error
        finally:
            kept.ended(run, lambda: _identity(kept.conversation, request))
        if call.spoken is not None:
            # A sentence where a result should be: it would not fit the schema of the tool.
            result = form.refusal(call.spoken)
        refused = was_over and not call.executed
        note = text()
        return form.add(result, note, failed=refused) if note or refused else result

    async def _alive(self, request: Request, execute: Execute) -> Any:
        """Call the tool; what would end the process is made a tool error."""
        try:
            return await execute()
        except Exception:
            raise
        except BaseException as error:
            if _is_for_the_loop(error):
                raise
            _log.error("the tool %r raised %r", request.name, error, exc_info=error)
            return self._form.refusal(
                f"Error executing tool {request.name}: {type(error).__name__}"
            )


def _is_part_of_a_call() -> bool:
    """Tell whether a call that is guarded makes this one: a server around this one, or a tool."""
    here, call = active.get(), hosted_calls.get()
    if isinstance(here, Inside) and here.run.guarding:
        return True
    return call is not None and bool(call.run.guarding)


def _is_for_the_loop(error: BaseException) -> bool:
    """Tell whether an exception is how the event loop, or a person, ends the task."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    if inner:
        return any(map(_is_for_the_loop, inner))
    return isinstance(error, (GeneratorExit, KeyboardInterrupt, _anyio.get_cancelled_exc_class()))


def _ended(run: Run) -> str:
    """Return what a client is told that goes on calling after the end of its run."""
    outcome = run.outcome
    return "" if outcome is None else f"{DELIMITER}\n{ended_text(outcome)}"


def _identity(conversation: Conversation, request: Request) -> str:
    """Return what tells a call from another one, by its tool's own rules where that can be."""
    try:
        return conversation.run.key_of(request.name, **request.arguments)
    except Exception:
        return json.dumps([request.name, request.arguments], sort_keys=True, default=str)
