"""Calls by name: executed for a loop written by hand, or counted though they reached no tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._calling import CallPath
from repeatguard_sdk._dispatch import Ready, as_mapping, prepare
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._observation import Observation
from repeatguard_sdk._refusing import count_refused
from repeatguard_sdk._reporting import Reporter
from repeatguard_sdk._scope import dispatching
from repeatguard_sdk._spec import find_record
from repeatguard_sdk._telling import Teller, ended_text
from repeatguard_sdk._toolset import Toolset
from repeatguard_sdk._types import Deliver, OnStuck
from repeatguard_sdk.exceptions import RunStateError

NEW, OPEN, ENDED = "new", "open", "ended"
_BAD_STATE = {
    NEW: "has not begun; use it inside `with Run(...) as run:`",
    ENDED: "has ended; a new task needs a new Run(...)",
}


class NamedCalls:
    """The part of a run that takes a model's tool calls as the model wrote them.

    Args:
        engine: decides and remembers.
        reporter: tells the sink.
        toolset: the tools by name.
    """

    # What its calls go through while its block is open.
    guard: CallPath | None = None
    _state = NEW

    def __init__(
        self,
        engine: Engine,
        reporter: Reporter,
        toolset: Toolset,
        on_stuck: OnStuck,
        deliver: Deliver,
    ) -> None:
        self._engine = engine
        self._reporter = reporter
        self._toolset = toolset
        self._teller = Teller(self, engine, reporter, toolset, on_stuck, deliver)
        self._path = CallPath(self, engine, reporter, self._teller)

    @property
    def guarding(self) -> bool:
        """Whether its block is open."""
        return self.guard is not None

    # -- calls that reached no tool ------------------------------------------------------------

    def refused(
        self,
        tool: Any,
        arguments: Mapping[str, Any] | str | None = None,
        reason: str = "refused",
        *,
        denied: bool = False,
        call_id: str | None = None,
    ) -> Observation | None:
        """Count a call that never reached its tool: unknown name, bad arguments, denied.

        Args:
            tool: the name as the model wrote it, or the decorated function.
            arguments: as the model gave them, parsed or not.
            reason: what the model was told.
            denied: whether a person or a rule forbade it: it is no option any more.
            call_id: the provider's id; the same id again is a redelivery, not a repeat.
        """
        self._check_open("refused")
        record = None if isinstance(tool, str) else find_record(tool)
        name = tool if isinstance(tool, str) else record.spec.name if record else repr(tool)
        return self._count_refused(
            name, as_mapping(arguments), reason, denied=denied, call_id=call_id
        ).observation

    def _count_refused(
        self,
        name: str,
        arguments: Mapping[str, Any],
        reason: str,
        *,
        denied: bool,
        call_id: str | None,
    ) -> Admission:
        call = count_refused(
            self._engine,
            self._toolset.find(name),
            name,
            arguments,
            reason,
            denied=denied,
            call_id=call_id,
        )
        self._path.last = call
        if self._reporter.following.waits:
            self._reporter.saw_call(call)
        self._teller.report(call)
        if call.ends_run:
            self._path.leave()
        return call

    def dispatch(
        self, name: str, arguments: Mapping[str, Any] | str | None, call_id: str | None = None
    ) -> Any:
        """Execute a model's tool call by name and return what the model should get.

        What does not fit (an unknown name, text that is no JSON, wrong arguments) reaches no tool:
        it is counted, and answered with a sentence the model can use. What the tool raises is raised.

        Args:
            name: the tool's name.
            arguments: a mapping, or JSON text of one.
            call_id: the provider's id; the same id again is a redelivery, not a repeat.
        """
        ready = self._prepare(name, arguments, call_id)
        if isinstance(ready, str):
            return ready
        if ready.tool.is_async:
            msg = f"{name} is a coroutine function; write `await run.adispatch(...)`"
            raise RunStateError(msg)
        with dispatching(self, call_id):
            return ready.function(**ready.arguments)

    async def adispatch(
        self, name: str, arguments: Mapping[str, Any] | str | None, call_id: str | None = None
    ) -> Any:
        """Execute a tool call as `dispatch` does, awaiting tools that are coroutine functions."""
        ready = self._prepare(name, arguments, call_id)
        if isinstance(ready, str):
            return ready
        with dispatching(self, call_id):
            result = ready.function(**ready.arguments)
            return await result if ready.tool.is_async else result

    def _prepare(
        self, name: str, arguments: Mapping[str, Any] | str | None, call_id: str | None
    ) -> Ready | str:
        self._check_open("dispatch")
        ready = prepare(name, arguments, self._toolset.by_name())
        if isinstance(ready, Ready):
            return ready
        shown = name if isinstance(name, str) else repr(name)
        call = self._count_refused(
            shown, as_mapping(ready.arguments), ready.reason, denied=False, call_id=call_id
        )
        ended = self._teller.ended_outcome()
        if ended is not None:
            return ended_text(ended)
        observation = call.observation
        if observation is None:
            return ready.reason
        self._teller.unqueue(call)
        return f"{ready.reason}\n\n{observation.text}"

    def _check_open(self, what: str) -> None:
        if self._state != OPEN:
            msg = f"run.{what}() was called on a run that {_BAD_STATE[self._state]}"
            raise RunStateError(msg)
