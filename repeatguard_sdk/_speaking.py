"""From a finding to what is said: the options still open, the observation, the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._call import TriedCall
from repeatguard_sdk._copies import store
from repeatguard_sdk._entry import Entry, result_of
from repeatguard_sdk._ledger import Ledger
from repeatguard_sdk._options import Option, OptionsView, build_options
from repeatguard_sdk._outcome import LoopStart, Outcome
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._spec import ToolSpec
from repeatguard_sdk._text import arguments_preview, quote
from repeatguard_sdk._types import MISSING, KeyKind, Reason, is_tuple

if TYPE_CHECKING:
    from repeatguard_sdk._wording import ObservationFacts

_ANSWERING = frozenset({"read", "unknown", "live"})
_PREVIEW = 200
_MAX_TRIED = 50
_FACT_BYTES = 1_000_000


def options_view(ledger: Ledger, call: Admission, tools: Sequence[ToolSpec]) -> OptionsView:
    """Return what the order of the options depends on; read under the run's lock."""
    spec = call.tool.spec
    cycle = call.finding.tools if call.finding is not None else ()
    exhausted = set(cycle)
    failed: set[str] = set()
    called: set[str] = set()
    budgets = {tool.name: tool.max_calls for tool in tools}
    for name, state in ledger.tools.items():
        called.add(name)
        budget = budgets.get(name)
        if (
            state.exhausted == ledger.epoch
            or state.denied
            or (budget is not None and state.executed >= budget)
        ):
            exhausted.add(name)
        if state.errors > 1:
            failed.add(name)
    budget = spec.max_calls
    return OptionsView(
        repeated_tool=spec.name,
        repeated_failed=call.entry is not None and call.entry.failed,
        variants=not call.state.denied and not (budget and call.state.executed >= budget),
        answers=_answers(ledger, call, {tool.name: tool for tool in tools}),
        tools=tuple(tools),
        called=frozenset(called),
        exhausted=frozenset(exhausted),
        failed=frozenset(failed),
        known_slots=tuple(ledger.known),
    )


def _answers(
    ledger: Ledger, call: Admission, specs: Mapping[str, ToolSpec]
) -> tuple[tuple[str, int], ...]:
    """Return the results in context that found something, other than the repeated one."""
    own = 0 if call.entry is None else call.entry.number
    found = [
        (state.found_call, name)
        for name, state in ledger.tools.items()
        if state.found_call > ledger.calls_before
        and state.found_entry != own
        and name in specs
        and specs[name].effect in _ANSWERING
    ]
    return tuple((name, number) for number, name in sorted(found))


class Speaker(Protocol):
    """Who an observation asks, when it is read, what to say.

    Attributes:
        policy: how it is said.
    """

    policy: Policy

    def view(self, call: Admission) -> OptionsView:
        """Return what is open at that moment, which is when the model is about to read."""
        ...

    def fault(self, tool: Tool, error: Exception) -> None:
        """Hear that the policy's own order of options failed; the default one is used then."""


def note_facts(call: Admission, *, answered: int) -> None:
    """Note with a call what its observation will be made of; most are never read, or even made.

    Args:
        answered: number of the call that the fact is from which answers it; 0 if the host told it.
    """
    entry = call.entry
    if entry is not None:
        call.first_call, call.first_failed = entry.first_call, entry.failed
    if call.fact:
        call.first_call = answered
    if not call.executed and call.value is MISSING:
        # The arguments of a call that came to its tool are the guard's own, and can wait.
        call.given = call.arguments()


def facts_about(speaker: Speaker, call: Admission) -> ObservationFacts:
    """Return what an observation is written from, when it is read."""
    # Imported here: most observations are never read.
    from repeatguard_sdk._wording import ObservationFacts

    finding, policy = call.finding, speaker.policy
    assert finding is not None
    live = policy.live.note
    return ObservationFacts(
        finding=finding.kind,
        tool=call.name_for(finding),
        effect=call.effect,
        arguments=call.arguments() if call.given is None else call.given,
        call=call.number,
        count=finding.count,
        first_call=call.first_call,
        decision="execute" if call.executed else call.decision,
        failed=call.first_failed,
        # Failures that differ: to quote one would say they were the same.
        result=MISSING if finding.cause == "failures" else call.kept,
        cycle=finding.tools,
        budget=call.budget,
        reason=call.reason,
        slot=call.fact,
        known=call.known,
        options=_options(speaker, call),
        style=policy.style,
        brief=call.effect == "live" and live is not None and call.count > live,
    )


