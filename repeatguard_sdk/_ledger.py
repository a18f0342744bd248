"""A run's memory: entries by key, epochs, streaks of one tool, the newest (key, result) pairs.

Nothing here reads a clock, draws an id or takes a lock: the same calls in the same order
make the same ledger, so a workflow engine may replay it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any

import attrs

from repeatguard_sdk._copies import Stored
from repeatguard_sdk._flight import Flight

CYCLE_PERIODS = (2, 3, 4, 5, 6)


@attrs.define(eq=False)
class Entry:
    """What the run knows of one key.

    Attributes:
        tool: the tool's name.
        key: the key of the first call; aliases (suspects that were convicted) share the entry.
        number: identity of the entry inside the ledger.
        count: equal calls in a row in the present window; the ladder is read from it.
        epoch, hard: the epochs its newest outcome belongs to.
        turn: the turn of its newest counted call, -1 before any.
        first_call, first_turn: where the present count began.
        last_call: number of the newest counted call.
        total: calls of this key in the whole run.
        token: identity of the newest outcome, `None` if it has none.
        seen: whether it has had an outcome at all.
        failed: whether that outcome is an error.
        error: the stored error, without traceback.
        noted: whether an observation about it was given in the present count.
        retries: transient failures that counted for nothing.
        generation: the compaction after which its stored result was last delivered.
        flight: its running execution.
    """

    tool: str
    key: Hashable
    number: int
    count: int = 0
    epoch: int = -1
    hard: int = -1
    turn: int = -1
    first_call: int = 0
    first_turn: int = 0
    last_call: int = 0
    total: int = 0
    token: Hashable = None
    seen: bool = False
    failed: bool = False
    error: BaseException | None = None
    noted: bool = False
    retries: int = 0
    generation: int = 0
    stored: Stored[Any] | None = None
    flight: Flight | None = None


@attrs.define(eq=False)
class ToolState:
    """What the run knows of one tool, whatever the arguments.

    Attributes:
        entries: by key; an alias maps to the entry of the first call.
        folds: fold to the entries that have it and whose results differ.
        executed: how often it ran; its budget is counted here.
        errors, empties, failures: lengths of the present rows of outcomes.
        error_token: the error that `errors` counts.
        row_noted: whether the present row was spoken of.
        row_turn: the turn that was last counted in it.
        has_spoken: whether it ever gave a result that is not blank.
        exhausted: the epoch in which a call of it was replayed or refused, -1 for none.
        denied: whether a call of it was refused before it reached the tool.
        over_budget: turns with calls beyond its budget; `budget_turn` is the newest of them.
    """

    name: str
    entries: dict[Hashable, Entry] = attrs.field(factory=dict)
    folds: dict[Hashable, list[Entry]] = attrs.field(factory=dict)
    calls: int = 0
    executed: int = 0
    replayed: int = 0
    refused: int = 0
    joined: int = 0
    errors: int = 0
    empties: int = 0
    failures: int = 0
    error_token: Hashable = None
    row_noted: bool = False
    row_turn: int = -1
    has_spoken: bool = False
    exhausted: int = -1
    denied: bool = False
    over_budget: int = 0
    budget_turn: int = -1

    def end_row(self) -> None:
        """Forget the present row of outcomes."""
        self.errors = self.empties = self.failures = 0
        self.error_token = None
        self.row_noted = False
        self.row_turn = -1


class PairRing:
    """The newest (entry, result) pairs, and for each period how long they have repeated.

    `matches[p]` is how many pairs in a row equal the one `p` places before: at `p` two laps
    are complete, at `2 * p` three. One comparison a period keeps it, whatever the length.
    """

    __slots__ = ("matches", "pairs")

    def __init__(self) -> None:
        self.pairs: list[tuple[Entry, Hashable]] = []
        self.matches = [0] * (CYCLE_PERIODS[-1] + 1)

    def append(self, entry: Entry, token: Hashable) -> None:
        """Add the newest pair; a `None` token equals nothing, itself included."""
        pairs, matches = self.pairs, self.matches
        size = len(pairs)
        for period in range(1, CYCLE_PERIODS[-1] + 1):
            if period > size:
                break
            other, result = pairs[-period]
            if other is entry and result == token and token is not None:
                matches[period] += 1
            else:
                matches[period] = 0
        pairs.append((entry, token))
        if size == CYCLE_PERIODS[-1]:
            del pairs[0]

    def clear(self) -> None:
        """Forget everything."""
        self.pairs.clear()
        self.matches = [0] * (CYCLE_PERIODS[-1] + 1)


class Ledger:
    """All of a run's memory; see the module's docstring."""

    def __init__(self, *, max_stored_bytes: int) -> None:
        self.calls = 0
        self.turn = 0
        self.turns_marked = False
        self.epoch = 0
        self.hard_epoch = 0
        self.generation = 0
        self.tools: dict[str, ToolState] = {}
        self.ring = PairRing()
        self.previous: Entry | None = None
        # The newest entry of each tool whose result found something.
        self.found: dict[str, Entry] = {}
        self.known: dict[str, Any] = {}
        self.call_ids: OrderedDict[str, tuple[Entry, bool]] = OrderedDict()
        self.changing_in_flight = 0
        self._entries = 0
        self._stored: OrderedDict[int, Entry] = OrderedDict()
        self._stored_bytes = 0
        self._max_stored_bytes = max_stored_bytes

    def tool(self, name: str) -> ToolState:
        """Return the state of a tool, new if this is its first call."""
        state = self.tools.get(name)
        if state is None:
            state = self.tools[name] = ToolState(name)
        return state

    def add(self, state: ToolState, key: Hashable) -> Entry:
        """Make the entry of a key seen for the first time."""
        self._entries += 1
        entry = state.entries[key] = Entry(state.name, key, self._entries)
        return entry

    def open_epoch(self, *, hard: bool) -> None:
        """Say that the world may have changed; `hard` for a declared change."""
        self.epoch += 1
        if hard:
            self.hard_epoch += 1

    def forget_calls(self) -> None:
        """Clear counts, rows and stored results: a user may ask for exactly that retry."""
        for state in self.tools.values():
            state.entries.clear()
            state.folds.clear()
            state.end_row()
            state.exhausted = -1
            state.denied = False
        self.ring.clear()
        self.previous = None
        self._stored.clear()
        self._stored_bytes = 0

    def keep(self, entry: Entry, stored: Stored[Any] | None) -> None:
        """Keep an entry's result; past the budget of the run the oldest results go."""
        old = entry.stored
        if old is not None and self._stored.pop(entry.number, None) is not None:
            self._stored_bytes -= old.size
        entry.stored = stored
        if stored is None:
            return
        self._stored[entry.number] = entry
        self._stored_bytes += stored.size
        while self._stored_bytes > self._max_stored_bytes:
            _, oldest = self._stored.popitem(last=False)
            if oldest.stored is not None:
                self._stored_bytes -= oldest.stored.size
                oldest.stored = None

    def entries(self) -> Iterator[Entry]:
        """Yield each entry once, in the order of their first calls."""
        seen = {
            entry.number: entry for state in self.tools.values() for entry in state.entries.values()
        }
        return iter([seen[number] for number in sorted(seen)])
