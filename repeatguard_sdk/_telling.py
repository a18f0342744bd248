"""What a run says: to the model, to the sink, and at its end."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from repeatguard_sdk._admission import UNREAD, Admission
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._entry import result_of
from repeatguard_sdk._hosted import hosted_calls
from repeatguard_sdk._observation import Observation, append_to_result
from repeatguard_sdk._options import OptionsView
from repeatguard_sdk._outcome import Outcome
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._reporting import Reporter
from repeatguard_sdk._speaking import facts_about, note_facts, options_view, stuck_outcome
from repeatguard_sdk._toolset import Toolset
from repeatguard_sdk._types import MISSING, Deliver, OnStuck, Reason

_hosted_call: Final = hosted_calls.get
_MAX_WAITING = 1_000
ENDED_TEXT = "This task has ended: nothing more is run."


def ended_text(outcome: Outcome) -> str:
    """Return what a model is told that goes on calling after the end."""
    return f"{ENDED_TEXT}\n{outcome.summary}"


class Teller:
    """Says what there is to say of the calls of one run.

    Args:
        run: the run, as a framework's call names the one it is guarded by.
        engine: decides and remembers.
        reporter: tells the sink.
        toolset: the tools the options are made of.

    Attributes:
        policy: how it is said.
        signals: whether the exit leaves the block by a signal; an adapter ends its framework's loop
            instead.
        recalling: whether past calls are counted: they were said, and reported, when they were made.
    """

    def __init__(
        self,
        run: Any,
        engine: Engine,
        reporter: Reporter,
        toolset: Toolset,
        on_stuck: OnStuck,
        deliver: Deliver,
    ) -> None:
        self._run = run
        self._engine = engine
        self.policy = engine.policy
        style = engine.policy.style
        self._style = style if isinstance(style, str) else "custom"
        self._reporter = reporter
        self._toolset = toolset
        self._deliver = deliver
        self._tell: Callable[[Any], Any] | None = None
        self.signals = on_stuck != "flag"
        self.recalling = False
        # Calls of which there is something to say, and what had no place beside its call. Bounded: a
        # host that never asks for them must not pay for them for ever.
        self._queue: deque[Admission | Observation] = deque(maxlen=_MAX_WAITING)
        self._newest: Admission | None = None

    def say(self, sentence: str) -> str:
        """Answer with a sentence of ours; an adapter must not take it for the tool's result."""
        here = _hosted_call()
        if here is not None and here.run is self._run:
            here.spoken = sentence
        return sentence

    def with_note(self, call: Admission, result: Any) -> Any:
        """Append the observation to a text result, if that is how they are delivered."""
        if call.tell is None or self._deliver != "result" or type(result) is not str:
            return result
        observation = call.observation
        if observation is None or not self.unqueue(call):
            return result
        return append_to_result(result, observation)

    def _queue_up(self, call: Admission) -> None:
        """Let an observation wait: with the framework's call that it is about, if there is one."""
        here = _hosted_call()
        if here is None or here.run is not self._run or here.observations is None:
            self._queue.append(call)
        else:
            here.observations.append(call.observation)

    def unqueue(self, call: Admission) -> bool:
        """Take an observation that is delivered otherwise; false if another thread drained it.

        Saying it twice would only teach the model to repeat.
        """
        here = _hosted_call()
        try:
            if here is None or here.run is not self._run or here.observations is None:
                self._queue.remove(call)
            else:
                here.observations.remove(call.observation)
        except (ValueError, IndexError):
            return False
        return True

    def requeue(self, observations: Iterable[Observation]) -> None:
        """Let observations wait here that had no place beside their call."""
        self._queue.extend(observations)

    def drain(self) -> list[Observation]:
        """Take all observations that wait."""
        drained: list[Observation] = []
        with contextlib.suppress(IndexError):  # empty, or emptied by another thread meanwhile
            while True:
                waiting = self._queue.popleft()
                made = waiting.observation if isinstance(waiting, Admission) else waiting
                if made is not None:
                    drained.append(made)
        return drained

    def report(self, call: Admission) -> None:
        """Write the observation about a call and tell the sink."""
        if call.finding is None and call.would == call.decision:
            return
        if self.recalling:
            return
        if call.finding is None and call.would == "join":
            return
        if call.kept is UNREAD:
            with self._engine.lock:
                call.kept = result_of(call.entry)
        style = ""
        if self.speaks_of(call):
            self.say_of(call)
            self._queue_up(call)
            style = self._style
        self._reporter.intervention(call, result=call.kept, style=style)

    def speaks_of(self, call: Admission) -> bool:
        """Tell whether there is anything to say of a call to the model."""
        if call.finding is None or call.silent or call.mode not in ("enforce", "advise"):
            return False
        # An exit speaks through its outcome, unless the model gets to read on.
        return call.decision != "exit" or not self.signals

    def say_of(self, call: Admission) -> None:
        """Say that there is something to say of a call; the observation is made when it is read."""
        if call.fact:
            ledger = self._engine.ledger
            call.known = ledger.known.get(call.fact, MISSING)
            note_facts(call, answered=ledger.answered.get(call.fact, 0))
        else:
            note_facts(call, answered=0)
        if self._tell is None:
            # Made when it is needed: with it the teller is no more freed as soon as it is let go.
            self._tell = functools.partial(facts_about, self)
        call.tell = self._tell
        self._newest = call

    def fault(self, tool: Tool, error: Exception) -> None:
        """Take note that the guard itself went wrong."""
        self._reporter.fault(tool, error)

    def view(self, call: Admission) -> OptionsView:
        """Return what is open to the model at this moment."""
        specs = self._toolset.specs()
        with self._engine.lock:
            return options_view(self._engine.ledger, call, specs)

    def ended_outcome(self) -> Outcome | None:
        """Return the outcome of a run that a call ended."""
        engine = self._engine
        call = engine.ended
        if call is None:
            return None
        newest = None if self._newest is None else self._newest.observation
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
