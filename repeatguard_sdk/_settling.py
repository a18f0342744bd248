"""What an outcome changes in the ledger: counts, epochs, rows, the ring, and what is found in them."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Final

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._call import Finding, repeated
from repeatguard_sdk._canonical import comparable, comparable_error, is_flat, text_token
from repeatguard_sdk._copies import Stored, clone_error, store
from repeatguard_sdk._entry import Entry, ToolState
from repeatguard_sdk._identity import FOLDED_EFFECTS
from repeatguard_sdk._key import CompiledKey
from repeatguard_sdk._ledger import Ledger
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._spec import ToolSpec
from repeatguard_sdk._types import CHANGING_EFFECTS, is_tuple
from repeatguard_sdk.detectors import cycle as cycles
from repeatguard_sdk.detectors import repeat, same_outcome
from repeatguard_sdk.exceptions import RecalledFailure, RepeatedFailure

# Stands for the type of an error in its identity where the type is not known.
_RECALLED = "recalled"
_NO_TEXT = text_token("")
# A write that returns nothing has done its work, and a poll that finds nothing will find something.
_FINDING_EFFECTS = frozenset({"read", "ask", "unknown"})


_DIGITS = re.compile(r"\d+")
# How often a run looks whether it remembers too many calls.
TRIM_EVERY: Final = 1_024


class Settled:
    """What one execution came to; `reached` is false for a call that never got to its tool."""

    __slots__ = ("blank", "empty", "error", "failed", "reached", "stored", "token", "transient")

    def __init__(
        self,
        *,
        token: Hashable,
        failed: bool,
        stored: Stored | None = None,
        error: BaseException | None = None,
        empty: bool = False,
        blank: bool = False,
        transient: bool = False,
        reached: bool = True,
    ) -> None:
        self.token = token
        self.failed = failed
        self.stored = stored
        self.error = error
        self.empty = empty
        self.blank = blank
        self.transient = transient
        self.reached = reached


def success(result: Any, spec: ToolSpec, limit: int) -> Settled:
    """Return what a result comes to.

    Args:
        limit: bytes a result may have to be kept; -1 to keep none.
    """
    return Settled(
        token=comparable(result, spec.volatile),
        failed=False,
        stored=None if limit < 0 else store(result, limit),
        empty=same_outcome.found_nothing(result, spec),
        blank=same_outcome.is_blank(result),
    )


def failure(error: Exception, spec: ToolSpec) -> Settled:
    """Return what an error comes to."""
    twin = clone_error(error)
    if twin is None:
        twin = RepeatedFailure(f"{type(error).__name__}: {_text_of(error)}")
    transient = isinstance(error, spec.transient)
    token = comparable_error(error)
    if isinstance(error, RecalledFailure):
        token = (_RECALLED, _text_token(token))
    if transient:
        # The numbers of a transient error are attempts, delays and ports: noise.
        token = (type(error).__qualname__, _DIGITS.sub("#", _text_of(error)))
    return Settled(token=token, failed=True, error=twin, transient=transient)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be had)"


def record(ledger: Ledger, policy: Policy, call: Admission, outcome: Settled) -> None:
    """Record an outcome; the call's count, finding and, where the ladder ends, decision are set."""
    entry = call.entry
    assert entry is not None
    entry.total += 1
    ledger.previous = entry.number
    if entry.seen and call.epoch < entry.epoch and not policy.whole_run:
        # A newer outcome of this key is on record: this one came home late.
        effect = call.tool.spec.effect
        if effect in CHANGING_EFFECTS and not (outcome.failed and effect != "unknown"):
            # What it changed, it may have changed only now.
            ledger.changed_by(effect)
            entry.epoch = ledger.epoch
        return
    if outcome.transient and entry.retries < policy.transient_retries:
        entry.retries += 1
        call.counts = False
        if not policy.whole_run and call.tool.spec.effect in CHANGING_EFFECTS:
            # A time-out says nothing of what was done before it.
            ledger.changed_by(call.tool.spec.effect)
        return
    if call.tool.spec.effect in ("write", "final") and not outcome.failed:
        # A user spoke while it ran: what was asked for before is forgotten, what was done is not.
        call.state.entries.setdefault(call.key, entry)
    entry, equal = _compare(ledger, policy, call, entry, outcome)
    was_seen = entry.seen
    changed = not equal and not _same_answer(entry, outcome)
    if changed and outcome.reached:
        ledger.progressed = True
    if not equal:
        _start_afresh(call, entry)
    if not outcome.failed:
        entry.retries = 0
    entry.count = call.count
    _move_epoch(ledger, policy, call, entry, outcome, changed=changed)
    if call.key in call.state.aliases:
        # An answer opens an epoch of its own: the verdict is about what holds from here on.
        call.state.aliases[call.key] = (entry, ledger.epoch)
    entry.seen, entry.failed = True, outcome.failed
    entry.token, entry.error = outcome.token, outcome.error
    entry.transient = outcome.transient
    if not (outcome.failed or outcome.empty):
        call.state.found_call, call.state.found_entry = call.number, entry.number
    entry.drift = call.drift
    if changed and was_seen and outcome.reached and call.tool.spec.effect == "live":
        ledger.note_drift()
    entry.turn, entry.turn_epoch, entry.last_call = call.turn, entry.epoch, call.number
    entry.generation = ledger.generation
    if not equal or entry.stored is None:
        ledger.keep(entry, outcome.stored)
    _look(ledger, policy, call, entry, outcome, equal=equal)
    if not call.number % TRIM_EVERY:
        ledger.trim()


