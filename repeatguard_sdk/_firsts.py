"""The short way of the common call: a key not seen before, whose result is unlike any other.

It allocates two tuples where the full way makes an admission and an entry, and gives up as soon as
anything is of interest: the full way then sees the call as if it had come there at once. What is
written out here for speed (the lock, the ring, the search for suspects) is named where it stands
in full.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from repeatguard_sdk._canonical import TEXT_LIMIT, comparable
from repeatguard_sdk._copies import store
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._entry import First
from repeatguard_sdk._identity import Identity, identity_of
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._scope import call_ids
from repeatguard_sdk._settling import TRIM_EVERY, suspect
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.detectors.same_outcome import TELLING, found_nothing


class FirstCalls:
    """Admits and settles first calls of one run on its engine's ledger, under its lock.

    Args:
        engine: the run's; it tells which tools may take the short way.
    """

    __slots__ = ("_engine", "_ledger", "_limit", "_lock", "_plain")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ledger = engine.ledger
        self._lock = engine.lock
        self._plain = engine.plain
        self._limit = engine.policy.max_result_bytes

    def begin(
        self, tool: Tool, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> First | Identity | None:
        """Admit a first call.

        Returns:
            What to settle it with. For a call that the full way has to look at: its identity, or
            `None` if that is not known yet, as for a call with an id.
        """
        state = self._plain.get(tool)
        if state is None or call_ids.get() is not None:
            return None
        try:
            key = tool.keys.key(*args, **kwargs)
            if type(key) is not tuple:
                # Its texts are folded, and its arguments shown, as they are before the call.
                return identity_of(tool, key, args, kwargs)
        except Exception:
            # No identity, arguments that do not fit, a fault: the full way knows what to say.
            return None
        ledger, entries, aliases = self._ledger, state.entries, state.aliases
        with self._lock:
            # Both are empty in most runs, and to ask that takes less than to hash the key.
            if (entries and key in entries) or (aliases and key in aliases) or self._engine.ended:
                return Identity(key)
            number = ledger.calls + 1
            first: First = (state, key, number, ledger.stamp)
            known: object = state.once.setdefault(key, first)
            if known is not first:
                return Identity(key)
            ledger.calls = number
            state.executed += 1
            if state.changes:
                ledger.changing_in_flight += 1
        return first

    def settle(self, first: First, tool: Tool, result: Any) -> bool:
        """Record the result of a first call; false where the full way has to look."""
        try:
            spec = tool.spec
            token: Hashable
            if type(result) is str and len(result) <= TEXT_LIMIT and not spec.volatile:
                token = kept = result
                # What `getsizeof` says of a text.
                size = result.__sizeof__()
                may_be_nothing = result[:1] not in TELLING or spec.empty is not MISSING
                if may_be_nothing and found_nothing(result, spec):
                    return False
            else:
                token = comparable(result, spec.volatile)
                kept, size = self._keep(result)
                if token is None or found_nothing(result, spec):
                    return False
            state, key, number, stamp = first
            ledger, once = self._ledger, state.once
            with self._lock:
                if once.get(key) is not first or state.failures or state.empties:
                    return False
                if state.changes:
                    ledger.changing_in_flight -= 1
                    # A success of a write, or a new answer of an unknown tool.
                    ledger.open_epoch(hard=spec.effect == "write")
                    stamp = (ledger.epoch, *stamp[1:])
                elif stamp[0] == ledger.epoch:
                    # As `suspect` does where no call of this epoch had this result.
                    is_new = (
                        state.results_epoch == ledger.epoch
                        and state.results.setdefault(token, key) is key
                    )
                    if not is_new and suspect(ledger, state, tool.keys, key, token):
                        return False
                once[key] = (
                    (number, stamp, token) if kept is token else (number, stamp, token, kept)
                )
                state.has_spoken = ledger.progressed = True
                state.found_call = state.found_entry = ledger.previous = number
                ring = ledger.ring
                if ring.quiet:
                    ring.pairs.append((number, token, state.name))
                else:
                    ring.append_new(number, token, state.name)
                ledger.stored_bytes += size
                if ledger.stored_bytes > ledger.max_stored_bytes:
                    ledger.shrink()
                if not number % TRIM_EVERY:
                    ledger.trim()
        except Exception:
            # A fault on this way is met again on the full one, which reports it.
            return False
        return True

    def _keep(self, result: Any) -> tuple[Any, int]:
        """Return what is kept of a result that is no short text, and its bytes."""
        stored = store(result, self._limit)
        return (MISSING, 0) if stored is None else (stored, stored.size)
