"""How an observation reads: the call named once, what came of it, and last what is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

from repeatguard_sdk._options import Option
from repeatguard_sdk._text import (
    arguments_preview,
    first_line,
    quote,
)
from repeatguard_sdk._types import MISSING, Decision, Effect, FindingKind, Rank

BARE = "This call was made before."
HEADING = "Still open, choose one:"
RESULT_CHARS = 80
ARGUMENT_CHARS = 60
_NAME_CHARS = 64
_OPTION_CHARS = 200
_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


@attrs.frozen(kw_only=True)
class ObservationFacts:
    """Everything an observation is written from.

    Attributes:
        finding: what was found.
        tool: the tool it speaks about; empty where there is none (a state, a draft).
        arguments: the arguments of the call.
        call: number of the call it speaks about.
        count: how often it happened: equal calls, laps, outcomes alike, turns without a change.
        first_call: number of the call that was repeated; 0 if there is none.
        effect: what a call of the tool may do.
        decision: what became of this call.
        failed: the call, or the stored one it repeats, failed.
        result: the first result, or the error or its text.
        cycle: the tools of one lap, in order.
        budget: for a spent budget: how many calls of the tool one run allows.
        reason: for a call that never reached its tool: why.
        slot: for ``asked_again``: the name of the fact.
        known: for ``asked_again``: the fact.
        options: what is still open.
        style: ``"options"``, ``"bare"`` (a control that says nothing new), or a callable that
            writes the text itself.
        brief: a later reminder: one sentence, no list.
        rank: the rank of the message the text is for. At developer and system rank the facts hold
            no text of a tool: `arguments` is empty, `result` and `known` are missing.
    """

    finding: FindingKind
    tool: str = ""
    arguments: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    call: int = 0
    count: int = 2
    first_call: int = 0
    effect: Effect = "read"
    decision: Decision = "execute"
    failed: bool = False
    result: Any = MISSING
    cycle: tuple[str, ...] = ()
    budget: int | None = None
    reason: str = ""
    slot: str = ""
    known: Any = MISSING
    options: tuple[Option, ...] = ()
    style: Style = "options"
    brief: bool = False
    rank: Rank = "user"

    @property
    def executed(self) -> bool:
        """Whether this call ran."""
        return self.decision == "execute"

    @property
    def trusted(self) -> bool:
        """Whether the text goes to a rank that tool text must not gain."""
        return self.rank in {"developer", "system"}

    def for_rank(self, rank: Rank) -> ObservationFacts:
        """Return the facts as a message of that rank may know them."""
        facts = attrs.evolve(self, rank=rank)
        if not facts.trusted:
            return facts
        # Blanked here, once, so that no wording and no `style` callable can leak them.
        reason = ", for the reason given above" if self.reason else ""
        return attrs.evolve(facts, arguments={}, result=MISSING, known=MISSING, reason=reason)


Style = Literal["options", "bare"] | Callable[[ObservationFacts], str]


def wording(facts: ObservationFacts) -> str:
    """Write the text for the rank the facts are for.

    Args:
        facts: what happened.
    """
    if callable(facts.style):
        try:
            own: object = facts.style(facts)
        except Exception:  # the host's wording must not cost the run its observation
            own = None
        return own if isinstance(own, str) else wording(attrs.evolve(facts, style="options"))
    if facts.style == "bare":
        return BARE
    if facts.brief:
        return f"Reminder: {_reminder(facts)}; take another step."
    lines = [_WRITERS[facts.finding](facts)]
    if facts.options and lists_options(facts):
        lines += [HEADING, *(f"- {_option(option, facts)}" for option in facts.options)]
    return "\n".join(lines)


def lists_options(facts: ObservationFacts) -> bool:
    """Tell whether the text lists what is open; a host's own wording is taken to do so."""
    if facts.style == "bare" or facts.brief:
        return False
    handed_over = facts.effect == "final" and not facts.failed and not facts.executed
    # After a hand-over there is nothing left to do.
    return not (handed_over and facts.finding == "repeat" and facts.budget is None)


def _option(option: Option, facts: ObservationFacts) -> str:
    # A description may come from a remote server: at a trusted rank the name has to do.
    if facts.trusted and option.tool:
        return _name(option.tool)
    return first_line(option.text, _OPTION_CHARS)


def _repeat(facts: ObservationFacts) -> str:
    if facts.budget is not None:
        calls = f"{facts.budget} call{'s' * (facts.budget != 1)}"
        return (
            f"{_call(facts)} was not run: its budget of {calls} for this task is used up, "
            "and it stays closed."
        )
    if facts.reason:
        why = facts.reason if facts.trusted else f": {quote(facts.reason, RESULT_CHARS)}"
        return f"{_call(facts)} did not reach the tool{why}. Unchanged, it will be refused again."
    if facts.failed:
        return _failure(facts)
    if facts.effect == "live":
        return (
            f"{_call(facts)} gave the same answer {facts.count} times{_result(facts)}. "
            "It may be run again, but doing so at once has not changed the answer."
        )
    return _ran_again(facts) if facts.executed else _withheld(facts)


