"""From events and records to the report, in one pass over each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from repeatguard_sdk._event import RepeatEvent, RunRecord
from repeatguard_sdk._types import Effect, FindingKind, Mode, SuspectedCause
from repeatguard_sdk.report._rates import rate_of
from repeatguard_sdk.report._records import DONE, Done, Records
from repeatguard_sdk.report._tallies import (
    Days,
    Groups,
    Steps,
    Would,
    cause_counts,
    finding_counts,
    most_frequent_cause,
    most_frequent_effect,
)
from repeatguard_sdk.report._values import Filters, NextSteps, Report, ToolReport

MAX_TOOLS = 1_000
# Styles are few, but a file can hold anything.
_MAX_STYLES = 100
_NO_FILTERS = Filters()


def build_report(
    events: Iterable[RepeatEvent],
    runs: Iterable[RunRecord],
    *,
    filters: Filters = _NO_FILTERS,
    max_turns: int | None = None,
) -> Report:
    """Count events and runs into a report, in one pass over each.

    The order in which they come does not matter, as long as there are not more tools, or
    results of a tool, than are kept apart (1,000 and 200). Memory grows with the runs that had events,
    not with the events.

    Args:
        events: the interventions, each with what followed where that is known.
        runs: the records of the runs, also of those without any event.
        filters: which events and times the report is about.
        max_turns: the host's limit of turns, to say how many were left when a run was ended.

    Raises:
        ValueError: a limit below 1.

    Example:
        >>> build_report([], []).events
        0
    """
    if max_turns is not None and max_turns < 1:
        msg = f"max_turns={max_turns}: the host's limit of turns in one run, at least 1"
        raise ValueError(msg)
    seen = _Events()
    for event in events:
        if filters.hold(event):
            seen.add(event)
    records = Records(filters, seen.runs, seen.exited, seen.tools, max_turns)
    for run in runs:
        if filters.in_time(run.ended):
            records.add(run)
            seen.days.add_run(run.started)
    return _report(filters, seen, records)


class _Tool:
    """Counts the events of one tool."""

    def __init__(self) -> None:
        self.events = self.exits = 0
        self.runs: set[str] = set()
        self.effects: Counter[Effect] = Counter()
        self.causes: Counter[SuspectedCause | None] = Counter()
        self.findings: Counter[FindingKind] = Counter()
        self.groups = Groups()
        self.would = Would()
        self.notes = Steps()

    def add(self, event: RepeatEvent) -> None:
        self.events += 1
        self.runs.add(event.run_id)
        self.effects[event.effect] += 1
        self.causes[event.suspected_cause] += 1
        self.findings[event.finding] += 1
        self.groups.add(event)
        self.would.add(event)
        if event.decision == "exit":
            self.exits += 1
        elif event.style:
            self.notes.add(event)

    def value(self, name: str, total: int, done: Done) -> ToolReport:
        return ToolReport(
            tool=name,
            effect=most_frequent_effect(self.effects),
            events=self.events,
            runs=len(self.runs),
            share=self.events / total,
            calls=sum(done[what][name] for what in DONE),
            executed=done["executed"][name],
            replayed=done["replayed"][name],
            joined=done["joined"][name],
            refused=done["refused"][name],
            exits=self.exits,
            suspected_cause=most_frequent_cause(self.causes),
            causes=cause_counts(self.causes),
            findings=finding_counts(self.findings),
            ended=self.notes.ended,
            groups=self.groups.values(self.events),
            other_results=self.groups.others,
            would=self.would.value(),
        )


class _Events:
    """Counts all events."""

    def __init__(self) -> None:
        self.events = self.other_tools = 0
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.runs: set[str] = set()
        self.exited: set[str] = set()
        self.tools: dict[str, _Tool] = {}
        self.causes: Counter[SuspectedCause | None] = Counter()
        self.findings: Counter[FindingKind] = Counter()
        self.steps: dict[tuple[str, Mode], Steps] = {}
        self.would = Would()
        self.days = Days()

    def add(self, event: RepeatEvent) -> None:
        self.events += 1
        self.runs.add(event.run_id)
        if math.isfinite(event.at):
            self.first_at = event.at if self.first_at is None else min(self.first_at, event.at)
            self.last_at = event.at if self.last_at is None else max(self.last_at, event.at)
        self.causes[event.suspected_cause] += 1
        self.findings[event.finding] += 1
        self.would.add(event)
        self.days.add_event(event.at)
        if event.decision == "exit":
            self.exited.add(event.run_id)
        else:
            self._add_step(event)
        tool = self.tools.get(event.tool)
        if tool is None:
            # Names of tools that do not exist are the model's, and it can make up any number.
            if len(self.tools) >= MAX_TOOLS:
                self.other_tools += 1
                return
            tool = self.tools[event.tool] = _Tool()
        tool.add(event)

    def _add_step(self, event: RepeatEvent) -> None:
        key = (event.style, event.mode)
        if key not in self.steps and len(self.steps) >= _MAX_STYLES:
            key = ("other styles", event.mode)
        self.steps.setdefault(key, Steps()).add(event)

    def next_steps(self) -> tuple[NextSteps, ...]:
        """Return what followed: notes first, most frequent first, what had no note at the end."""
        rows = [steps.value(style, mode) for (style, mode), steps in self.steps.items()]
        return tuple(
            sorted(rows, key=lambda row: (not row.style, -row.events, row.style, row.mode))
        )


def _report(filters: Filters, seen: _Events, records: Records) -> Report:
    tools = [tool.value(name, seen.events, records.done) for name, tool in seen.tools.items()]
    runs = records.runs + len(records.unrecorded)
    return Report(
        filters=filters,
        events=seen.events,
        runs=runs,
        unrecorded=len(records.unrecorded),
        first_at=seen.first_at,
        last_at=seen.last_at,
        fire_rate=rate_of(len(seen.runs), runs),
        outcomes={reason: records.outcomes[reason] for reason in sorted(records.outcomes)},
        tools=tuple(sorted(tools, key=lambda tool: (-tool.events, -tool.runs, tool.tool))),
        other_tools=seen.other_tools,
        causes=cause_counts(seen.causes),
        findings=finding_counts(seen.findings),
        next_steps=seen.next_steps(),
        answered=records.answered(),
        early_ends=records.early_ends(),
        would=seen.would.value(),
        days=seen.days.values(),
    )
