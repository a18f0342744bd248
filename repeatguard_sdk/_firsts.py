"""The short way of the common call: a key not seen before, whose result is unlike any other.

It makes one small record where the full way makes an admission and an entry, and gives up as soon as
anything is of interest: the full way then sees the call as if it had come there at once. What is
written out here for speed (the lock, the ring, the search for suspects) is named where it stands
in full. A second equal call is answered here where nothing parts it from the first: the questions
of `Engine.admit` in one place, and then the same replay.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._canonical import comparable
from repeatguard_sdk._copies import LETTER, TEXT_HEAD, store
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._entry import TAKEN, Begun, FirstCall, KnownTool, entry_of
from repeatguard_sdk._identity import Identity, identity_of
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._reporting import Reporter
from repeatguard_sdk._scope import call_ids
from repeatguard_sdk._settling import TRIM_EVERY, suspect
from repeatguard_sdk._types import MISSING
from repeatguard_sdk._withholding import withhold
from repeatguard_sdk.detectors.repeat import Step
from repeatguard_sdk.detectors.same_outcome import TELLING, found_nothing

_call_id: Final = call_ids.get
_REPLAY: Final = Step("replay", 2)


class FirstCalls:
    """Admits and settles first calls of one run, and answers second ones, under its engine's lock.

    Args:
        engine: the run's; it tells which tools may take the short way.
        reporter: knows whether the next call may tell what followed an intervention: that is seen on
            the full way only.
    """

    __slots__ = (
        "_engine",
        "_known",
        "_ladder",
        "_ledger",
        "_limit",
        "_lock",
        "_policy",
        "_replays",
        "_reporter",
    )

    def __init__(self, engine: Engine, reporter: Reporter) -> None:
        self._engine = engine
        self._ledger = engine.ledger
        self._lock = engine.lock
        self._known = engine.known
        self._reporter = reporter
        self._policy = engine.policy
        self._limit = engine.policy.max_result_bytes
        ladder = self._ladder = engine.policy.known_effects
        self._replays = ladder.withhold == 2 and ladder.exit != 2

    def begin(
        self, tool: Tool, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Begun | Admission | Identity | None:
        """Admit a first call, or answer a second one.

        Returns:
            What to settle it with, or a call that has its answer. For one that the full way has to
            look at: its identity, or `None` if that is not known yet, as for a call with an id.
        """
        if _call_id() is not None or self._reporter.following.waits:
            return None
        known = self._known.get(tool)
        if known is None:
            if self._engine.mode_of(tool.spec) == "off":
                return None
            known = self._engine.meet(tool)
        if not known.short:
            return None
        key_of = known.key
        try:
            key = key_of(*args, **kwargs)
            if type(key) is not tuple:
                # Its texts are folded, and its arguments shown, as they are before the call.
                return identity_of(tool, key, args, kwargs)
        except Exception:
            # No identity, arguments that do not fit, a fault: the full way knows what to say.
            return None
        ledger, state = self._ledger, known.state
        entries, aliases = state.entries, state.aliases
        with self._lock:
            # Both are empty in most runs, and to ask that takes less than to hash the key.
            if (entries and key in entries) or (aliases and key in aliases) or self._engine.ended:
                return Identity(key)
            number = ledger.calls + 1
            first = FirstCall(number, ledger.stamp)
            there = state.once.setdefault(key, first)
            if there is not first:
                try:
                    call = self._replay(tool, known, there, args, kwargs, key)
                except Exception:
                    call = None  # As in `settle`; nothing was counted yet.
                return Identity(key) if call is None else call
            ledger.calls = number
            state.executed += 1
            if state.changes:
                ledger.changing_in_flight += 1
        return known, key, first

    def _replay(
        self,
        tool: Tool,
        known: KnownTool,
        first: FirstCall,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        key: Hashable,
    ) -> Admission | None:
        """Answer a second call from the first one's result; `None` where the full way has to look.

        Which is where the ladder holds another step than a replay, the result is not there, or
        anything lies between the two that may part them, or join them in one turn.
        """
        if not self._replays or first.kept is MISSING:
            return None
        ledger, effect = self._ledger, known.effect
        epoch, turn, generation, drift = first.stamp
        if epoch != ledger.epoch or generation != ledger.generation or effect == "unknown":
            return None
        if (ledger.turns_marked and turn == ledger.turn) or (
            drift != ledger.drift and effect == "read"
        ):
            return None
        number, state = ledger.calls + 1, known.state
        call = Admission(tool, state, number, ledger.turn, epoch, "enforce")
        call.args, call.kwargs, call.key, call.drift = args, kwargs, key, ledger.drift
        del state.once[key]
        call.entry = state.entries[key] = entry = entry_of(state, key, first)
        call.count = 2
        withhold(ledger, self._policy, call, entry, _REPLAY, self._ladder)
        ledger.calls = number
        if call.decision == "exit":
            # A cycle, of which this call completes a lap.
            self._engine.end(call)
        return call

    def settle(self, begun: Begun, tool: Tool, result: Any) -> bool:
        """Record the result of a first call; false where the full way has to look."""
        known: KnownTool = begun[0]
        first: FirstCall = begun[2]
        key = begun[1]
        try:
            token: Hashable
            kept: Any
            if type(result) is str and len(result) <= known.longest:
                token = kept = result
                size = TEXT_HEAD + LETTER * len(result)
                may_be_nothing = result[:1] not in TELLING or not known.usual
                if may_be_nothing and found_nothing(result, tool.spec):
                    return False
            else:
                spec = tool.spec
                token = comparable(result, spec.volatile)
                kept, size = self._keep(result)
                if token is None or found_nothing(result, spec):
                    return False
            ledger, state = self._ledger, known.state
            with self._lock:
                if first.kept is TAKEN or state.failures or state.empties:
                    return False
                if state.changes:
                    ledger.changing_in_flight -= 1
                    # A success of a write, or a new answer of an unknown tool.
                    ledger.open_epoch(hard=known.effect == "write")
                    first.stamp = (ledger.epoch, *first.stamp[1:])
                elif first.stamp[0] == ledger.epoch:
                    # As `suspect` does where no call of this epoch had this result.
                    is_new = (
                        state.results_epoch == ledger.epoch
                        and state.results.setdefault(token, key) is key
                    )
                    if not is_new and suspect(ledger, state, tool.keys, key, token):
                        return False
                first.token, first.kept = token, kept
                state.has_spoken = ledger.progressed = True
                number = first.number
                state.found_call = state.found_entry = ledger.previous = number
                ledger.ring.append_new(number, token, state.name)
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
