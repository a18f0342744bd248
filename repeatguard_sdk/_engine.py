"""The guard's decisions over one ledger: admit a call, settle its result, remember how it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._call import Finding
from repeatguard_sdk._copies import store
from repeatguard_sdk._entry import Begun, Entry, KnownTool, ToolState
from repeatguard_sdk._flight import Landing, land
from repeatguard_sdk._identity import Identity, identify
from repeatguard_sdk._joining import (
    answer_from,
    depart,
    remember_id,
    share,
    take_off,
)
from repeatguard_sdk._ledger import Ledger
from repeatguard_sdk._locking import new_lock
from repeatguard_sdk._meeting import meet
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._settling import Settled, failure, record, success
from repeatguard_sdk._spec import ToolSpec
from repeatguard_sdk._types import CHANGING_EFFECTS, KeyKind, Mode, is_tuple
from repeatguard_sdk._withholding import answer_known, redeliver, refuse_budget, withhold
from repeatguard_sdk.detectors import repeat
from repeatguard_sdk.detectors.chain import Advice, Chain
from repeatguard_sdk.detectors.no_progress import StateWatch
from repeatguard_sdk.exceptions import NoIdentityError

_ABANDONED = Landing("abandoned")


class Engine:
    """Admits and settles the calls of one run.

    Args:
        policy: how hard it acts.
        forced_mode: overrides the mode of policy and tools.
        on_uncountable: told, once a tool, that a call of it cannot be compared.
        ledger: a memory to go on with.
    """

    def __init__(
        self,
        policy: Policy,
        forced_mode: Mode | None,
        on_uncountable: Callable[[Tool, str], None],
        ledger: Ledger,
    ) -> None:
        self.policy = policy
        self.ledger = ledger
        ledger.max_stored_bytes = policy.max_stored_bytes
        ledger.max_entries = policy.max_entries
        # Protects the ledger and `ended`; held for the few lines of an admission or a
        # settlement, never while a tool, a sink or a user's callable runs.
        self.lock = new_lock()
        self.ended: Admission | None = None
        self.ended_after = 0  # calls by then; a model that goes on makes more
        self.finished = False
        self.known: dict[Tool, KnownTool] = {}
        self.chain = Chain()
        self.watch = StateWatch()
        self._forced_mode: Mode | None = forced_mode
        self._on_uncountable = on_uncountable
        self._uncountable: set[str] = set()

    def mode_of(self, spec: ToolSpec) -> Mode:
        """Return the mode that holds for a tool."""
        if self._forced_mode is not None:
            return self._forced_mode
        return self.policy.mode if spec.mode is None else spec.mode

    # -- admission ---------------------------------------------------------------------------

    def admit(
        self,
        tool: Tool,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        call_id: str | None = None,
        again: Admission | None = None,
        identity: Identity | None = None,
    ) -> Admission:
        """Decide what happens to a call.

        Args:
            identity: its identity, if that is known already.
            again: the admission of the same call, when the call it waited for was abandoned.
        """
        ledger = self.ledger
        if identity is None:
            identity = self.identify(tool, args, kwargs)
        with self.lock:
            if again is None:
                call = self.number(tool, self.state_of(tool))
                call.args, call.kwargs, call.call_id = args, kwargs, call_id
                if identity is not None:
                    call.fold, call.shown = identity.fold, identity.shown
            else:
                call = again
                call.epoch, call.drift, call.waiter = ledger.epoch, ledger.drift, None
                # It has joined nothing, as it turned out.
                call.decision, call.would, call.counts = "execute", "execute", True
                call.state.joined -= 1
            if identity is not None:
                call.key = identity.key
                call.entry = ledger.find(call.state, identity.key)
            if self.ended is not None:
                self.answer_ended(call)
            elif self.policy.advice is not None:
                self._execute(call, None)
                self.advise(call, self.policy.advice)
            elif identity is None:
                self._execute(call, None)
            else:
                self._place(call, identity)
            if call.ends_run:
                self.end(call)
        return call

    def state_of(self, tool: Tool) -> ToolState:
        """Return the state of a tool; called under the lock."""
        known = self.known.get(tool)
        return self._meet(tool).state if known is None else known.state

    def meet(self, tool: Tool) -> KnownTool:
        """Take note of a tool that the run has not met so far."""
        with self.lock:
            return self._meet(tool)

    def _meet(self, tool: Tool) -> KnownTool:
        known = self.known[tool] = meet(tool, self.ledger, self.policy, self.mode_of(tool.spec))
        return known

    def number(self, tool: Tool, state: ToolState) -> Admission:
        """Begin the record of a call."""
        ledger = self.ledger
        ledger.calls += 1
        mode = self.mode_of(tool.spec)
        call = Admission(tool, state, ledger.calls, ledger.turn, ledger.epoch, mode)
        call.drift = ledger.drift
        return call

    def identify(
        self, tool: Tool, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Identity | None:
        """Return the identity of a call; `None`, and a word to the developer, if it has none."""
        try:
            return identify(tool, args, kwargs, convict=self.policy.folds == "convict")
        except NoIdentityError as reason:
            name = tool.spec.name
            if name not in self._uncountable:
                self._uncountable.add(name)
                self._on_uncountable(tool, str(reason))
            return None

    def advise(self, call: Admission, advice: Advice) -> None:
        """Count a call for the advisory policy, which looks at nothing but the chain."""
        spec = call.tool.spec
        if spec.effect == "bookkeeping" or not advice.looks_at(spec.name):
            return
        call.count = self.chain.extend(spec.name, call.key, call.number)
        if call.count in advice.thresholds:
            call.finding = Finding(kind="repeat", count=call.count, cause="identical call in a row")

    def _place(self, call: Admission, identity: Identity) -> None:
        """Share another call's outcome where there is one to share, else climb."""
        how = share(call, self.ledger)
        if how == "share":
            call.decision = call.would = "join"
            call.counts = False
            call.state.joined += 1
        elif how == "again":
            call.counts = False
            self._execute(call, call.entry)
        elif how == "twin":
            call.counts = False
            self._execute(call, call.entry)
            call.would = "join"
        else:
            self._climb(call, identity)
            if call.call_id and not call.executed:
                # An answer without a run is the answer of this id too.
                entry = call.entry
                kept = None if entry is None or entry.failed else entry.stored
                remember_id(self.ledger, call, stored=kept, error=call.error)

    def _climb(self, call: Admission, identity: Identity) -> None:
        """Put a call on its ladder."""
        spec, ledger, policy = call.tool.spec, self.ledger, self.policy
        if identity.fact is not None and answer_known(ledger, policy, call, identity.fact):
            return
        entry = call.entry
        if entry is None:
            self._execute(call, ledger.add(call.state, identity.key, call.number))
            return
        if spec.effect == "bookkeeping" and ledger.previous != entry.number:
            # Something lay between, and whatever comes of this call must not hide that.
            entry.seen, entry.count = False, 0
        ladder = policy.ladder(spec.effect, repeatable=spec.repeatable, failed=entry.failed)
        step = repeat.before(entry, spec, ladder, ledger, whole_run=policy.whole_run)
        if not call.fact:
            call.count = step.position
        if call.fact:
            # The user is asked again only because the mode withholds nothing.
            self._execute(call, entry)
        elif step.decision == "execute" or call.mode != "enforce" or ladder is None:
            call.would = step.decision
            self._execute(call, entry)
        elif not (
            redeliver(ledger, call, entry) or withhold(ledger, policy, call, entry, step, ladder)
        ):
            self._execute(call, entry)

    def answer_ended(self, call: Admission) -> None:
        """Answer a call after the end, from the ledger if the ledger has an answer."""
        call.decision = call.would = "exit"
        call.counts = False
        if call.entry is not None:
            answer_from(call, call.entry)

    def _execute(self, call: Admission, entry: Entry | None) -> None:
        """Let the tool run, unless its budget is spent."""
        spec, state, ledger = call.tool.spec, call.state, self.ledger
        call.entry = entry
        if spec.max_calls is not None and state.executed >= spec.max_calls:
            call.would, call.budget = "refuse", spec.max_calls
            if call.mode == "enforce":
                refuse_budget(ledger, self.policy, call, spec.max_calls)
                return
        call.decision = "execute"
        call.executed = True
        state.executed += 1
        if spec.effect in CHANGING_EFFECTS:
            ledger.changing_in_flight += 1
        if entry is not None and spec.withheld:
            take_off(call, entry, ledger)

    def promote(
        self, begun: Begun, tool: Tool, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Admission:
        """Give a first call that turned out to be of interest an admission of its own."""
        known, key, first = begun
        state: ToolState = known.state
        number: int = first.number
        epoch, turn, _, drift = first.stamp
        call = Admission(tool, state, number, turn, epoch, "enforce")
        call.drift = drift
        call.args, call.kwargs, call.key, call.executed = args, kwargs, key, True
        with self.lock:
            entry = self.ledger.find(state, key)
            if entry is None or entry.number != number:
                # The run was told to forget it meanwhile: nothing of it may count.
                entry = Entry(state.name, key, number)
            call.entry = entry
            call.flight = state.flights.pop(number, None)
        return call

    # -- settlement --------------------------------------------------------------------------

    def settle(self, call: Admission, result: Any) -> None:
        """Record what an executed call returned, and tell those who wait for it."""
        spec = call.tool.spec
        keeps = spec.withheld or call.call_id is not None
        outcome = success(result, spec, self.policy.max_result_bytes if keeps else -1)
        self._settle(call, outcome, Landing("ok", result, outcome.stored))
        if call.entry is not None and spec.slot is not None and not outcome.empty:
            kept = outcome.stored
            self._fill_slot(call, result if kept is None else kept.deliver())

    def settle_error(self, call: Admission, error: Exception) -> None:
        """Record what an executed call raised, and tell those who wait for it."""
        outcome = failure(error, call.tool.spec)
        self._settle(call, outcome, Landing("error", outcome.error))

    def _settle(self, call: Admission, outcome: Settled, landing: Landing) -> None:
        waiters: list[Any] = []
        try:
            with self.lock:
                waiters = depart(self.ledger, call, landing)
                self._record(call, outcome)
        finally:
            # Nobody may wait for ever, whatever went wrong.
            land(waiters, landing)

    def _record(self, call: Admission, outcome: Settled) -> None:
        spec, ledger = call.tool.spec, self.ledger
        if call.entry is not None and (call.counts or not (outcome.failed or call.would == "join")):
            record(ledger, self.policy, call, outcome)
            if call.ends_run:
                self.end(call)
        else:
            if call.entry is None:
                ledger.previous = 0
                ledger.ring.clear()
            # What is not counted may have changed the world all the same.
            if not outcome.failed or outcome.transient or spec.effect == "unknown":
                self._change(spec)
        if spec.effect == "final" and not outcome.failed:
            self.finished = True
        remember_id(ledger, call, stored=outcome.stored, failed=outcome.failed)

    def abandon(self, call: Admission, landing: Landing = _ABANDONED) -> None:
        """Forget an execution that was cancelled or killed: a waiter takes over, nothing counts.

        Args:
            landing: what its waiters get instead, where the tool did its work and the guard failed.
        """
        with self.lock:
            if not call.landed:
                # Nobody knows what was done before it was killed.
                self._change(call.tool.spec)
            waiters = depart(self.ledger, call, landing)
        land(waiters, landing)

    def passed_by(self, tool: Tool) -> None:
        """Take note of a call that was let through unguarded: it may have changed the world."""
        with self.lock:
            self._change(tool.spec)

    def _change(self, spec: ToolSpec) -> None:
        if not self.policy.whole_run:
            self.ledger.changed_by(spec.effect)

    def _fill_slot(self, call: Admission, answer: Any) -> None:
        key = None if call.entry is None else call.entry.key
        if not is_tuple(key) or key[:1] != (KeyKind.SLOT,):
            # A question that names no fact fills none.
            return
        with self.lock:
            fact = key[-1]
            self.ledger.known[fact] = answer
            self.ledger.answered[fact] = call.number

    # -- the end -----------------------------------------------------------------------------

    def end(self, call: Admission) -> None:
        """Remember what ended the run, under the lock; the first one stands."""
        if self.ended is None:
            self.ended = call
            self.ended_after = self.ledger.calls

    def learn(self, facts: Mapping[str, Any]) -> None:
        """Remember facts that the host tells, in copies of its own."""
        limit = self.policy.max_result_bytes
        kept = {fact: store(value, limit) for fact, value in facts.items()}
        with self.lock:
            for fact, value in facts.items():
                copy = kept[fact]
                self.ledger.known[fact] = value if copy is None else copy.value
                self.ledger.answered.pop(fact, None)

    def user_spoke(self) -> None:
        """Open an epoch and clear what a person's words make moot."""
        with self.lock:
            self.chain.clear()
            self.watch.clear()
            if not self.policy.whole_run:
                self.ledger.open_epoch(hard=True)
                self.ledger.forget_calls()

    def moved_on(self) -> None:
        """Open an epoch: the world changed in a way no tool of the run can tell."""
        with self.lock:
            self.watch.clear()
            self.ledger.open_epoch(hard=True)

    @property
    def stuck(self) -> bool:
        """Whether the run ended without a final success."""
        return self.ended is not None and not self.finished

    def may_leave(self) -> bool:
        """Tell whether the exit may be raised now: no write of the run is in flight."""
        with self.lock:
            return self.ledger.changing_in_flight == 0
