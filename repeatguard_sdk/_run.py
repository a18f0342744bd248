"""One agent task under guard: its block, what the host tells it and asks of it, its end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from repeatguard_sdk._adapting import AdaptedCalls
from repeatguard_sdk._admission import first_decision
from repeatguard_sdk._arguments import check_options
from repeatguard_sdk._binding import bind
from repeatguard_sdk._call import CallDecision
from repeatguard_sdk._canonical import digest
from repeatguard_sdk._emitting import GivenSink
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._identity import fact_name, identify
from repeatguard_sdk._memory import Memory
from repeatguard_sdk._messages import messages
from repeatguard_sdk._named_calls import ENDED, NEW, OPEN
from repeatguard_sdk._observation import Observation
from repeatguard_sdk._outcome import Outcome
from repeatguard_sdk._policy import Policy, mode_from_environment
from repeatguard_sdk._registry import Registry, default_registry
from repeatguard_sdk._reporting import Reporter
from repeatguard_sdk._reviewing import note_slots, review
from repeatguard_sdk._scope import Inside, close_block, open_block, take_signal
from repeatguard_sdk._spec import find_record
from repeatguard_sdk._toolset import Toolset
from repeatguard_sdk._turning import clocks_in, open_turn
from repeatguard_sdk._types import MISSING, Deliver, OnStuck, Reason
from repeatguard_sdk.exceptions import RunStateError, StuckError, ToolDeclarationError

if TYPE_CHECKING:
    from repeatguard_sdk._slot import Slot

F = TypeVar("F", bound=Callable[..., Any])

# How long the end of a block waits, in seconds, for a sink in a thread of its own: one that works
# has everything by then, one that hangs must not hold the program up, and an event loop even less.
_WAIT_FOR_SINK, _WAIT_ON_LOOP = 1.0, 0.05


class Run(AdaptedCalls):
    """One agent task: every decorated tool called inside its block is counted before it runs.

    A run serves many threads and tasks at once; two runs never see each other. Entered once, by
    ``with`` or ``async with``.

    Args:
        tools: the tools the model was given, as decorated functions or methods; default: the
            registry's. They are what the options of an observation are made of.
        policy: how hard the guard acts; default: the table in the README.
        run_id: default: a random one.
        on_stuck: "exit" leaves the block and `outcome` tells; "raise" raises `StuckError` at
            its end; "flag" raises nothing: every call is answered, and the loop ends itself when
            `over` is true.
        deliver: "queue" keeps observations for `observations` and `messages`; "result" appends
            them to a result that is text. Those about another result, and about an error, wait in
            the queue all the same: call `messages` too.
        events: a sink, a function that takes events, or a list of these, an empty one for none. Default:
            the SQLite file that `REPEATGUARD_EVENTS` names, if it is set.
        memory: what a run before this one left, for work that is taken up again.
        registry: where tools are looked up by name.
        clock: seconds; default: `time.time`.

    Raises:
        RunStateError: an option that cannot work; used twice, before its block or after its end.
        ToolDeclarationError: one of `tools` is not decorated, or two of them share a name.
        PolicyError: `REPEATGUARD_MODE` holds no mode.

    Example:
        >>> from repeatguard_sdk import Registry, Run, guarded_tool
        >>> @guarded_tool(registry=Registry())
        ... def look_up(word: str) -> str:
        ...     "Look a word up."
        ...     return f"no entry for {word}"
        >>> with Run([look_up]) as run:  # in a coroutine: async with Run([look_up]) as run
        ...     for _ in range(5):
        ...         run.turn()
        ...         answer = look_up("loop")
        >>> run.calls, run.over, run.last_decision.decision
        (3, True, 'exit')
    """

    def __init__(
        self,
        tools: Iterable[Any] | None = None,
        *,
        policy: Policy | None = None,
        run_id: str | None = None,
        on_stuck: OnStuck = "exit",
        deliver: Deliver = "queue",
        events: GivenSink | Sequence[GivenSink] | None = None,
        memory: Memory | None = None,
        registry: Registry | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        check_options(
            on_stuck=on_stuck,
            deliver=deliver,
            tools=tools,
            policy=policy,
            events=events,
            memory=memory,
            registry=registry,
            clock=clock,
        )
        self.run_id = run_id or uuid.uuid4().hex
        reporter = Reporter(self.run_id, events, clock or time.time)
        self._memory = Memory() if memory is None else memory
        super().__init__(
            Engine(
                policy or Policy(),
                mode_from_environment(),
                reporter.warn_uncountable,
                self._memory.ledger,
            ),
            reporter,
            Toolset(tools, default_registry if registry is None else registry),
            on_stuck,
            deliver,
        )
        self._on_stuck = on_stuck
        self._slots: dict[str, Slot] = {}
        self._state = NEW
        self.outer: Any = None
        self._token: Any = None
        self._outcome: Outcome | None = None

    # -- the block -----------------------------------------------------------------------------

    def __enter__(self) -> Run:
        if self._state != NEW:
            msg = f"this run is {self._state}; one run is one `with` block, so make a new Run(...)"
            raise RunStateError(msg)
        self._memory.take()
        self._state = OPEN
        self.guard = self._path
        self._reporter.start()
        self._epoch_before = self._engine.ledger.epoch
        self._token = open_block(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return self._close(error, _WAIT_FOR_SINK)

    def _close(self, error: BaseException | None, wait: float) -> bool:
        self.guard = None
        self._state = ENDED
        self._memory.release()
        close_block(self, self._token)
        self._tell_outer()
        signalled, rest = take_signal(error, self)
        self._conclude(rest)
        self._reporter.wait(wait)
        outcome = self._outcome
        stuck = outcome is not None and outcome.reason == "stuck"
        if outcome is not None and stuck and self._on_stuck == "raise" and rest is None:
            raise StuckError(outcome) from None
        if signalled and rest is not None:
            raise rest
        return signalled

    async def __aenter__(self) -> Run:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return self._close(error, _WAIT_ON_LOOP)

    def __repr__(self) -> str:
        ended = f" {self._outcome.reason}" if self._outcome is not None else ""
        calls = f"{self.calls} call{'s' * (self.calls != 1)}"
        return f"<Run {self.run_id} {self._state}{ended}, {calls}>"

    # -- what the host tells -------------------------------------------------------------------

    def turn(self, *, state: Any = MISSING, ignore: Iterable[str] = ()) -> Observation | None:
        """Open the next turn: one model response and the results of its tool calls.

        Equal calls of one turn are one call. Without turns, calls in flight at once are.

        Args:
            state: the state of the task as the host sees it, any record; three turns that leave
                it unchanged are noted, six end the run.
            ignore: dotted names of fields that do not count, such as a clock.

        Returns:
            What there is to say about the state; it waits in `observations` too.
        """
        self._check_open("turn")
        if isinstance(ignore, str):
            msg = f"run.turn(ignore={ignore!r}) is a bare string; write ignore=[{ignore!r}]"
            raise RunStateError(msg)
        names = tuple(ignore)
        if self._reporter.following.waits:
            self._reporter.following.saw_turn()
        found = open_turn(self._engine, state, names)
        if state is not MISSING and not self._reporter.clock_warned:
            clocks = clocks_in(self._engine, state, names)
            if clocks:
                self._reporter.warn_clock(clocks)
        if found is not None:
            self._teller.report(found)
        self._leave_if_ended()
        return None if found is None else found.observation

    def user_message(self, text: str = "") -> None:
        """Say that the user spoke: counts, rows and stored results are cleared, an epoch opens.

        Only for text a person wrote: a reminder or a "continue" made by a machine changes nothing.

        Args:
            text: what was said; not looked at.
        """
        self._check_open("user_message")
        self._reporter.conclude("answered")
        self._engine.user_spoke()

    def progress(self) -> None:
        """Say that the world changed in a way the run's tools cannot tell: an epoch opens."""
        self._check_open("progress")
        self._engine.moved_on()

    def compacted(self) -> None:
        """Say that the model lost its history: each stored result may be delivered once more."""
        self._check_open("compacted")
        with self._engine.lock:
            self._engine.ledger.open_generation()

    def know(self, *slots: Slot, **facts: Any) -> None:
        """Tell facts that need not be asked for; an `ask` tool with such a slot answers from here.

        Args:
            slots: other names of facts, for `review`: ``Slot("order_id", ["order no"])``.
            facts: name and value.
        """
        self._check_open("know")
        if slots:
            note_slots(self._slots, slots)
        self._engine.learn({fact_name(name): value for name, value in facts.items()})

    def review(self, draft: str) -> Observation | None:
        """Look whether a draft for the user asks for what the run already knows.

        Plain code, English only: a sentence that asks, naming a fact that is known, and neither
        stating its value nor meaning another item.

        Returns:
            What to tell the model instead of sending the draft; it does not wait in `observations`.
        """
        self._check_open("review")
        if not isinstance(draft, str):
            msg = f"run.review({draft!r}): a draft is a text"
            raise RunStateError(msg)
        found = review(self._engine, draft, self._slots)
        if found is None:
            return None
        self._teller.report(found)
        self._teller.unqueue(found)
        return found.observation

    # -- what the host asks --------------------------------------------------------------------

    @property
    def calls(self) -> int:
        """How many guarded calls there were, whatever was decided."""
        return self._engine.ledger.calls - self._engine.ledger.calls_before

    @property
    def stuck(self) -> bool:
        """Whether the run has been found stuck; once so, it stays so."""
        return self._engine.stuck

    @property
    def over(self) -> bool:
        """Whether the loop should end: stuck, or a final call was repeated after its success."""
        return self._engine.ended is not None

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; `None` while it goes on."""
        if self._outcome is None and self._engine.ended is not None:
            self._outcome = self._teller.ended_outcome()
        return self._outcome

    @property
    def dropped_events(self) -> int:
        """How many events the sink raised on or had no room for; they are lost, the run goes on."""
        return self._reporter.dropped

    @property
    def last_decision(self) -> CallDecision | None:
        """What became of the newest call."""
        last = self._path.last
        if isinstance(last, tuple):
            return first_decision(last)
        return None if last is None else last.freeze()

    def key_of(self, tool: Any, /, *args: Any, **kwargs: Any) -> str:
        """Return the identity of a call as text: two calls are the same if theirs are equal.

        Changes nothing. The arguments are bound, defaulted and normalized by the tool's rules;
        those that do not fit the signature have an identity too, made of them as they are given.

        Args:
            tool: the decorated function, or the name of a tool of this run.
            args, kwargs: the arguments of the call.

        Raises:
            NoIdentityError: an argument has no defined identity.
            ToolDeclarationError: `tool` is not decorated, or no tool of this run has that name.
        """
        found = self._toolset.find(tool) if isinstance(tool, str) else find_record(tool)
        if found is None:
            msg = f"{tool!r} is no tool of this run; give a decorated function or its name"
            raise ToolDeclarationError(msg)
        convict = self._engine.policy.folds == "convict"
        return f"{found.spec.name}:{digest(identify(found, args, kwargs, convict=convict).key)}"

    def observations(self) -> list[Observation]:
        """Drain the observations that are waiting."""
        return self._teller.drain()

    def messages(self, provider: str, *, role: str | None = None) -> list[dict[str, Any]]:
        """Drain the observations as messages to put after all results of the turn.

        Args:
            provider: "openai", "openai-responses", "anthropic" or "gemini".
            role: "user" by default; OpenAI takes "developer" and "system" too.

        Raises:
            ValueError: an unknown provider, or a role it does not take; nothing is drained then.
        """
        messages((), provider, role)  # a wrong name must not cost the observations
        return messages(self.observations(), provider, role)

    def bind(self, function: F) -> F:
        """Return `function` so that this run guards its tools in a thread, a pool or a callback."""
        if not callable(function):
            msg = f"run.bind({function!r}): give a function, and call what it returns"
            raise RunStateError(msg)
        return bind(self, function)

    # -- inner ---------------------------------------------------------------------------------

    def _leave_if_ended(self) -> None:
        if self._engine.ended is not None:
            self._path.leave()

    def _tell_outer(self) -> None:
        """Tell the run around this one that the world changed: counts do not meet, but they share it."""
        outer = self.outer.run if isinstance(self.outer, Inside) else self.outer
        if outer is not None and self._engine.ledger.epoch > self._epoch_before:
            outer.world_moved()

    def _conclude(self, error: BaseException | None) -> None:
        """Fix the outcome, and tell the sink."""
        outcome = self.outcome
        if outcome is None:
            finished = self._engine.finished
            reason: Reason = (
                "failed" if error is not None else "finished" if finished else "completed"
            )
            text = "" if error is None else _told(error)
            outcome = self._outcome = Outcome(
                reason=reason, calls=self.calls, known=dict(self._engine.ledger.known), error=text
            )
        self._reporter.end(self._engine.ledger, outcome.reason)


def _told(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
