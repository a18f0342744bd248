"""Calls by name: executed for a loop written by hand, or counted though they reached no tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repeatguard_sdk._calling import CallPath
from repeatguard_sdk._dispatch import Ready, as_mapping, prepare
from repeatguard_sdk._observation import Observation
from repeatguard_sdk._refusing import count_refused
from repeatguard_sdk._scope import dispatching
from repeatguard_sdk._spec import find_record
from repeatguard_sdk._telling import ended_text
from repeatguard_sdk.exceptions import RunStateError

NEW, OPEN, ENDED = "new", "open", "ended"
_BAD_STATE = {
    NEW: "has not begun; use it inside `with Run(...) as run:`",
    ENDED: "has ended; a new task needs a new Run(...)",
}


class NamedCalls(CallPath):
    """The part of a run that takes a model's tool calls as the model wrote them."""

    _state = NEW

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
        found = self._toolset.find(name)
        call = count_refused(
            self._engine, found, name, as_mapping(arguments), reason, denied=denied, call_id=call_id
        )
        self._last = call
        if self._reporter.following.waits:
            self._reporter.saw_call(call)
        self._report(call)
        if call.ends_run:
            self._leave()
        return call.observation

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
        observation = self.refused(name, ready.arguments, ready.reason, call_id=call_id)
        ended = self._ended_outcome()
        if ended is not None:
            return ended_text(ended)
        if observation is None:
            return ready.reason
        self._unqueue(observation)
        return f"{ready.reason}\n\n{observation.text}"

    def _check_open(self, what: str) -> None:
        if self._state != OPEN:
            msg = f"run.{what}() was called on a run that {_BAD_STATE[self._state]}"
            raise RunStateError(msg)