def _failure(facts: ObservationFacts) -> str:
    if facts.executed:
        return (
            f"{_call(facts)} failed as it did {_before(facts)}. "
            "Unchanged, it will fail the same way."
        )
    return (
        f"{_call(facts)} failed alike each time it was run{_result(facts)}. "
        "It was not run again; the error stays the same."
    )


def _ran_again(facts: ObservationFacts) -> str:
    if facts.effect in {"write", "final"}:
        return (
            f"{_call(facts)} was already done {_before(facts)}, and has now been done again. "
            "It needs no further call."
        )
    return (
        f"{_call(facts)} gave the same result as {_before(facts)}. Asking again will not change it."
    )


def _withheld(facts: ObservationFacts) -> str:
    call, before = _call(facts), _before(facts)
    if facts.effect == "write":
        return (
            f"{call} was already done {before}. It was not done a second time, "
            "and calling it again will not do more."
        )
    if facts.effect == "final":
        return (
            f"{call} was already handed over {before}. It was not done a second time; "
            "nothing more is needed."
        )
    if facts.effect == "ask":
        return (
            f"{call} was already asked and answered {before}. "
            "The user was not asked again; the answer stays the same."
        )
    stored = "answered from store, " if facts.decision in {"replay", "join"} else ""
    return (
        f"{call} was already answered {before}. This time it was {stored}not run again; "
        "the answer will not change."
    )


def _cycle(facts: ObservationFacts) -> str:
    size = _NUMBERS.get(len(facts.cycle), str(len(facts.cycle)))
    names = ", ".join(_name(tool) for tool in facts.cycle)
    same = len(set(facts.cycle)) == 1
    if len(facts.cycle) == 2:
        where = f"two calls of {_name(facts.cycle[0])}" if same else f"these two: {names}"
        shape = f"alternating between {where}"
    else:
        where = f" calls of {_name(facts.cycle[0])}" if same else f": {names}"
        shape = f"going round in a circle of {size}{where}"
    return (
        f"The last calls are {shape}. That was {facts.count} rounds with the same results; "
        "another will not change them."
    )


def _no_progress(facts: ObservationFacts) -> str:
    return (
        f"Nothing in the state of the task has changed for {facts.count} turns. "
        "More of the same calls will not change it."
    )


def _same_outcome(facts: ObservationFacts) -> str:
    if facts.failed:
        what = f"failed {facts.count} times in a row, whatever the arguments{_result(facts)}"
    else:
        what = f"found nothing {facts.count} times in a row, with different arguments"
    return f"{_name(facts.tool)} {what}. Other arguments have not changed that."


def _asked_again(facts: ObservationFacts) -> str:
    source = f" from call {facts.first_call}" if facts.first_call else ""
    known = "" if facts.known is MISSING else f": it is {quote(facts.known, RESULT_CHARS)}"
    asked = " The user was not asked." if facts.tool and not facts.executed else ""
    slot = _name(facts.slot)
    return f"{slot} is already known{source}{known}.{asked} Do not ask for it; go on with it."


_WRITERS: dict[FindingKind, Callable[[ObservationFacts], str]] = {
    "repeat": _repeat,
    "cycle": _cycle,
    "no_progress": _no_progress,
    "same_outcome": _same_outcome,
    "asked_again": _asked_again,
}


def _reminder(facts: ObservationFacts) -> str:
    if facts.finding == "cycle":
        return f"the calls still go round between {', '.join(_name(tool) for tool in facts.cycle)}"
    if facts.finding == "no_progress":
        return f"the state of the task has not changed for {facts.count} turns"
    if facts.finding == "asked_again":
        return f"{_name(facts.slot)} is already known"
    if facts.finding == "same_outcome":
        what = "failed" if facts.failed else "found nothing"
        return f"{_name(facts.tool)} has now {what} {facts.count} times in a row"
    alike = "failing alike" if facts.failed or facts.reason else "with the same result"
    return f"{_call(facts)} has now been called {facts.count} times, {alike}"


def _call(facts: ObservationFacts) -> str:
    """Name the call; weak models copy what they read, so once and briefly."""
    if facts.trusted:
        return f"{_name(facts.tool)} (call {facts.call})" if facts.call else _name(facts.tool)
    return f"{_name(facts.tool)}({arguments_preview(facts.arguments, ARGUMENT_CHARS)})"


def _before(facts: ObservationFacts) -> str:
    if not facts.first_call:
        return f"before{_result(facts)}"
    if facts.trusted:
        return f"at call {facts.first_call} (see its {_what(facts)} above)"
    return f"at call {facts.first_call}{_result(facts)}"


def _result(facts: ObservationFacts) -> str:
    """Return the result as the end of a clause: quoted, or referred to."""
    if facts.result is not MISSING:
        return f": {quote(facts.result, RESULT_CHARS)}"
    if facts.trusted and facts.first_call:
        return f" (see the {_what(facts)} of call {facts.first_call} above)"
    return ""


def _what(facts: ObservationFacts) -> str:
    return "error" if facts.failed else "result"


def _name(name: str) -> str:
    return first_line(name, _NAME_CHARS)