def _options(speaker: Speaker, call: Admission) -> tuple[Option, ...]:
    options = build_options(speaker.view(call))
    if speaker.policy.options is not None:
        try:
            options = _reordered(speaker.policy.options, options)
        except Exception as fault:
            speaker.fault(call.tool, fault)
    return options


def _reordered(order: Callable[[Any], Any], options: tuple[Option, ...]) -> tuple[Option, ...]:
    """Return the options as the policy's callable wants them."""
    chosen = tuple(order(options))
    wrong = [option for option in chosen if not isinstance(option, Option)]
    if wrong:
        msg = (
            f"Policy(options=...) returned {wrong[0]!r}; it must return the Option values it likes"
        )
        raise TypeError(msg)
    return chosen


def facts_of(ledger: Ledger) -> dict[str, Any]:
    """Return what the run knows, for a receiver who may change it."""
    kept = {name: store(value, _FACT_BYTES) for name, value in ledger.known.items()}
    return {name: ledger.known[name] if fact is None else fact.value for name, fact in kept.items()}


def stuck_outcome(
    ledger: Ledger,
    call: Admission,
    *,
    calls: int,
    reason: Reason,
    options: Sequence[str],
    offered: bool,
    find: Callable[[str], Tool | None],
) -> Outcome:
    """Return the outcome of a run that a call ended; read under the run's lock.

    Args:
        calls: guarded calls of the run up to that one.
        options: what was open when the last observation was written.
        offered: whether the model read that.
        find: gives a tool by name.
    """
    entry = call.entry
    start = None
    if call.began is not None:
        start = LoopStart(call=call.began[0], turn=call.began[1])
    elif entry is not None and entry.seen:
        start = LoopStart(call=entry.first_call, turn=entry.first_turn)
    kept = result_of(entry)
    return Outcome(
        reason=reason,
        calls=calls,
        finding=call.finding,
        tool=call.tool.spec.name or None,
        arguments=arguments_preview(call.arguments(), _PREVIEW),
        count=call.count,
        result="" if kept is MISSING else quote(kept, _PREVIEW),
        failed=entry is not None and entry.failed,
        loop_start=start,
        tried=tuple(_tried(other, find) for other in _others(ledger, entry)),
        known=facts_of(ledger),
        options=tuple(options),
        offered=offered,
    )


def _others(ledger: Ledger, entry: Entry | None) -> Iterable[Entry]:
    """Return the newest of the other calls; a person reads no more of them."""
    return [other for other in ledger.newest(_MAX_TRIED) if other is not entry]


def _tried(entry: Entry, find: Callable[[str], Tool | None]) -> TriedCall:
    kept = result_of(entry)
    tool, arguments = _described(entry, find(entry.tool))
    return TriedCall(
        tool=tool,
        arguments=arguments,
        call=entry.first_call,
        count=max(entry.total, 1),
        result="" if kept is MISSING else quote(kept, 80),
        failed=entry.failed,
    )


def _described(entry: Entry, tool: Tool | None) -> tuple[str, str]:
    """Return the tool and a preview of the normalized arguments: the given ones are not kept."""
    key = entry.key
    if not is_tuple(key) or (tool is None and key[:1] != (KeyKind.REFUSED,)):
        return entry.tool, ""
    kind = key[0] if key else None
    if kind is KeyKind.SLOT:
        return entry.tool, quote(key[1], 40)
    if kind is KeyKind.MISFIT:
        return entry.tool, "arguments that do not fit"
    if kind is KeyKind.REFUSED:
        return key[1], ""
    return entry.tool, "" if tool is None else arguments_preview(tool.keys.shown(key), _PREVIEW)
