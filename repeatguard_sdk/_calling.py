"""The way of a call: admit it, run, replay, join or refuse it, settle it, say what was found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._copies import clone_error
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._entry import First
from repeatguard_sdk._firsts import FirstCalls
from repeatguard_sdk._flight import Landing, wait_for
from repeatguard_sdk._hosted import hosted_calls
from repeatguard_sdk._identity import Identity
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._reporting import Reporter
from repeatguard_sdk._scope import Inside, active, call_ids, leave
from repeatguard_sdk._telling import ENDED_TEXT, Telling, ended_text
from repeatguard_sdk._toolset import Toolset
from repeatguard_sdk._types import MISSING, Deliver, OnStuck


class CallPath(Telling):
    """The part of a run that a guarded call goes through; its arguments are those of `Telling`."""

    def __init__(
        self,
        engine: Engine,
        reporter: Reporter,
        toolset: Toolset,
        on_stuck: OnStuck,
        deliver: Deliver,
    ) -> None:
        super().__init__(engine, reporter, toolset, on_stuck, deliver)
        firsts = FirstCalls(engine)
        self._begin, self._settle_first = firsts.begin, firsts.settle
        self._control_flow: tuple[type[BaseException], ...] = ()
        self._inside = Inside(self)
        self._last: Admission | First | None = None

    def call(
        self,
        tool: Tool,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Guard one call of a tool; the arguments reach it as given."""
        first = self._begin(tool, args, kwargs)
        if not isinstance(first, tuple):
            if isinstance(first, Admission):
                return self._answer_at_once(first)
            return self._call_in_full(tool, function, args, kwargs, first)
        self._last = first
        token = active.set(self._inside)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            active.reset(token)
            self._raised(first, tool, args, kwargs, error)
            raise
        active.reset(token)
        if self._settle_first(first, tool, result):
            return result
        return self._returned(first, tool, args, kwargs, result)

    def _call_in_full(
        self,
        tool: Tool,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        identity: Identity | None,
    ) -> Any:
        """Guard a call that the short way leaves to this one; with its identity, if that is known."""
        admitted: Admission | None = None
        while True:
            admitted = self._admit(tool, args, kwargs, admitted, identity)
            if admitted is None:
                try:
                    return function(*args, **kwargs)
                finally:
                    self.passed_by(tool)
            if admitted.executed:
                break
            if admitted.waiter is None:
                return self._answer(admitted)
            landing = admitted.waiter.result()
            if landing.how != "abandoned":
                return self._share(landing)
        token = active.set(self._inside)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            active.reset(token)
            self._raised(admitted, tool, args, kwargs, error)
            raise
        active.reset(token)
        return self._returned(admitted, tool, args, kwargs, result)

    async def acall(
        self,
        tool: Tool,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Guard one call of a coroutine tool; as `call`."""
        first = self._begin(tool, args, kwargs)
        if not isinstance(first, tuple):
            if isinstance(first, Admission):
                return self._answer_at_once(first)
            return await self._acall_in_full(tool, function, args, kwargs, first)
        self._last = first
        token = active.set(self._inside)
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            leave(active, token)
            self._raised(first, tool, args, kwargs, error)
            raise
        leave(active, token)
        if self._settle_first(first, tool, result):
            return result
        return self._returned(first, tool, args, kwargs, result)

    async def _acall_in_full(
        self,
        tool: Tool,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        identity: Identity | None,
    ) -> Any:
        admitted: Admission | None = None
        while True:
            admitted = self._admit(tool, args, kwargs, admitted, identity)
            if admitted is None:
                try:
                    return await function(*args, **kwargs)
                finally:
                    self.passed_by(tool)
            if admitted.executed:
                break
            if admitted.waiter is None:
                return self._answer(admitted)
            landing = await wait_for(admitted.waiter)
            if landing.how != "abandoned":
                return self._share(landing)
        token = active.set(self._inside)
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            leave(active, token)
            self._raised(admitted, tool, args, kwargs, error)
            raise
        leave(active, token)
        return self._returned(admitted, tool, args, kwargs, result)

    def world_moved(self) -> None:
        """Take note of changes that a run inside of this one saw."""
        with self._engine.lock:
            self._engine.ledger.open_epoch(hard=True)

    def passed_by(self, tool: Tool) -> None:
        """Take note of a call that was let through: its mode is off, or another tool made it."""
        self._engine.passed_by(tool)

    def _admit(
        self,
        tool: Tool,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        again: Admission | None,
        identity: Identity | None,
    ) -> Admission | None:
        """Admit a call; `None` lets it through unguarded: the mode is off, or the guard failed."""
        here = hosted_calls.get()
        if here is not None and here.run is self:
            tool = here.reach(tool)
        try:
            if self._engine.mode_of(tool.spec) == "off":
                return None
            call = self._engine.admit(tool, args, kwargs, call_ids.get(), again, identity)
        except Exception as fault:
            self._reporter.fault(tool, fault)
            return None
        self._last = call
        if here is not None and here.run is self:
            here.admission = call
        if self._reporter.following.waits:
            self._reporter.saw_call(call)
        return call

    def _returned(
        self,
        admitted: Admission | First,
        tool: Tool,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> Any:
        """Settle a result in full and hand it on."""
        call: Admission | None = None
        try:
            if isinstance(admitted, tuple):
                call = self._last = self._engine.promote(admitted, tool, args, kwargs)
            else:
                call = admitted
            self._engine.settle(call, result)
            self._report(call)
        except Exception as fault:
            if call is None and isinstance(admitted, tuple):
                call = self._engine.promote(admitted, tool, args, kwargs)
            self._let_through(call, tool, fault, Landing("ok", result))
            return result
        if call.ends_run:
            self._leave()
        return self._with_note(call, result)

    def _raised(
        self,
        admitted: Admission | First,
        tool: Tool,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        error: BaseException,
    ) -> None:
        """Settle an error, which the caller raises on.

        A call that was cancelled counts for nothing, nor does one that a framework's control flow
        left, such as a wait for an approval.
        """
        if isinstance(admitted, tuple):
            admitted = self._last = self._engine.promote(admitted, tool, args, kwargs)
        if isinstance(error, Exception) and not isinstance(error, self._control_flow):
            self._failed(admitted, error)
        else:
            self._engine.abandon(admitted)

    def _failed(self, call: Admission, error: Exception) -> None:
        try:
            self._engine.settle_error(call, error)
            self._report(call)
        except Exception as fault:
            self._let_through(call, call.tool, fault, Landing("error", error))
            return
        if call.ends_run:
            self._leave()

    def _let_through(
        self, call: Admission | None, tool: Tool, fault: Exception, landing: Landing
    ) -> None:
        """Do without the guard for one call that it went wrong on; nobody may wait for it."""
        if call is not None:
            self._engine.abandon(call, landing)
        self._reporter.fault(tool, fault)

    def _answer_at_once(self, call: Admission) -> Any:
        """Answer a call that was admitted on the short way; what `_admit` would note is noted here."""
        self._last = call
        if self._reporter.following.waits:
            self._reporter.saw_call(call)
        return self._answer(call)

    @staticmethod
    def _share(landing: Landing) -> Any:
        """Answer a call with the outcome of the one it joined."""
        if landing.how == "error":
            raise clone_error(landing.value) or landing.value
        return landing.deliver()

    def _answer(self, call: Admission) -> Any:
        """Answer a call that does not run: from the ledger, or with a sentence."""
        try:
            self._report(call)
        except Exception as fault:
            self._reporter.fault(call.tool, fault)
        if call.decision == "exit":
            self._leave()
        if call.error is not None:
            raise clone_error(call.error) or call.error
        if call.value is not MISSING:
            if call.told:
                self._say(call.value)
            return self._with_note(call, call.value)
        if call.observation is not None:
            self._unqueue(call.observation)
            return self._say(call.observation.text)
        if call.finding is not None and not call.ends_run:
            # A policy without notes, and no answer in store: something has to be said.
            return self._say(self._observe(call, MISSING).text)
        outcome = self._ended_outcome()
        return self._say(ENDED_TEXT if outcome is None else ended_text(outcome))
