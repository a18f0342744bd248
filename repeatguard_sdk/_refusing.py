"""Calls that never reached a tool: unknown names, bad arguments, what a person or a rule denied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._joining import is_of_this_turn, remember_id
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._settling import Settled, record
from repeatguard_sdk._toolset import NO_TOOL, undeclared
from repeatguard_sdk._types import KeyKind
from repeatguard_sdk.detectors import repeat
from repeatguard_sdk.exceptions import RepeatedFailure


def count_refused(
    engine: Engine,
    tool: Tool | None,
    name: str,
    arguments: Mapping[str, Any],
    reason: str,
    *,
    denied: bool,
    call_id: str | None = None,
) -> Admission:
    """Count a call that never reached its tool, on the ladder of failures.

    Args:
        tool: the tool, `None` for a name the run does not know.
        name: as the model wrote it.
        arguments: as the model gave them.
        reason: what the model was told.
        denied: whether a person or a rule forbade it.
        call_id: the provider's id of the call.
    """
    called = tool or undeclared(name)
    identity = engine.identify(called, (), arguments)
    with engine.lock:
        state = engine.state_of(tool or NO_TOOL)
        call = engine.number(called, state)
        state.refused += 1
        state.denied = state.denied or denied
        call.reason, call.kwargs = reason, arguments
        call.decision = call.would = "refuse"
        call.error = RepeatedFailure(reason)
        if engine.ended is not None:
            engine.answer_ended(call)
        elif engine.policy.advice is not None:
            call.key = None if identity is None else identity.key
            engine.advise(call, engine.policy.advice)
        elif identity is not None:
            # Apart from the calls that did reach it: a refusal says nothing of their results.
            call.key, call.call_id = (KeyKind.REFUSED, called.spec.name, identity.key), call_id
            known = engine.ledger.call_ids.get(call_id or "")
            if known is not None and (known.tool, known.key) == (state.name, call.key):
                call.counts = False
            else:
                _climb(engine, call)
                remember_id(engine.ledger, call, error=call.error)
    return call


def _climb(engine: Engine, call: Admission) -> None:
    ledger, policy, state = engine.ledger, engine.policy, call.state
    entry = ledger.find(state, call.key) or ledger.add(state, call.key, call.number)
    call.entry = entry
    if is_of_this_turn(entry, ledger):
        call.counts = False
        return
    spec, whole_run = call.tool.spec, policy.whole_run
    call.count = repeat.before(entry, spec, policy.failing, ledger, whole_run=whole_run).position
    outcome = Settled(token=call.reason, failed=True, error=call.error, reached=False)
    record(ledger, policy, call, outcome)
    if call.ends_run:
        engine.end(call)