def _same_answer(entry: Entry, outcome: Settled) -> bool:
    if not entry.seen or entry.failed != outcome.failed or outcome.token is None:
        return False
    if outcome.failed and _RECALLED in (_kind(entry.token), _kind(outcome.token)):
        # A history tells the text of an error and not its type, or not even that.
        texts = {_text_token(entry.token), _text_token(outcome.token)}
        return len(texts) == 1 or _NO_TEXT in texts
    return entry.token == outcome.token


def _kind(token: Hashable) -> Hashable:
    return token[0] if is_tuple(token) and token else None


def _text_token(token: Hashable) -> Hashable:
    return token[1] if is_tuple(token) and len(token) > 1 else token


def _compare(
    ledger: Ledger, policy: Policy, call: Admission, entry: Entry, outcome: Settled
) -> tuple[Entry, bool]:
    """Tell whether the outcome makes the call a repeat, and of which entry."""
    spec = call.tool.spec
    if call.count > 1 and entry.failed == outcome.failed:
        if not outcome.failed and (call.fact or spec.effect in ("write", "final")):
            # Doing it twice is the repeat; a fresh id in the receipt does not undo it.
            return entry, True
        equal = _same_answer(entry, outcome)
        call.differed = not equal
        return entry, equal
    if outcome.failed or spec.effect not in FOLDED_EFFECTS or spec.slot is not None:
        return entry, False
    first = _convict(ledger, policy, call, entry, outcome)
    # A call that stood for itself before is no suspect, but others may be suspected of it.
    if first is None or entry.seen:
        return entry, False
    call.entry = first
    call.state.entries.pop(call.key, None)
    call.state.aliases[call.key] = (first, ledger.epoch)
    if not (ledger.turns_marked and first.turn == ledger.turn):
        first.count += 1
    else:
        call.counts = False
    call.count = first.count
    return first, True


def _convict(
    ledger: Ledger, policy: Policy, call: Admission, entry: Entry, outcome: Settled
) -> Entry | None:
    """Return the call this suspect repeats: same fold, nothing changed since, equal result."""
    if outcome.token is None or call.epoch != ledger.epoch:
        return None
    key = suspect(ledger, call.state, call.tool.keys, call.key, outcome.token, call.fold)
    peer = None if key is None else ledger.find(call.state, key)
    if peer is None or peer is entry or not _same_answer(peer, outcome):
        return None
    if repeat.is_current(peer, call.tool.spec, ledger, whole_run=policy.whole_run):
        return peer
    # Questions outlive their epoch in this search: the newer one is the one to find from here on.
    peers = call.state.results[outcome.token]
    for fold in [fold for fold, known in peers.items() if known == key]:
        peers[fold] = call.key
    return None


def suspect(
    ledger: Ledger,
    state: ToolState,
    keys: CompiledKey,
    key: Hashable,
    token: Hashable,
    fold: Hashable = None,
) -> Hashable | None:
    """Return the key of an earlier call of this epoch with the same result and the same fold.

    If there is none, the call is remembered. The search goes by the result, for only an equal
    result convicts: a tool whose results all differ never has its folds computed.

    Args:
        fold: of a key that is not flat, made before the tool could change its arguments.
    """
    results = state.results
    if state.results_epoch != ledger.epoch:
        results.clear()
        state.results_epoch = ledger.epoch
    peers: Any = results.get(token)
    if peers is None and is_flat(key):
        # The common case pays for no fold: a flat key still has its texts when it is asked for.
        results[token] = key
        return None
    if peers is None:
        peers = results[token] = {}
    elif peers.__class__ is not dict:
        peers = results[token] = {keys.refold(peers): peers}
    mine = keys.refold(key) if is_flat(key) else key if fold is None else fold
    other: Hashable | None = peers.setdefault(mine, key)
    return None if other == key else other


