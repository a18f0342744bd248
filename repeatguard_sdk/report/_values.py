"""The report as values: plain numbers and texts that `attrs.asdict` turns into JSON."""

from __future__ import annotations

import attrs

from repeatguard_sdk._event import RepeatEvent
from repeatguard_sdk._types import Effect, FindingKind, Mode, Reason, SuspectedCause
from repeatguard_sdk.report._rates import Rate

VERSION = 1


@attrs.frozen(kw_only=True)
class Filters:
    """Which events a report is about; what is not set filters nothing.

    Attributes:
        since, until: Unix seconds: from the first on, and before the second.
        tools, findings: only these.
    """

    since: float | None = None
    until: float | None = None
    tools: tuple[str, ...] = ()
    findings: tuple[FindingKind, ...] = ()

    def hold(self, event: RepeatEvent) -> bool:
        """Tell whether a report with these filters is about an event."""
        return (
            self.in_time(event.at)
            and (not self.tools or event.tool in self.tools)
            and (not self.findings or event.finding in self.findings)
        )

    def in_time(self, at: float) -> bool:
        """Tell whether a moment lies within the times."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


@attrs.frozen(kw_only=True)
class CauseCount:
    """How many events have a suspected cause.

    Attributes:
        cause: `None` for those that no rule fits.
        events: how many.
        rule: the rule that was applied and what to mend.
    """

    cause: SuspectedCause | None
    events: int
    rule: str


@attrs.frozen(kw_only=True)
class ResultGroup:
    """The events of one tool behind which stands the same result or error.

    Attributes:
        preview: the result or error, quoted; of the earliest event that has one.
        result_digest: its identity; empty where there is none, and the preview is the group.
        failed: whether it is an error.
        events: how many.
        share: of the tool's events.
        suspected_cause: the one that most of them have.
    """

    preview: str
    result_digest: str
    failed: bool
    events: int
    share: float
    suspected_cause: SuspectedCause | None


@attrs.frozen(kw_only=True)
class CountRate:
    """What followed the events at one count.

    Attributes:
        count: of the detector; the highest stands for itself and all above.
        ended: how many ended the repetition, of those whose next step tells.
    """

    count: int
    ended: Rate


@attrs.frozen(kw_only=True)
class NextSteps:
    """What the model did after the events of one kind; exits, after which there is no step, left out.

    Attributes:
        style: the style of the note; empty where none was given.
        mode: the mode of the call.
        events: how many.
        other_call, answered: the repetition ended: another call, or no call and an answer.
        same_call: it went on.
        over: the run was stuck or failed before the model made a step.
        unknown: the step is not known.
        ended: `other_call` and `answered`, of those and `same_call`.
        by_count: the same by the count of the detector, for a fair comparison of styles.
    """

    style: str
    mode: Mode
    events: int
    other_call: int
    answered: int
    same_call: int
    over: int
    unknown: int
    ended: Rate
    by_count: tuple[CountRate, ...]


@attrs.frozen(kw_only=True)
class Answered:
    """Calls by what became of them, from the records of the runs.

    Attributes:
        calls: all guarded calls.
        executed: how many ran.
        replayed: answered with a stored result.
        joined: answered with the result of an equal call of the same turn.
        refused: answered with the stored error or the spent budget; also those that never reached
            their tool (no such tool, denied, arguments that do not fit).
        at_the_end: the one that ended its run and those after it; `None` with a filter
            on tools, for no record tells them apart by tool.
        without_execution: the last four together.
    """

    calls: int
    executed: int
    replayed: int
    joined: int
    refused: int
    at_the_end: int | None
    without_execution: int


@attrs.frozen(kw_only=True)
class WouldHave:
    """What ``enforce`` would have done to the calls that the modes ``advise`` and ``observe`` let run.

    Attributes:
        replayed: calls that would have been answered from store.
        equal, differed, unknown: how many of them had the result that would have been served,
            another one, or one that was not compared.
        refused: calls that would have been refused.
        exited: calls at or behind the end of a run.
        runs_ended: runs that would have been ended.
    """

    replayed: int
    equal: int
    differed: int
    unknown: int
    refused: int
    exited: int
    runs_ended: int


@attrs.frozen(kw_only=True)
class EarlyEnds:
    """Runs that the guard ended because they were stuck.

    Attributes:
        runs: how many.
        max_turns: the host's limit, as the reader of the report gave it.
        turns_left: turns between those ends and the limit: the most that can have been saved;
            `None` without a limit.
        without_turns: those that opened no turn, of which nothing is known.
    """

    runs: int
    max_turns: int | None
    turns_left: int | None
    without_turns: int


@attrs.frozen(kw_only=True)
class FindingCount:
    """The events of one detector.

    Attributes:
        finding: the detector.
        events: how many.
        share: of all events.
    """

    finding: FindingKind
    events: int
    share: float


@attrs.frozen(kw_only=True)
class Day:
    """One day, in UTC.

    Attributes:
        day: as ``2026-11-30``.
        events: how many on it.
        runs: runs that began on it and have a record.
    """

    day: str
    events: int
    runs: int


@attrs.frozen(kw_only=True)
class ToolReport:
    """One tool to mend.

    Attributes:
        tool: its name as the model used it; empty for what is about the run and no tool.
        effect: what it was declared to do.
        events: how many.
        runs: in how many runs.
        share: of all events.
        calls: its calls that ran, were replayed, joined or refused, whatever was found.
        executed, replayed, joined, refused: these, as in `Answered`.
        exits: runs that a call of it ended.
        suspected_cause: the one that most of its events have, if any has one.
        causes: its events by suspected cause.
        findings: its events by detector.
        ended: how many notes about it ended the repetition, of those whose next step tells.
        groups: what stood behind the events, most frequent first.
        other_results: events of results beyond those that are kept apart.
        would: what would have been done to its calls.
    """

    tool: str
    effect: Effect
    events: int
    runs: int
    share: float
    calls: int
    executed: int
    replayed: int
    joined: int
    refused: int
    exits: int
    suspected_cause: SuspectedCause | None
    causes: tuple[CauseCount, ...]
    findings: tuple[FindingCount, ...]
    ended: Rate
    groups: tuple[ResultGroup, ...]
    other_results: int
    would: WouldHave


@attrs.frozen(kw_only=True)
class Report:
    """The whole report.

    Attributes:
        version: of this shape; it changes when a key changes its meaning or goes.
        filters: which events it is about.
        events: how many.
        runs: runs with a record, and those without.
        unrecorded: runs that have events and no record: killed, still going on, or ended
            outside of the times asked for. A killed run without events leaves no trace.
        first_at, last_at: Unix seconds of the first and the last event.
        fire_rate: runs with an event, of all runs.
        outcomes: how the recorded runs ended.
        tools: the tools to mend, most events first.
        other_tools: events of tools beyond those that are kept apart.
        causes, findings: all events by suspected cause and by detector.
        next_steps: what the model did next, by style of the note and by mode.
        answered: what became of the calls; of all findings, for records do not tell them apart.
        early_ends: runs that were stuck.
        would: what would have been done to the calls that the softer modes let run.
        days: events and runs by day.
    """

    version: int = VERSION
    filters: Filters
    events: int
    runs: int
    unrecorded: int
    first_at: float | None
    last_at: float | None
    fire_rate: Rate
    outcomes: dict[Reason, int]
    tools: tuple[ToolReport, ...]
    other_tools: int
    causes: tuple[CauseCount, ...]
    findings: tuple[FindingCount, ...]
    next_steps: tuple[NextSteps, ...]
    answered: Answered
    early_ends: EarlyEnds
    would: WouldHave
    days: tuple[Day, ...]
