"""What the audits of many runs come to: sums that can be added up in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from repeatguard_sdk.audit._recorded import Fault
from repeatguard_sdk.audit._run_audit import RunAudit, Verdict

_MAX_FAULTS = 100


@attrs.define
class Sums:
    """What one policy would have done, to one tool or in all.

    Attributes:
        flagged: calls that it would have answered without running them, noted, or ended the run at.
        replayed, joined, refused, exits: how many it would have answered so.
        noted: observations it would have given.
        wrong: replays and joins whose recorded result was another one than the stored one.
        unknown: replays and joins of which that cannot be told.
        receipts: replays of writes: live, the second write is not done, so its recorded result is
            neither right nor wrong; `other_receipts` of them differ.
        wrong_refusals: refusals of calls that in the recording did not fail alike.
        findings: by detector.
    """

    flagged: int = 0
    replayed: int = 0
    joined: int = 0
    refused: int = 0
    exits: int = 0
    noted: int = 0
    wrong: int = 0
    unknown: int = 0
    receipts: int = 0
    other_receipts: int = 0
    wrong_refusals: int = 0
    findings: Counter[str] = attrs.field(factory=Counter[str])

    @property
    def saved(self) -> int:
        """Calls that would not have been executed, up to the exits."""
        return self.replayed + self.joined + self.refused + self.exits

    def count(self, verdict: Verdict) -> None:
        """Count one call that would not just have been executed."""
        self.flagged += 1
        self.noted += verdict.noted
        if verdict.finding is not None:
            self.findings[verdict.finding] += 1
        if verdict.decision == "exit":
            self.exits += 1
        elif verdict.decision == "refuse":
            self.refused += 1
            self.wrong_refusals += verdict.other is True
        elif verdict.decision in ("replay", "join"):
            self._count_answer(verdict)

    def _count_answer(self, verdict: Verdict) -> None:
        if verdict.decision == "join":
            self.joined += 1
        else:
            self.replayed += 1
        if verdict.receipt:
            self.receipts += 1
            self.other_receipts += verdict.other is True
        elif verdict.other is None:
            self.unknown += 1
        else:
            self.wrong += verdict.other

    def add(self, other: Sums) -> None:
        """Add other sums to these."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.findings.update(other.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the sums as a JSON-able dict."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {**counts, "saved": self.saved, "findings": dict(sorted(self.findings.items()))}


_COUNTS = tuple(field.name for field in attrs.fields(Sums) if field.name != "findings")


