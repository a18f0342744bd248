"""The way of a call: admit it, run, replay, join or refuse it, settle it, say what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._copies import clone_error
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._entry import Begun
from repeatguard_sdk._firsts import FirstCalls
from repeatguard_sdk._flight import Landing
from repeatguard_sdk._hosted import hosted_calls
from repeatguard_sdk._identity import Identity
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._reporting import Reporter
from repeatguard_sdk._scope import Inside, StuckSignal, active, call_ids
from repeatguard_sdk._telling import ENDED_TEXT, Teller, ended_text
from repeatguard_sdk._types import MISSING

_enter: Final = active.set
_exit: Final = active.reset


class CallPath:
    """What a guarded call of one run goes through.

    Args:
        run: the run, as the signal that leaves its block names it.
        engine: decides and remembers.
        reporter: tells the sink.
        teller: tells the model.

    Attributes:
        last: the newest call.
        firsts: the short way.
        inside: what marks the body of a tool.
        control_flow: exceptions that leave a tool without an outcome.
    """

    def __init__(self, run: Any, engine: Engine, reporter: Reporter, teller: Teller) -> None:
        self._run = run
        self._engine = engine
        self._reporter = reporter
        self._teller = teller
        self.firsts = FirstCalls(engine, reporter)
        self.inside = Inside(run)
        self.control_flow: tuple[type[BaseException], ...] = ()
        self.last: Admission | Begun | None = None

    def call(
        self,
        tool: Tool,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Guard one call of a tool; the arguments reach it as given."""
        first = self.firsts.begin(tool, args, kwargs)
        if not isinstance(first, tuple):
            if isinstance(first, Admission):
                return self.answer_at_once(first)
            return self._call_in_full(tool, function, args, kwargs, first)
        self.last = first
        token = _enter(self.inside)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            _exit(token)
            self.raised(first, tool, args, kwargs, error)
            raise
        _exit(token)
        if self.firsts.settle(first, tool, result):
            return result
        return self.returned(first, tool, args, kwargs, result)

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
            admitted = self.admit(tool, args, kwargs, admitted, identity)
            if admitted is None:
                try:
                    return function(*args, **kwargs)
                finally:
                    self.passed_by(tool)
            if admitted.executed:
                break
            if admitted.waiter is None:
                return self.answer(admitted)
            landing = admitted.waiter.result()
            if landing.how != "abandoned":
                return self.share(landing)
        token = _enter(self.inside)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            _exit(token)
            self.raised(admitted, tool, args, kwargs, error)
            raise
        _exit(token)
        return self.returned(admitted, tool, args, kwargs, result)

    def world_moved(self) -> None:
        """Take note of changes that a run inside of this one saw."""
        with self._engine.lock:
            self._engine.ledger.open_epoch(hard=True)

    def leave(self) -> None:
        """Leave the run's block, unless that has to wait or is not wanted."""
        if self._teller.signals and self._engine.may_leave():
            raise StuckSignal.of(self._run)

    def passed_by(self, tool: Tool) -> None:
        """Take note of a call that was let through: its mode is off, or another tool made it."""
        self._engine.passed_by(tool)

    def admit(
        self,
        tool: Tool,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        again: Admission | None,
        identity: Identity | None,
    ) -> Admission | None:
        """Admit a call; `None` lets it through unguarded: the mode is off, or the guard failed."""
        here = hosted_calls.get()
        if here is not None and here.run is self._run:
            tool = here.reach(tool)
        try:
            if self._engine.mode_of(tool.spec) == "off":
                return None
            call = self._engine.admit(tool, args, kwargs, call_ids.get(), again, identity)
        except Exception as fault:
            self._reporter.fault(tool, fault)
            return None
        self.last = call
        if here is not None and here.run is self._run:
            here.admission = call
        if self._reporter.following.waits:
            self._reporter.saw_call(call)
        return call

    def returned(
        self,
        admitted: Admission | Begun,
        tool: Tool,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> Any:
        """Settle a result in full and hand it on."""
        call: Admission | None = None
        try:
            if isinstance(admitted, tuple):
                call = self.last = self._engine.promote(admitted, tool, args, kwargs)
            else:
                call = admitted
            self._engine.settle(call, result)
            self._teller.report(call)
        except Exception as fault:
            if call is None and isinstance(admitted, tuple):
                call = self._engine.promote(admitted, tool, args, kwargs)
            self._let_through(call, tool, fault, Landing("ok", result))
            return result
        if call.ends_run:
            self.leave()
        return self._teller.with_note(call, result)

    def raised(
        self,
        admitted: Admission | Begun,
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
            admitted = self.last = self._engine.promote(admitted, tool, args, kwargs)
        if isinstance(error, Exception) and not isinstance(error, self.control_flow):
            self.failed(admitted, error)
        else:
            self._engine.abandon(admitted)

    def failed(self, call: Admission, error: Exception) -> None:
        try:
            self._engine.settle_error(call, error)
            self._teller.report(call)
        except Exception as fault:
            self._let_through(call, call.tool, fault, Landing("error", error))
            return
        if call.ends_run:
            self.leave()

    def _let_through(
        self, call: Admission | None, tool: Tool, fault: Exception, landing: Landing
    ) -> None:
        """Do without the guard for one call that it went wrong on; nobody may wait for it."""
        if call is not None:
            self._engine.abandon(call, landing)
        self._reporter.fault(tool, fault)

    def answer_at_once(self, call: Admission) -> Any:
        """Answer a call that was admitted on the short way; what `_admit` would note is noted here."""
        self.last = call
        if self._reporter.following.waits:
            self._reporter.saw_call(call)
        return self.answer(call)

    @staticmethod
    def share(landing: Landing) -> Any:
        """Answer a call with the outcome of the one it joined."""
        if landing.how == "error":
            raise clone_error(landing.value) or landing.value
        return landing.deliver()

    def answer(self, call: Admission) -> Any:
        """Answer a call that does not run: from the ledger, or with a sentence."""
        try:
            self._teller.report(call)
        except Exception as fault:
            self._reporter.fault(call.tool, fault)
        if call.decision == "exit":
            self.leave()
        if call.error is not None:
            raise clone_error(call.error) or call.error
        if call.value is not MISSING:
            if call.told:
                self._teller.say(call.value)
            return self._teller.with_note(call, call.value)
        observation = call.observation
        if observation is not None:
            self._teller.unqueue(call)
            return self._teller.say(observation.text)
        if call.finding is not None and not call.ends_run:
            # A policy without notes, and no answer in store: something has to be said.
            self._teller.say_of(call)
            observation = call.observation
            assert observation is not None
            return self._teller.say(observation.text)
        outcome = self._teller.ended_outcome()
        return self._teller.say(ENDED_TEXT if outcome is None else ended_text(outcome))
