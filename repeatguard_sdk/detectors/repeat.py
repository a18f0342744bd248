"""The ladder of equal calls: which step a call stands on before it runs."""

from __future__ import annotations

from typing import NamedTuple

from repeatguard_sdk._entry import Entry
from repeatguard_sdk._ladder import Ladder
from repeatguard_sdk._ledger import Ledger
from repeatguard_sdk._spec import ToolSpec
from repeatguard_sdk._types import Decision, KeyKind, is_tuple


class Step(NamedTuple):
    """Where a call stands.

    Attributes:
        decision: what the ladder says, leaving budgets and modes aside.
        position: the count this call makes if it proves equal; 1 starts afresh.
    """

    decision: Decision
    position: int


FIRST = Step("execute", 1)


def is_current(entry: Entry, spec: ToolSpec, ledger: Ledger, *, whole_run: bool) -> bool:
    """Tell whether nothing has changed since the entry's newest outcome.

    Bookkeeping looks at what lies between instead: only an equal call right after counts.
    A filled slot stays filled whatever happens in the world.
    """
    if not entry.seen:
        return False
    if spec.effect == "bookkeeping" and ledger.previous != entry.number:
        return False
    return whole_run or entry.epoch == ledger.epoch or is_filled(entry, ledger)


def is_filled(entry: Entry, ledger: Ledger) -> bool:
    """Tell whether a question's slot is filled: then it is that question in any epoch."""
    key = entry.key
    return is_tuple(key) and key[:1] == (KeyKind.SLOT,) and key[1] in ledger.known


def has_drifted(entry: Entry, spec: ToolSpec, ledger: Ledger) -> bool:
    """Tell whether a live tool has changed its answer since the entry's newest outcome.

    The world moves then, and the stored outcome may be stale: the call runs, and an equal
    result counts on. A write stays done, and what the user said stays said.
    """
    if entry.drift == ledger.drift or not spec.withheld:
        return False
    return spec.effect in ("read", "unknown") or (
        entry.failed and spec.effect in ("write", "final")
    )


def is_carried(entry: Entry, spec: ToolSpec, ledger: Ledger) -> bool:
    """Tell whether a noted key keeps its count although its epoch has passed.

    So it is while only tools of unknown effect lie between: they may have changed
    anything, so the call must run, but a loop through a shell must not escape.
    """
    if not entry.noted or entry.epoch < ledger.hard_epoch or spec.effect == "bookkeeping":
        return False
    # A write that succeeds is itself the declared change.
    return entry.failed or spec.effect not in ("write", "final")


def before(
    entry: Entry, spec: ToolSpec, ladder: Ladder | None, ledger: Ledger, *, whole_run: bool
) -> Step:
    """Say what the ladder does with one more call of a known key.

    Args:
        entry: what is known of the key.
        spec: the tool's declaration.
        ladder: the ladder that holds for it now, `None` for a tool that is only counted.
        ledger: the run's memory, read only.
        whole_run: whether epochs count for nothing (the strict policy).
    """
    if is_current(entry, spec, ledger, whole_run=whole_run):
        count = entry.count + 1
        if ladder is None:
            return Step("execute", count)
        if not whole_run and has_drifted(entry, spec, ledger):
            # Told to a model that has lost it, an equal answer costs nothing.
            lost = entry.generation < ledger.generation
            return Step("execute", entry.count if lost else count)
        if ladder.exit is not None and count >= ladder.exit:
            return Step("exit", count)
        if ladder.withhold is not None and count >= ladder.withhold:
            return Step("refuse" if entry.failed else "replay", count)
        return Step("execute", count)
    if entry.seen and is_carried(entry, spec, ledger):
        return Step("execute", entry.count + 1)
    return FIRST