@attrs.define
class PolicyAudit:
    """What one policy would have done in all runs.

    Attributes:
        sums: over all tools.
        tools: by tool.
        touched: runs with at least one flagged call.
        stuck, finished: runs it would have ended so.
        stuck_but_succeeded: runs it would have ended stuck though they solved their task;
            `stuck_and_known` are those of which the transcripts tell it.
        after_end: calls recorded after the one that would have ended their run.
    """

    sums: Sums = attrs.field(factory=Sums)
    tools: dict[str, Sums] = attrs.field(factory=dict[str, Sums])
    touched: int = 0
    stuck: int = 0
    finished: int = 0
    stuck_and_known: int = 0
    stuck_but_succeeded: int = 0
    after_end: int = 0

    @property
    def saved(self) -> int:
        """Calls that would not have been executed."""
        return self.sums.saved + self.after_end

    def count(self, audit: RunAudit) -> None:
        """Count one run."""
        if not audit.verdicts:
            return
        self.touched += 1
        for verdict in audit.verdicts:
            self.sums.count(verdict)
            self.tools.setdefault(verdict.tool, Sums()).count(verdict)
        if audit.ended is None:
            return
        self.after_end += sum(audit.calls.values()) - audit.walked
        if audit.ended == "finished":
            self.finished += 1
            return
        self.stuck += 1
        self.stuck_and_known += audit.succeeded is not None
        self.stuck_but_succeeded += audit.succeeded is True

    def add(self, other: PolicyAudit) -> None:
        """Add what it would have done in other runs."""
        self.sums.add(other.sums)
        for name, sums in other.tools.items():
            self.tools.setdefault(name, Sums()).add(sums)
        for name in _RUNS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON-able dict; `tools` is left to the table of all policies."""
        runs = {name: getattr(self, name) for name in _RUNS}
        return {**runs, "saved": self.saved, "calls": self.sums.as_dict()}


_RUNS = ("touched", "stuck", "finished", "stuck_and_known", "stuck_but_succeeded", "after_end")


@attrs.define
class ToolSums:
    """One tool of the transcripts.

    Attributes:
        calls: recorded calls.
        effects: by effect and where it is from ("declared", "recorded", "guessed"), the runs.
    """

    calls: int = 0
    effects: Counter[tuple[str, str]] = attrs.field(factory=Counter[tuple[str, str]])

    def effect(self) -> tuple[str, str]:
        """Return the effect it has in most runs, and where that is from."""
        return max(sorted(self.effects), key=lambda each: self.effects[each])


class AuditReport:
    """The audits of many runs under several policies, side by side.

    Args:
        policies: their names.

    Attributes:
        runs, calls: what was recorded.
        without_user: runs without any message of a person. There a request for the same again
            cannot be told from a loop.
        without_calls: runs without any tool call; they are not among `runs`.
        without_calls: runs without any tool call; they are not among `runs`.
        policies: by name, what it would have done.
        tools: by name, what was recorded.
        formats: by format, the runs read of it.
        faults: the first hundred parts of files that could not be read; `faulty` is how many there are.
    """

    def __init__(self, policies: tuple[str, ...]) -> None:
        self.runs = self.calls = self.without_user = self.without_calls = self.faulty = 0
        self.policies = {name: PolicyAudit() for name in policies}
        self.tools: dict[str, ToolSums] = {}
        self.formats: Counter[str] = Counter()
        self.faults: list[Fault] = []

    def count(self, audits: Mapping[str, RunAudit], format_name: str) -> None:
        """Count one run: its audit under each policy."""
        first = next(iter(audits.values()))
        self.runs += 1
        self.calls += sum(first.calls.values())
        self.without_user += not first.user_messages
        self.formats[format_name] += 1
        for name, calls in first.calls.items():
            tool = self.tools.get(name)
            if tool is None:
                tool = self.tools[name] = ToolSums()
            tool.calls += calls
            tool.effects[first.effects[name]] += 1
        for name, audit in audits.items():
            self.policies[name].count(audit)

    def fault(self, fault: Fault) -> None:
        """Count a part of a file that could not be read."""
        self.faulty += 1
        if len(self.faults) < _MAX_FAULTS:
            self.faults.append(fault)

    def add(self, other: AuditReport, *, lines_before: int = 0) -> None:
        """Add the report of other runs.

        Args:
            lines_before: lines of the file before the part that `other` is about.
        """
        self.runs += other.runs
        self.calls += other.calls
        self.without_user += other.without_user
        self.without_calls += other.without_calls
        self.formats.update(other.formats)
        for name, tool in other.tools.items():
            mine = self.tools.setdefault(name, ToolSums())
            mine.calls += tool.calls
            mine.effects.update(tool.effects)
        for name, policy in other.policies.items():
            self.policies[name].add(policy)
        for fault in other.faults:
            line = fault.line + lines_before if fault.line else 0
            self.fault(attrs.evolve(fault, line=line))
        self.faulty += other.faulty - len(other.faults)

    def guessed(self) -> Iterator[tuple[str, str]]:
        """Yield each tool whose effect was guessed from its name, with that effect."""
        for name in sorted(self.tools):
            effect, source = self.tools[name].effect()
            if source == "guessed":
                yield name, effect

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-able dict, tools with most flagged calls first."""
        return {
            "version": 1,
            "runs": self.runs,
            "calls": self.calls,
            "runs_without_user_messages": self.without_user,
            "runs_without_calls": self.without_calls,
            "formats": dict(sorted(self.formats.items())),
            "policies": {name: policy.as_dict() for name, policy in self.policies.items()},
            "tools": [self._tool(name) for name in self.ranked()],
            "faulty": self.faulty,
            "faults": [attrs.asdict(fault) for fault in self.faults],
        }

    def ranked(self) -> list[str]:
        """Return the names of the tools, those with most flagged calls first."""
        first = next(iter(self.policies.values()))

        def rank(name: str) -> tuple[int, int, str]:
            sums = first.tools.get(name)
            return (-(sums.flagged if sums else 0), -self.tools[name].calls, name)

        return sorted(self.tools, key=rank)

    def _tool(self, name: str) -> dict[str, Any]:
        tool = self.tools[name]
        effect, source = tool.effect()
        by_policy = {
            policy: audit.tools.get(name, Sums()).as_dict()
            for policy, audit in self.policies.items()
        }
        told = {"effect": effect, "effect_is": source, "calls": tool.calls}
        return {"tool": name, **told, "policies": by_policy}
