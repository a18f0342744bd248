"""How a run ended, with a summary somebody can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from repeatguard_sdk._call import BUDGET_SPENT, Finding, TriedCall
from repeatguard_sdk._text import quote
from repeatguard_sdk._types import Reason

_MAX_TRIED = 12


@attrs.frozen(kw_only=True)
class LoopStart:
    """Where a loop began, so that a host can rewind its messages to before it.

    Attributes:
        call: the number of the call; 0 if it began before the first one.
        turn: the turn it began in; 0 before the first `Run.turn`.
    """

    call: int
    turn: int

    def sentence(self) -> str:
        """Say where that was."""
        turn = f"turn {self.turn}"
        if not self.call:
            return f"The loop began in {turn}, before the first call."
        return f"The loop began at call {self.call}" + (f" ({turn})." if self.turn else ".")


@attrs.frozen(kw_only=True)
class Outcome:
    """How a run ended.

    Attributes:
        reason: "completed" (left its block), "finished" (a final tool succeeded), "stuck",
            "failed" (an exception of its own left the block).
        calls: guarded calls of the run.
        finding: what ended it, if something did.
        tool, arguments, count: the call that was repeated, and how often it was asked for.
        result: a preview of its first result, or of its error.
        failed: whether that was an error.
        loop_start: call and turn where the repetition began.
        tried: what else was tried and what came of it.
        known: facts the run knows.
        options: what is still open.
        offered: whether the model had read those options, and took none.
        error: the exception that left the block, as text.
    """

    reason: Reason
    calls: int
    finding: Finding | None = None
    tool: str | None = None
    arguments: str = ""
    count: int = 0
    result: str = ""
    failed: bool = False
    loop_start: LoopStart | None = None
    tried: tuple[TriedCall, ...] = ()
    known: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    options: tuple[str, ...] = ()
    offered: bool = False
    error: str = ""

    @property
    def summary(self) -> str:
        """The outcome as text for the person who takes over."""
        if self.finding is None:
            text = f"{self.reason.capitalize()} after {_number(self.calls, 'call')}."
            return f"{text}\n{self.error}" if self.error else text
        lines = [self._headline()]
        if self.tool is not None and self.result:
            lines.append(f"First {'error' if self.failed else 'result'}: {self.result}")
        if self.loop_start is not None:
            lines.append(self.loop_start.sentence())
        if self.tried:
            lines.append("What else was tried:")
            lines += [_tried_line(tried) for tried in self.tried[:_MAX_TRIED]]
            if len(self.tried) > _MAX_TRIED:
                lines.append(f"- and {len(self.tried) - _MAX_TRIED} more")
        if self.known:
            facts = ", ".join(f"{name} = {quote(value, 80)}" for name, value in self.known.items())
            lines.append(f"Known: {facts}")
        if self.options and self.reason != "finished":
            lines.append("Offered and not taken:" if self.offered else "Still open:")
            lines += [f"- {option}" for option in self.options]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as a dict; JSON-able if the known facts are."""
        return {**attrs.asdict(self), "summary": self.summary}

    def _headline(self) -> str:
        call = f"{self.tool}({self.arguments})"
        after = f"after {_number(self.calls, 'call')}"
        if self.reason == "finished":
            times = _number(self.count, "time")
            return f"Finished {after}: the task was done, and {call} was asked for {times}."
        return f"Ended {self.reason} {after}: {self._why(call)}"

    def _why(self, call: str) -> str:
        finding = self.finding
        if finding is not None and finding.kind == "cycle":
            ways, times = " -> ".join(finding.tools), _number(finding.count, "time")
            return f"went round {ways} {times} with equal results, last {call}."
        if finding is not None and finding.kind == "no_progress":
            return f"the state did not change for {_number(finding.count, 'turn')}."
        times = _number(self.count, "time")
        if finding is not None and finding.cause == BUDGET_SPENT:
            turns = _number(self.count, "turn")
            return f"{self.tool} was called beyond its budget in {turns}, last {call}."
        return f"{call} was asked for {times} and nothing had changed."


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _tried_line(tried: TriedCall) -> str:
    came = "failed" if tried.failed else "gave"
    times = f" ({tried.count} times)" if tried.count > 1 else ""
    result = tried.result or "a result that was not kept"
    return f"- call {tried.call}: {tried.tool}({tried.arguments}){times} {came} {result}"
