"""What a run says: to the model, to the sink, and at its end."""

from __future__ import annotations

from collections import deque
from collections.abc import MutableSequence
from typing import Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._hosted import hosted_calls
from repeatguard_sdk._observation import Observation, append_to_result
from repeatguard_sdk._options import OptionsView
from repeatguard_sdk._outcome import Outcome
from repeatguard_sdk._reporting import Reporter
from repeatguard_sdk._scope import StuckSignal
from repeatguard_sdk._speaking import observe, options_view, result_of, stuck_outcome
from repeatguard_sdk._toolset import Toolset
from repeatguard_sdk._types import MISSING, Deliver, OnStuck, Reason

_MAX_WAITING = 1_000
ENDED_TEXT = "This task has ended: nothing more is run."


def ended_text(outcome: Outcome) -> str:
    """Return what a model is told that goes on calling after the end."""
    return f"{ENDED_TEXT}\n{outcome.summary}"


class Telling:
    """The part of a run that speaks of its calls.

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
        self._reporter = reporter
        self._toolset = toolset
        self._on_stuck = on_stuck
        # Whether the exit leaves the block by a signal; an adapter ends its framework's loop instead.
        self._signals = on_stuck != "flag"
        self._recalling = False
        self._deliver = deliver
        # Bounded: a host that never asks for them must not pay for them for ever.
        self._queue: deque[Observation] = deque(maxlen=_MAX_WAITING)
        self._newest: Observation | None = None

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
            self._view,
            self._engine.policy,
            result=kept,
            known=ledger.known.get(call.fact, MISSING),
            answered=ledger.answered.get(call.fact, 0),
            on_fault=self._reporter.fault,
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
                calls=engine.ended_after - engine.ledger.calls_before,
                reason=reason,
                options=still_open,
                offered=read,
                find=self._toolset.find,
            )