def _start_afresh(call: Admission, entry: Entry) -> None:
    call.count = 1
    entry.first_call, entry.first_turn = call.number, call.turn
    entry.noted = False


def _move_epoch(
    ledger: Ledger,
    policy: Policy,
    call: Admission,
    entry: Entry,
    outcome: Settled,
    *,
    changed: bool,
) -> None:
    """Open an epoch if this outcome may have changed the world, and stamp the entry.

    A write that failed did nothing. An unknown tool that failed in a new way may have done half.
    """
    effect = call.tool.spec.effect
    opens = hard = False
    if policy.whole_run or not outcome.reached:
        pass
    elif outcome.transient and effect in CHANGING_EFFECTS:
        # A time-out says nothing of what was done before it.
        opens, hard = True, effect != "unknown"
    elif effect == "unknown":
        # What is meant to act again has acted, whatever it says.
        opens = changed or (call.tool.spec.repeatable and not outcome.failed)
    elif not outcome.failed:
        answered = effect == "ask" and not outcome.empty
        opens = hard = effect in ("write", "final") or answered
    if opens:
        ledger.open_epoch(hard=hard)
        if effect == "ask":
            # What the user said does not part this question from another spelling of it.
            call.state.results_epoch = ledger.epoch
    if opens or call.epoch == ledger.epoch:
        entry.epoch = ledger.epoch
    else:
        # The world changed while it ran: its outcome belongs to the epoch it began in.
        entry.epoch = call.epoch


def _look(
    ledger: Ledger,
    policy: Policy,
    call: Admission,
    entry: Entry,
    outcome: Settled,
    *,
    equal: bool,
) -> None:
    """Ask the detectors, and keep the gravest finding."""
    spec = call.tool.spec
    if equal and call.counts:
        _look_at_count(policy, call, entry, outcome)
    ledger.previous = entry.number
    if spec.effect == "bookkeeping" or spec.repeatable:
        return
    row = _add_to_row(ledger, policy, call, outcome)
    if call.counts and spec.effect != "live" and not outcome.transient:
        add_pair(ledger, policy, call, entry, pair_token(outcome.token, failed=outcome.failed))
    if call.finding is None and row is not None:
        call.finding = Finding(kind="same_outcome", count=row.length, cause=row.what)


def _look_at_count(policy: Policy, call: Admission, entry: Entry, outcome: Settled) -> None:
    spec = call.tool.spec
    ladder = policy.ladder(spec.effect, repeatable=spec.repeatable, failed=outcome.failed)
    if ladder is None:
        return
    if ladder.exit is not None and call.count >= ladder.exit:
        if call.mode == "enforce":
            call.decision = "exit"
        call.would = "exit"
        if call.mode != "enforce" and call.count > ladder.exit:
            return
        if not call.fact:
            call.finding = repeated(call.count, outcome.failed)
    elif ladder.note is not None and call.count >= ladder.note:
        entry.noted = True
        if not call.fact:
            call.finding = repeated(call.count, outcome.failed)


def pair_token(token: Hashable, *, failed: bool) -> Hashable:
    """Return the identity of an outcome in the ring, where an error equals no result."""
    return ("failed", token) if failed else token


def add_pair(
    ledger: Ledger, policy: Policy, call: Admission, entry: Entry, token: Hashable
) -> None:
    """Add the call to the ring and look whether a cycle has completed a lap."""
    ledger.ring.append(entry.number, token, entry.tool)
    ladder = policy.cycle
    found = None if ladder is None or ledger.ring.quiet else cycles.completed(ledger.ring)
    if found is None or ladder is None:
        return
    finding = Finding(
        kind="cycle", count=found.laps, cause=f"cycle of {found.period}", tools=found.tools
    )
    if ladder.exit is not None and found.laps >= ladder.exit:
        call.would = "exit"
        if call.mode == "enforce":
            call.decision = "exit"
        call.finding = finding
    elif ladder.note is not None and found.laps == ladder.note:
        call.finding = finding


def _add_to_row(
    ledger: Ledger, policy: Policy, call: Admission, outcome: Settled
) -> same_outcome.Row | None:
    state, spec = call.state, call.tool.spec
    # Without turn marks each call is a turn of its own, below all that are marked later.
    turn = call.turn if ledger.turns_marked else -1 - call.number
    if outcome.failed:
        if outcome.transient:
            return None
        same_outcome.add_failure(state, turn, outcome.token, reached=outcome.reached)
    else:
        empty = outcome.empty and spec.effect in _FINDING_EFFECTS
        same_outcome.add_success(state, turn, empty=empty, blank=outcome.blank)
    return same_outcome.noteworthy(
        state, errors=policy.same_errors, empties=policy.same_empties, failures=policy.failures
    )
