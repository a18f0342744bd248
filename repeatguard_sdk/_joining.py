"""Which calls share one outcome: those in flight at once, those of one turn, a call id delivered twice."""

from __future__ import annotations

from typing import Literal

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._ledger import Entry, Ledger

_MAX_CALL_IDS = 10_000


def share(call: Admission, ledger: Ledger) -> Literal["share", "again", "twin", "no"]:
    """Find an outcome for a call to share.

    Returns:
        "share": the call waits or has its answer. "again": it runs and counts for nothing, the
        retry of a call id that failed. "twin": the same, in a mode that withholds nothing.
        "no": it stands for itself.
    """
    entry = call.entry
    if entry is None:
        return "no"
    if call.call_id is not None:
        known = ledger.call_ids.get(call.call_id)
        if known is not None and known[0] is entry:
            return _redeliver(call, entry, succeeded=known[1])
    if not call.tool.spec.withheld:
        return "no"
    running = entry.flight is not None and entry.flight.epoch == ledger.epoch
    if not running and not _is_of_this_turn(entry, ledger):
        return "no"
    if call.mode != "enforce":
        return "twin"
    if running:
        _wait(call, entry)
        return "share"
    return "share" if answer_from(call, entry) else "no"


def _redeliver(
    call: Admission, entry: Entry, *, succeeded: bool
) -> Literal["share", "again", "no"]:
    if entry.flight is not None and call.tool.spec.withheld and call.mode == "enforce":
        _wait(call, entry)
        return "share"
    if not succeeded or call.mode != "enforce":
        return "again"
    # A write whose receipt was not kept must not be done again: the ladder refuses it.
    return "share" if answer_from(call, entry) else "no"


def _is_of_this_turn(entry: Entry, ledger: Ledger) -> bool:
    return (
        ledger.turns_marked
        and entry.seen
        and entry.turn == ledger.turn
        and entry.epoch == ledger.epoch
    )


def _wait(call: Admission, entry: Entry) -> None:
    assert entry.flight is not None
    call.waiter = entry.flight.join()


def answer_from(call: Admission, entry: Entry) -> bool:
    """Take the answer of a call from the ledger, if the ledger has one."""
    if entry.failed:
        call.error = entry.error
        return call.error is not None
    if entry.stored is None:
        return False
    call.value = entry.stored.deliver()
    return True


def remember_id(ledger: Ledger, call: Admission, *, ok: bool) -> None:
    """Remember what a call id came to; the oldest are forgotten past a limit."""
    if call.call_id is None or call.entry is None:
        return
    ledger.call_ids[call.call_id] = (call.entry, ok)
    if len(ledger.call_ids) > _MAX_CALL_IDS:
        ledger.call_ids.popitem(last=False)
