"""A run's memory: entries by key, epochs, streaks of one tool, the newest (key, result) pairs.

Nothing here reads a clock, draws an id or takes a lock: the same calls in the same order
make the same ledger, so a workflow engine may replay it.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any, TypeGuard

import attrs

from repeatguard_sdk._copies import Stored, plain_size
from repeatguard_sdk._flight import Flight
from repeatguard_sdk._ring import PairRing
from repeatguard_sdk._types import MISSING


@attrs.define(eq=False)
class Entry:
    """What the run knows of one key that needs more than a line: seen twice, failed, or joined.

    Attributes:
        tool: the tool's name.
        key: the key of the first call; aliases (suspects that were convicted) share the entry.
        number: number of the call that made it; its identity in the ledger.
        count: equal calls in a row in the present window; the ladder is read from it.
        epoch: the epoch its newest outcome belongs to, -1 for none.
        drift: how often live tools had given new answers by then.
        turn, turn_epoch: turn and epoch of its newest counted call, -1 before any.
        told_turn: the turn in which its outcome was told once more, after a compaction.
        first_call, first_turn: where the present count began.
        last_call: number of the newest counted call.
        total: calls of this key in the whole run.
        token: identity of the newest outcome, `None` if it has none.
        seen: whether it has had an outcome at all.
        failed: whether that outcome is an error.
        error: the stored error, without traceback.
        transient: whether that error is a transient one.
        noted: whether an observation about it was given in the present count.
        retries: transient failures that counted for nothing.
        generation: the compaction after which its stored result was last delivered.
        stored: the result kept for a replay.
        flight: its running execution.
    """

    tool: str
    key: Hashable
    number: int
    count: int = 0
    epoch: int = -1
    drift: int = 0
    turn: int = -1
    turn_epoch: int = -1
    told_turn: int = -1
    first_call: int = 0
    first_turn: int = 0
    last_call: int = 0
    total: int = 0
    token: Hashable = None
    seen: bool = False
    failed: bool = False
    error: BaseException | None = None
    transient: bool = False
    noted: bool = False
    retries: int = 0
    generation: int = 0
    stored: Stored[Any] | None = None
    flight: Flight | None = None


# A call made once, with a result, is a plain tuple: a run may make a million of them.
# Its parts: number, stamp, token, and the value, a `Stored` of it, or `MISSING`.
Once = tuple[int, "Stamp", Hashable, Any]
# While it runs it is another one: its state, key, number and stamp.
First = tuple["ToolState", Hashable, int, "Stamp"]
# Epoch, turn, generation and drift: when a call was made. All calls of one moment share one.
Stamp = tuple[int, int, int, int]


@attrs.define(eq=False)
class ToolState:
    """What the run knows of one tool, whatever the arguments.

    Attributes:
        origin: the function behind the name; another one of that name has a state of its own.
        changes: whether a call of it may change the world.
        once: by key, the calls made once, and those that are running for the first time.
        entries: by key, the others.
        aliases: by key, a suspect's verdict: the entry it repeats, and the epoch that holds for.
        results: result to the key, or to fold and key of each call, that had it in `results_epoch`.
        flights: number to flight, of running first calls that others wait for.
        executed: how often it ran; its budget is counted here.
        errors, empties, failures: lengths of the present rows of outcomes.
        error_token: the error that `errors` counts.
        failures_noted, empties_noted: whether the present row was spoken of.
        failed_turn, empty_turn: the turn that was last counted in it.
        has_spoken: whether it ever gave a result that is not blank.
        found_call, found_entry: newest call whose result found something, and its entry's number.
        exhausted: the epoch in which a call of it was replayed or refused, -1 for none.
        denied: whether a call of it was refused before it reached the tool.
        over_budget: turns with calls beyond its budget; `budget_turn` is the newest of them.
    """

    name: str
    origin: str = ""
    changes: bool = False
    once: dict[Hashable, Any] = attrs.field(factory=dict[Hashable, Any])
    entries: dict[Hashable, Entry] = attrs.field(factory=dict[Hashable, Entry])
    aliases: dict[Hashable, tuple[Entry, int]] = attrs.field(
        factory=dict[Hashable, tuple[Entry, int]]
    )
    results: dict[Hashable, Any] = attrs.field(factory=dict[Hashable, Any])
    results_epoch: int = 0
    flights: dict[int, Flight] = attrs.field(factory=dict[int, Flight])
    executed: int = 0
    replayed: int = 0
    refused: int = 0
    joined: int = 0
    errors: int = 0
    empties: int = 0
    failures: int = 0
    error_token: Hashable = None
    failures_noted: bool = False
    empties_noted: bool = False
    failed_turn: int | None = None
    empty_turn: int | None = None
    has_spoken: bool = False
    found_call: int = 0
    found_entry: int = 0
    exhausted: int = -1
    denied: bool = False
    over_budget: int = 0
    budget_turn: int = -1

    def end_failures(self) -> None:
        """Forget the present row of failures."""
        self.errors = self.failures = 0
        self.error_token = self.failed_turn = None
        self.failures_noted = False

    def end_empties(self) -> None:
        """Forget the present row of results that found nothing."""
        self.empties = 0
        self.empty_turn = None
        self.empties_noted = False

    def end_rows(self) -> None:
        """Forget both rows."""
        self.end_failures()
        self.end_empties()

    def begin_run(self) -> None:
        """Begin another run: counts and budgets start anew."""
        self.end_rows()
        self.executed = self.replayed = self.refused = self.joined = 0
        self.over_budget = 0
        self.exhausted = self.budget_turn = -1
        self.denied = False
        for entry in self.entries.values():
            entry.count = min(entry.count, 1)
            entry.noted = False
            entry.turn = -1
            entry.retries = 0

    def forget(self) -> None:
        """Forget calls and rows; what was executed stays counted."""
        self.once.clear()
        self.entries.clear()
        self.aliases.clear()
        self.results.clear()
        self.end_rows()
        self.exhausted = self.budget_turn = -1
        self.over_budget = 0
        self.denied = False


class Ledger:
    """All of a run's memory; see the module's docstring."""

    def __init__(self) -> None:
        self.calls = 0
        # Calls of earlier runs on the same memory.
        self.calls_before = 0
        self.turn = 0
        self.turns_marked = False
        self.epoch = 0
        # The newest epoch that a declared change opened, not only a tool of unknown effect.
        self.hard_epoch = 0
        self.generation = 0
        # How often a live tool has given a new answer, or another one than before.
        self.drift = 0
        self.stamp: Stamp = (0, 0, 0, 0)
        self.tools: dict[str, ToolState] = {}
        self.ring = PairRing()
        # Number of the newest counted call's entry: bookkeeping looks at what lies between.
        self.previous = 0
        self.known: dict[str, Any] = {}
        # Fact to the number of the call that answered it; facts the host told are not in it.
        self.answered: dict[str, int] = {}
        self.call_ids: OrderedDict[str, tuple[Entry, bool]] = OrderedDict()
        self.changing_in_flight = 0
        # Whether this turn has had a new answer, for hosts that give no state.
        self.progressed = True
        self.stored_bytes = 0
        self.max_stored_bytes = 0

    def begin_run(self) -> None:
        """Begin another run on the same memory: what was learnt stays, what was counted does not."""
        self.calls_before = self.calls
        self.turns_marked = False
        self.ring.clear()
        self.previous = 0
        self.call_ids.clear()
        for state in self.tools.values():
            state.begin_run()

    def state(self, name: str, origin: str, *, changes: bool) -> ToolState:
        """Return the state of a tool, new if this is its first call.

        Two functions may share a name in one run, as when an agent calls another one: what one
        of them returned is no answer of the other.
        """
        state = self.tools.get(name)
        if state is not None and state.origin != origin:
            name = f"{name} of {origin}"
            state = self.tools.get(name)
        if state is None:
            state = self.tools[name] = ToolState(name, origin, changes)
        return state

    def find(self, state: ToolState, key: Hashable) -> Entry | None:
        """Return the entry of a key; what was a plain tuple so far becomes one."""
        alias = state.aliases.get(key)
        if alias is not None:
            if alias[1] == self.epoch:
                return alias[0]
            # In another epoch the same text may mean another thing: it is a suspect again.
            del state.aliases[key]
        entry = state.entries.get(key)
        if entry is None:
            known = state.once.pop(key, None)
            if known is not None:
                entry = state.entries[key] = _entry(state, key, known)
        return entry

    def add(self, state: ToolState, key: Hashable, number: int) -> Entry:
        """Make the entry of a key seen for the first time."""
        entry = state.entries[key] = Entry(state.name, key, number)
        return entry

    def open_epoch(self, *, hard: bool) -> None:
        """Say that the world may have changed; `hard` for a declared change."""
        self.epoch += 1
        if hard:
            self.hard_epoch = self.epoch
        self._restamp()

    def note_drift(self) -> None:
        """Say that a live tool gave a new answer: the world moves by itself.

        It opens no epoch, for a clock moves too and would let every loop escape; but a stored
        outcome from before it is looked at again and not served.
        """
        self.drift += 1
        self._restamp()

    def _restamp(self) -> None:
        self.stamp = (self.epoch, self.turn, self.generation, self.drift)

    def open_turn(self) -> None:
        """Say that the model was asked again."""
        self.turn += 1
        self.turns_marked = True
        self._restamp()

    def open_generation(self) -> None:
        """Say that the model lost its history to a compaction."""
        self.generation += 1
        self._restamp()

    def forget_calls(self) -> None:
        """Clear counts, rows and stored results: a user may ask for exactly that retry."""
        for state in self.tools.values():
            state.forget()
        self.ring.clear()
        self.previous = 0
        self.stored_bytes = 0

    def keep(self, entry: Entry, stored: Stored[Any] | None) -> None:
        """Keep an entry's result, within the budget of the run."""
        if entry.stored is not None:
            self.stored_bytes -= entry.stored.size
        entry.stored = stored
        if stored is not None:
            self.charge(stored.size)

    def charge(self, size: int) -> None:
        """Count the bytes of a result; past the budget the oldest results go."""
        self.stored_bytes += size
        if self.stored_bytes > self.max_stored_bytes:
            self.shrink()

    def shrink(self) -> None:
        """Drop the oldest results until a quarter of the budget is free: the search is paid rarely."""
        goal = self.max_stored_bytes * 3 // 4
        for _, state, key in sorted(self._holders(), key=lambda holder: holder[0]):
            if self.stored_bytes <= goal:
                break
            self._drop(state, key)

    def _holders(self) -> Iterator[tuple[int, ToolState, Hashable]]:
        for state in self.tools.values():
            for key, once in state.once.items():
                if _is_made(once) and once[3] is not MISSING:
                    yield once[0], state, key
            for key, entry in state.entries.items():
                if entry.stored is not None:
                    yield entry.last_call, state, key

    def _drop(self, state: ToolState, key: Hashable) -> None:
        once = state.once.get(key)
        if once is not None:
            self.stored_bytes -= size_of(once[3])
            state.once[key] = (*once[:3], MISSING)
            return
        entry = state.entries[key]
        if entry.stored is not None:
            self.stored_bytes -= entry.stored.size
            entry.stored = None

    def newest(self, limit: int) -> list[Entry]:
        """Return the newest distinct calls that have an outcome, in the order they were made."""
        found: dict[int, tuple[ToolState, Hashable, Any]] = {}
        for state in self.tools.values():
            for key, once in state.once.items():
                if _is_made(once):
                    found[once[0]] = (state, key, once)
            for key, entry in state.entries.items():
                if entry.seen:
                    found[entry.number] = (state, key, entry)
        chosen = sorted(heapq.nlargest(limit, found))
        return [
            known if isinstance(known, Entry) else _entry(state, key, known)
            for state, key, known in (found[number] for number in chosen)
        ]


