"""Which calls share one outcome: those in flight at once, those of one turn, a redelivered id."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Literal

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._copies import Stored
from repeatguard_sdk._entry import Delivered, Entry
from repeatguard_sdk._flight import Flight, Landing
from repeatguard_sdk._ledger import Ledger
from repeatguard_sdk._text import first_line
from repeatguard_sdk._types import CHANGING_EFFECTS

_MAX_CALL_IDS = 10_000
# A framework that retries a failed call does so two or three times, under the same id. Whatever
# comes after that is a loop of its own, and climbs.
_MAX_RETRIES = 10


def share(call: Admission, ledger: Ledger) -> Literal["share", "again", "twin", "no"]:
    """Find an outcome for a call to share.

    Returns:
        "share": the call waits or has its answer. "again": it runs and counts for nothing, the
        retry of a call id that failed. "twin": the same, in a mode that withholds nothing.
        "no": it stands for itself.
    """
    if call.joined is not None and _inherit(call, call.joined.last()):
        return "share"
    # A blank id is none: some providers send one with every call.
    if call.call_id:
        known = ledger.call_ids.get(call.call_id)
        if known is not None and _is_same(call, known, ledger):
            return _redeliver(call, known)
    entry = call.entry
    if entry is None:
        return "no"
    if not call.tool.spec.withheld:
        return "no"
    running = _running(entry)
    if running is not None and not _may_join(call, running, ledger):
        running = None
    if running is None and not is_of_this_turn(entry, ledger):
        return "no"
    if call.mode != "enforce":
        return "twin"
    if running is not None:
        _wait(call, running)
        return "share"
    return "share" if answer_from(call, entry) or _tell(call, entry.last_call) else "again"


def _is_same(call: Admission, known: Delivered, ledger: Ledger) -> bool:
    """Tell whether an id comes with the call it came with before, and not for ever.

    Some providers give each turn's calls the same ids: a poll or a next page in another turn is
    another one.
    """
    if (known.tool, known.key) != (call.state.name, call.key) or known.failures >= _MAX_RETRIES:
        return False
    return call.tool.spec.withheld or not ledger.turns_marked or known.turn == ledger.turn


def _redeliver(call: Admission, known: Delivered) -> Literal["share", "again"]:
    entry, spec = call.entry, call.tool.spec
    running = None if entry is None else _running(entry)
    if running is not None and spec.withheld and call.mode == "enforce":
        _wait(call, running)
        return "share"
    if known.failures or call.mode != "enforce":
        return "again"
    if known.error is not None:
        call.error = known.error
    elif known.stored is not None:
        call.value = known.stored.deliver()
    else:
        return "share" if _tell(call, known.call) else "again"
    return "share"


def _tell(call: Admission, number: int) -> bool:
    """Answer with a sentence what must not be done again for want of its receipt."""
    spec = call.tool.spec
    if spec.effect not in CHANGING_EFFECTS and not spec.repeatable:
        return False
    call.told = True
    call.value = (
        f"{first_line(spec.name, 64)} was already run for this, at call {number}. "
        "Its result was not kept, and it was not done a second time."
    )
    return True


def is_of_this_turn(entry: Entry, ledger: Ledger) -> bool:
    """Tell whether an equal call was made in this turn, with nothing changed since."""
    return (
        ledger.turns_marked
        and entry.seen
        and ledger.turn in (entry.turn, entry.told_turn)
        and entry.turn_epoch == ledger.epoch
    )


def _may_join(call: Admission, flight: Flight, ledger: Ledger) -> bool:
    """Tell whether an execution that is running will have an outcome for this call too.

    A look-up that began before a change may come home with what was true before it, and a write
    that is asked for again after another one is meant to be done again.
    """
    if flight.epoch != ledger.epoch:
        return False
    return flight.drift == ledger.drift or call.tool.spec.effect in ("write", "final", "ask")


def _running(entry: Entry) -> Flight | None:
    flight = entry.flight
    return None if flight is None or flight.landing is not None else flight


def _wait(call: Admission, flight: Flight) -> None:
    call.joined, call.waiter = flight, flight.join()


def _inherit(call: Admission, newest: Flight) -> bool:
    """Let a waiter of an abandoned flight share what another one began, or has done, since."""
    if newest.landing is not None and newest.landing.how == "abandoned":
        return False
    _wait(call, newest)
    return True


def take_off(call: Admission, entry: Entry, ledger: Ledger) -> None:
    """Begin the flight of a call that runs; it is the heir of those before it."""
    flight = Flight(ledger.epoch, ledger.drift)
    for before in (entry.flight, call.joined):
        last = flight if before is None else before.last()
        if last is not flight:
            last.heir = flight
    call.flight = entry.flight = flight


def depart(ledger: Ledger, call: Admission, landing: Landing) -> list[Future[Landing]]:
    """End the execution of a call, once, and return those who wait for it."""
    if call.landed:
        return []
    call.landed = True
    if call.tool.spec.effect in CHANGING_EFFECTS:
        ledger.changing_in_flight -= 1
    flight, entry = call.flight, call.entry
    if flight is None:
        return []
    # An abandoned one stays, for the next to be its heir.
    if entry is not None and entry.flight is flight and landing.how != "abandoned":
        entry.flight = None
    return flight.end(landing)


def answer_from(call: Admission, entry: Entry) -> bool:
    """Take the answer of a call from the ledger, if the ledger has one."""
    if entry.failed:
        call.error = entry.error
        return call.error is not None
    if entry.stored is None:
        return False
    call.value = entry.stored.deliver()
    return True


def remember_id(
    ledger: Ledger,
    call: Admission,
    *,
    stored: Stored | None = None,
    error: BaseException | None = None,
    failed: bool = False,
) -> None:
    """Remember what a call id came to; the oldest are forgotten past a limit.

    Args:
        stored, error: what the call was answered with.
        failed: whether it ran and failed: then the same id may try again.
    """
    if not call.call_id:
        return
    before = ledger.call_ids.get(call.call_id)
    same = before is not None and (before.tool, before.key) == (call.state.name, call.key)
    if before is not None and same and before.failures >= _MAX_RETRIES:
        return
    failures = 0
    if failed:
        failures = 1 + (before.failures if before is not None and same else 0)
    ledger.call_ids[call.call_id] = Delivered(
        call.state.name, call.key, call.turn, failures, stored, error, call.number
    )
    if len(ledger.call_ids) > _MAX_CALL_IDS:
        ledger.call_ids.popitem(last=False)
