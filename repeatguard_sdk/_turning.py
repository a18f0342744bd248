"""The next turn, and what its state tells: nothing has changed for so many turns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._call import Finding
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._entry import ToolState
from repeatguard_sdk._ladder import Ladder
from repeatguard_sdk._toolset import NO_TOOL
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.detectors import no_progress

# An unmoved state is evidence and no proof: three turns are worth a word, six an end, and an end
# only where the host says what its state is.
_WITH_STATE = Ladder(note=3, withhold=None, exit=6)


def open_turn(engine: Engine, state: Any, ignore: Iterable[str]) -> Admission | None:
    """Open the next turn.

    Returns:
        What was found about the state, as a call of no tool; `None` if nothing.
    """
    given = state is not MISSING
    token = no_progress.identity_of(state, ignore) if given else None
    ledger, watch, ladder = engine.ledger, engine.watch, engine.policy.no_progress
    with engine.lock:
        ledger.open_turn()
        if given:
            ladder = ladder or _WITH_STATE
            count = no_progress.next_state(watch, token, ledger.turn, ledger.calls)
        elif ladder is not None:
            count = no_progress.next_turn(
                watch, ledger.turn, ledger.calls, progressed=ledger.progressed
            )
            ledger.progressed = False
        else:
            return None
        return _judge(engine, ladder, count, "state" if given else "answers")


def _judge(engine: Engine, ladder: Ladder, count: int, what: str) -> Admission | None:
    ledger = engine.ledger
    mode = engine.mode_of(NO_TOOL.spec)
    if mode == "off" or engine.ended is not None:
        return None
    ends = ladder.exit is not None and count >= ladder.exit
    if not ends and count != ladder.note:
        return None
    call = Admission(NO_TOOL, ToolState(""), ledger.calls, ledger.turn, ledger.epoch, mode)
    call.count = count
    call.finding = Finding(kind="no_progress", count=count, cause=f"{what} unchanged")
    call.began = (engine.watch.call, engine.watch.turn)
    if ends:
        call.would = "exit"
        if mode == "enforce":
            call.decision = "exit"
            engine.end(call)
    return call


def clocks_in(engine: Engine, state: Any, ignore: Iterable[str]) -> tuple[str, ...]:
    """Return the fields of a state that are clocks or random ids, if nothing else changed."""
    try:
        leaves = no_progress.leaves_of(state, ignore)
        before, engine.watch.leaves = engine.watch.leaves, leaves
        return no_progress.volatile_change(before, leaves)
    except Exception:
        # A state whose own methods raise is not searched.
        return ()
