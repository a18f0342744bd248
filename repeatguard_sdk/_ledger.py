"""A run's memory: entries by key, epochs, streaks of one tool, the newest (key, result) pairs.

Nothing here reads a clock, draws an id or takes a lock: the same calls in the same order
make the same ledger, so a workflow engine may replay it.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any

from repeatguard_sdk._copies import Stored
from repeatguard_sdk._entry import (
    TAKEN,
    Delivered,
    Entry,
    FirstCall,
    Stamp,
    ToolState,
    entry_of,
    size_of,
)
from repeatguard_sdk._ring import PairRing
from repeatguard_sdk._types import CHANGING_EFFECTS, MISSING, Effect


class Ledger:
    """All of a run's memory; see the module's docstring."""

    def __init__(self) -> None:
        self.calls = 0
        # Calls and turns of earlier runs on the same memory.
        self.calls_before = self.turns_before = 0
        self.turn = 0
        self.turns_marked = False
        self.epoch = 0
        # The newest epoch that a declared change opened, not only a tool of unknown effect.
        self.hard_epoch = 0
        self.generation = 0
        # How often a live tool has given another answer than before.
        self.drift = 0
        self.stamp: Stamp = (0, 0, 0, 0)
        self.tools: dict[str, ToolState] = {}
        self.ring = PairRing()
        # Number of the newest counted call's entry: bookkeeping looks at what lies between.
        self.previous = 0
        self.known: dict[str, Any] = {}
        # Fact to the number of the call that answered it; facts the host told are not in it.
        self.answered: dict[str, int] = {}
        self.call_ids: OrderedDict[str, Delivered] = OrderedDict()
        self.changing_in_flight = 0
        # Whether this turn has had a new answer, for hosts that give no state.
        self.progressed = True
        self.stored_bytes = 0
        self.max_stored_bytes = 0
        self.max_entries = 0

    def begin_run(self) -> None:
        """Begin another run on the same memory: what was learnt stays, what was counted does not."""
        self.calls_before, self.turns_before = self.calls, self.turn
        self.turns_marked = False
        self.ring.clear()
        self.previous = 0
        self.call_ids.clear()
        for state in self.tools.values():
            state.begin_run()

    def state(self, name: str, owner: Hashable, *, changes: bool) -> ToolState:
        """Return the state of a tool, new if this is its first call.

        Two functions may share a name in one run, as when an agent calls another one or a factory
        made them: what one of them returned is no answer of the other.

        Args:
            owner: what tells the functions behind one name apart.
        """
        shown, number = name, 1
        while (state := self.tools.get(shown)) is not None and state.owner != owner:
            number += 1
            shown = f"{name} ({number})"
        if state is None:
            state = self.tools[shown] = ToolState(shown, owner, changes)
        return state

    def find(self, state: ToolState, key: Hashable) -> Entry | None:
        """Return the entry of a key; a first call becomes one."""
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
                entry = state.entries[key] = entry_of(state, key, known)
                known.kept = TAKEN
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

    def changed_by(self, effect: Effect) -> None:
        """Take note of a call that is not on record: it may have changed the world, or seen it move."""
        if effect in CHANGING_EFFECTS or effect == "ask":
            self.open_epoch(hard=effect != "unknown")
        elif effect == "live":
            self.note_drift()

    def note_drift(self) -> None:
        """Say that a live tool gave another answer than before: the world moves by itself.

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

    def keep(self, entry: Entry, stored: Stored | None) -> None:
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

    def trim(self) -> None:
        """Forget the oldest calls of each tool, if there are more than a run may keep.

        A quarter of the limit is freed at once, each tool giving its share. The dicts are cut at
        their front, so that it costs what it frees: `once`, the calls made once, keeps the order
        they were made in; `entries` stands in the order of their second sight.
        """
        kept = sum(len(state.once) + len(state.entries) for state in self.tools.values())
        if kept <= self.max_entries:
            return
        share = 1 - 0.75 * self.max_entries / kept
        for state in self.tools.values():
            for key in list(itertools.islice(state.once, int(len(state.once) * share))):
                if state.once[key].token is not None:
                    self._drop(state, key)
                    del state.once[key]
            for key in list(itertools.islice(state.entries, int(len(state.entries) * share))):
                if state.entries[key].flight is None:
                    self._drop(state, key)
                    del state.entries[key]
            # They only lead to calls; a suspicion that is lost is a call that runs.
            state.results.clear()
            state.aliases.clear()

    def _holders(self) -> Iterator[tuple[int, ToolState, Hashable]]:
        for state in self.tools.values():
            for key, once in state.once.items():
                if once.kept is not MISSING:
                    yield once.number, state, key
            for key, entry in state.entries.items():
                if entry.stored is not None:
                    yield entry.last_call, state, key

    def _drop(self, state: ToolState, key: Hashable) -> None:
        once = state.once.get(key)
        if once is not None:
            if once.kept is not MISSING:
                self.stored_bytes -= size_of(once.kept)
                once.kept = MISSING
            return
        entry = state.entries[key]
        if entry.stored is not None:
            self.stored_bytes -= entry.stored.size
            entry.stored = None

    def newest(self, limit: int) -> list[Entry]:
        """Return the newest distinct calls that have an outcome, in the order they were made."""
        found: dict[int, tuple[ToolState, Hashable, Entry | FirstCall]] = {}
        for state in self.tools.values():
            for key, once in state.once.items():
                if once.token is not None:
                    found[once.number] = (state, key, once)
            for key, entry in state.entries.items():
                if entry.seen:
                    found[entry.number] = (state, key, entry)
        chosen = sorted(heapq.nlargest(limit, found))
        return [
            known if isinstance(known, Entry) else entry_of(state, key, known)
            for state, key, known in (found[number] for number in chosen)
        ]