def _is_made(known: Once | First) -> TypeGuard[Once]:
    """Tell a call that was made from one that is running."""
    return type(known[0]) is int


def size_of(value: Any) -> int:
    """Return the bytes charged for a result that was kept as it is, or copied."""
    return value.size if _is_stored(value) else plain_size(value)


def _as_stored(value: Any) -> Stored[Any]:
    return value if _is_stored(value) else Stored(value, plain_size(value), True)


def _is_stored(value: Any) -> TypeGuard[Stored[Any]]:
    return isinstance(value, Stored)


def _entry(state: ToolState, key: Hashable, known: Any) -> Entry:
    """Make the entry of a call that was made once, or that runs for the first time."""
    if not _is_made(known):
        _, _, number, stamp = known
        entry = Entry(state.name, key, number)
        entry.flight = state.flights[number] = Flight(stamp[0])
        return entry
    number, (epoch, turn, generation, drift), token, value = known
    stored: Stored[Any] | None = None
    if value is not MISSING:
        stored = _as_stored(value)
    return Entry(
        state.name,
        key,
        number,
        count=1,
        epoch=epoch,
        drift=drift,
        turn=turn,
        turn_epoch=epoch,
        first_call=number,
        first_turn=turn,
        last_call=number,
        total=1,
        token=token,
        seen=True,
        generation=generation,
        stored=stored,
    )
