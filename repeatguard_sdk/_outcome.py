"""How a run ended, with a summary somebody can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from repeatguard_sdk._call import Finding, TriedCall
from repeatguard_sdk._text import quote
from repeatguard_sdk._types import Reason

_MAX_TRIED = 12


@attrs.frozen(kw_only=True)
class LoopStart:
    """Where a loop began, so that a host can rewind its messages to before it."""

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
        options: options that were offered and not taken.
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
    error: str = ""

    @property
    def summary(self) -> str:
        """The outcome as text for the person who takes over."""
        if self.finding is None:
            text = f"The run ended {self.reason} after {self.calls} calls."
            return f"{text}\n{self.error}" if self.error else text
        lines = [self._headline()]
        if self.tool is not None:
            lines.append(f"First {self._what()}: {self.result}")
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
        if self.options:
            lines.append("Offered and not taken:")
            lines += [f"- {option}" for option in self.options]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as a dict; JSON-able if the known facts are."""
        return {**attrs.asdict(self), "summary": self.summary}

    def _headline(self) -> str:
        call = f"{self.tool}({self.arguments})"
        if self.reason == "finished":
            return (
                f"Finished after {self.calls} calls: {call} had succeeded, and was asked for "
                f"{self.count - 1} times more."
            )
        if self.finding is not None and self.finding.kind == "cycle":
            ways = " -> ".join(self.finding.tools)
            return (
                f"Ended {self.reason} after {self.calls} calls: went round {ways} "
                f"{self.finding.count} times with equal results, last {call}."
            )
        if self.finding is not None and self.finding.kind == "no_progress":
            return (
                f"Ended {self.reason} after {self.calls} calls: the state did not change for "
                f"{self.finding.count} turns."
            )
        return (
            f"Ended {self.reason} after {self.calls} calls: {call} was asked for "
            f"{self.count} times and nothing had changed."
        )

    def _what(self) -> str:
        return "error" if self.failed else "result"


def _tried_line(tried: TriedCall) -> str:
    came = "failed" if tried.failed else "gave"
    times = f" ({tried.count} times)" if tried.count > 1 else ""
    return f"- call {tried.call}: {tried.tool}({tried.arguments}){times} {came} {tried.result}"
