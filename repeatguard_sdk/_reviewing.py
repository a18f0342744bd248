"""Drafts that ask the user for what the run already knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._call import Finding
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._entry import ToolState
from repeatguard_sdk._identity import fact_name
from repeatguard_sdk._toolset import NO_TOOL
from repeatguard_sdk.exceptions import RunStateError

if TYPE_CHECKING:
    from repeatguard_sdk._slot import Slot


def note_slots(known: dict[str, Slot], slots: Iterable[Slot]) -> None:
    """Add what a host told of other names of facts, by the fact's name."""
    # Imported here, as in `review`.
    from repeatguard_sdk._slot import Slot

    for slot in slots:
        if not isinstance(slot, Slot):
            msg = (
                f"run.know({slot!r}): write know(name=value) for a fact, "
                f"or Slot({slot!r}, [...]) for other names of one"
            )
            raise RunStateError(msg)
        known[fact_name(slot.name)] = slot


def review(engine: Engine, draft: str, slots: Mapping[str, Slot]) -> Admission | None:
    """Look for a question that the run could answer itself.

    Args:
        draft: what the agent is about to say to the user.
        slots: by the name of their fact; a fact without one has the names that follow from it.

    Returns:
        What was found, as a call of no tool; `None` if the draft asks for nothing that is known.
    """
    # Imported here: their patterns take longer to load than the rest, and few hosts review drafts.
    from repeatguard_sdk._slot import Slot
    from repeatguard_sdk.detectors.asked_again import find_asked

    mode = engine.mode_of(NO_TOOL.spec)
    if mode == "off":
        return None
    ledger = engine.ledger
    with engine.lock:
        known: dict[str, Any] = dict(ledger.known)
    declared = [slots.get(fact) or Slot(fact) for fact in known]
    asked = find_asked(draft, declared, known)
    if asked is None:
        return None
    fact = fact_name(asked.slot)
    call = Admission(NO_TOOL, ToolState(""), ledger.calls, ledger.turn, ledger.epoch, mode)
    call.fact = fact
    call.began = (ledger.calls, ledger.turn)
    call.finding = Finding(kind="asked_again", count=1, cause=f"{fact} is known")
    return call
