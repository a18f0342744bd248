"""The way of a call: admit it, run, replay, join or refuse it, settle it, say what was found."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableSequence
from typing import Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._copies import clone_error
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._entry import First
from repeatguard_sdk._firsts import FirstCalls
from repeatguard_sdk._flight import Landing, wait_for
from repeatguard_sdk._hosted import hosted_calls
from repeatguard_sdk._observation import Observation, append_to_result
from repeatguard_sdk._options import OptionsView
from repeatguard_sdk._outcome import Outcome
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._reporting import Reporter
from repeatguard_sdk._scope import Inside, StuckSignal, active, call_ids, leave
from repeatguard_sdk._speaking import observe, options_view, result_of, stuck_outcome
from repeatguard_sdk._toolset import Toolset
from repeatguard_sdk._types import MISSING, Deliver, OnStuck, Reason

_MAX_WAITING = 1_000
_ENDED_TEXT = "This task has ended: nothing more is run."


def ended_text(outcome: Outcome) -> str:
    """Return what a model is told that goes on calling after the end."""
    return f"{_ENDED_TEXT}\n{outcome.summary}"


class CallPath:
    """The half of a run that a guarded call goes through.

    Args:
        engine: decides and remembers.
        reporter: tells the sink.
        toolset: the tools the options are made of.
    """

    def __init__(
        self,
        engine: Engine,
        reporter: Reporter,
        toolset: Toolset,
        on_stuck: OnStuck,
        deliver: Deliver,
    ) -> None:
        self._engine = engine
        firsts = FirstCalls(engine)
        self._begin, self._settle_first = firsts.begin, firsts.settle
        self._reporter = reporter
        self._toolset = toolset
        self._on_stuck = on_stuck
        # Whether the exit leaves the block by a signal; an adapter ends its framework's loop instead.
        self._signals = on_stuck != "flag"
        self._control_flow: tuple[type[BaseException], ...] = ()
        self._recalling = False
        self._deliver = deliver
        self._inside = Inside(self)
        # Bounded: a host that never asks for them must not pay for them for ever.
        self._queue: deque[Observation] = deque(maxlen=_MAX_WAITING)
        self._newest: Observation | None = None
        self._last: Admission | First | None = None

    def call(
        self,
        tool: Tool,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Guard one call of a tool; the arguments reach it as given."""
        admitted: Admission | First | None = self._begin(tool, args, kwargs)
        while admitted is None or not isinstance(admitted, tuple):
            admitted = self._admit(tool, args, kwargs, admitted)
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
        self._last = admitted
        token = active.set(self._inside)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            active.reset(token)
            self._raised(admitted, tool, args, kwargs, error)
            raise
        active.reset(token)
        if isinstance(admitted, tuple) and self._settle_first(admitted, tool, result):
            return result
        return self._returned(admitted, tool, args, kwargs, result)

    async def acall(
        self,
        tool: Tool,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Guard one call of a coroutine tool; as `call`."""
        admitted: Admission | First | None = self._begin(tool, args, kwargs)
        while admitted is None or not isinstance(admitted, tuple):
            admitted = self._admit(tool, args, kwargs, admitted)
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
        self._last = admitted
        token = active.set(self._inside)
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            leave(active, token)
            self._raised(admitted, tool, args, kwargs, error)
            raise
        leave(active, token)
        if isinstance(admitted, tuple) and self._settle_first(admitted, tool, result):
            return result
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
    ) -> Admission | None:
        """Admit a call; `None` lets it through unguarded: the mode is off, or the guard failed."""
        here = hosted_calls.get()
        if here is not None and here.run is self:
            tool = here.reach(tool)
        try:
            if self._engine.mode_of(tool.spec) == "off":
                return None
            call = self._engine.admit(tool, args, kwargs, call_ids.get(), again)
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
        if call.ends_run:
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
        return self._say(_ENDED_TEXT if outcome is None else ended_text(outcome))

    def _say(self, sentence: str) -> str:
        """Answer with a sentence of ours; an adapter must not take it for the tool's result."""
        here = hosted_calls.get()
        if here is not None and here.run is self:
            here.spoken = sentence
        return sentence

    def _with_note(self, call: Admission, result: Any) -> Any:
        """Append the observation to a text result, if that is how they are delivered."""
        if call.observation is None or self._deliver != "result" or type(result) is not str:
            return result
        if not self._unqueue(call.observation):
            return result
        return append_to_result(result, call.observation)

    def _unqueue(self, observation: Observation) -> bool:
        """Take an observation that is delivered otherwise; false if another thread drained it.

        Saying it twice would only teach the model to repeat.
        """
        try:
            self._waiting().remove(observation)
        except (ValueError, IndexError):
            return False
        return True

    def _waiting(self) -> MutableSequence[Observation]:
        """Return where observations wait: with the framework's call they are about, if there is one."""
        here = hosted_calls.get()
        if here is None or here.run is not self or here.observations is None:
            return self._queue
        return here.observations

    def _report(self, call: Admission) -> None:
        """Write the observation about a call and tell the sink."""
        if call.finding is None and call.would == call.decision:
            return
        if self._recalling:
            # It was said, and reported, when the call was made.
            return
        engine = self._engine
        speaks = call.finding is not None and not call.silent
        speaks = speaks and call.mode in ("enforce", "advise")
        # An exit speaks through its outcome, unless the model gets to read on.
        if call.decision == "exit" and self._signals:
            speaks = False
        if call.finding is None and call.would == "join":
            return
        with engine.lock:
            kept = result_of(call.entry)
        style = ""
        if speaks:
            call.observation = self._newest = self._observe(call, kept)
            self._waiting().append(call.observation)
            chosen = engine.policy.style
            style = chosen if isinstance(chosen, str) else "custom"
        self._reporter.intervention(call, result=kept, style=style)
        self._watch_what_follows()

    def _watch_what_follows(self) -> None:
        """Keep calls off the short way, where nobody sees them, while a follow-up is awaited."""
        if self._reporter.following.waits:
            self._engine.plain.clear()

    def _observe(self, call: Admission, kept: Any) -> Observation:
        ledger = self._engine.ledger
        return observe(
            call,
            lambda: self._view(call),
            self._engine.policy,
            result=kept,
            known=ledger.known.get(call.fact, MISSING),
            answered=ledger.answered.get(call.fact, 0),
            on_fault=lambda fault: self._reporter.fault(call.tool, fault),
        )

    def _view(self, call: Admission) -> OptionsView:
        """Return what is open to the model at this moment."""
        specs = self._toolset.specs()
        with self._engine.lock:
            return options_view(self._engine.ledger, call, specs)

    def _leave(self) -> None:
        """Leave the run's block, unless that has to wait or is not wanted."""
        if self._signals and self._engine.may_leave():
            raise StuckSignal.of(self)

    def _ended_outcome(self) -> Outcome | None:
        """Return the outcome of a run that a call ended."""
        engine = self._engine
        call = engine.ended
        if call is None:
            return None
        newest = self._newest
        read = newest is not None and bool(newest.offered)
        still_open = () if newest is None else tuple(option.text for option in newest.options)
        with engine.lock:
            reason: Reason = "stuck" if engine.stuck else "finished"
            return stuck_outcome(
                engine.ledger,
                call,
                reason=reason,
                options=still_open,
                offered=read,
                find=self._toolset.find,
            )
