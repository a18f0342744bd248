"""What a report says in whole sentences, for every renderer."""

from __future__ import annotations

from repeatguard_sdk.report._values import Filters, Report
from repeatguard_sdk.report._words import count, interval, moment, percent, tool_name

NO_EVENTS = (
    'No events yet. Keep them with Run(tools, events=SQLiteSink("events.db")) or the variable '
    "REPEATGUARD_EVENTS=events.db, let the agent work, and ask for the report again; "
    'Policy(mode="observe") records without changing what the agent sees.'
)
REFUSALS = (
    "Refusals include calls that never reach a tool (no such tool, denied, arguments that do not "
    "fit)."
)
NO_TRIAL = (
    "This is no trial: nobody drew lots which event got a note, so compare rows at equal counts, and "
    "with care. In small trials an irrelevant sentence did most of what a note did."
)
SOFTER = 'In the modes "advise" and "observe" every call ran; "enforce" would have meant:'
UPPER_BOUND = (
    "A model that had been answered from store would have gone on otherwise, so this is the most "
    "that can have been saved."
)


def empty_line(report: Report) -> str:
    """Return what to say of a report without events."""
    return NO_EVENTS if report.filters == Filters() else "No event fits."


def filter_lines(report: Report) -> list[str]:
    """Return the filters of a report, a line each."""
    filters = report.filters
    lines: list[str] = []
    if filters.since is not None:
        lines.append(f"since {moment(filters.since)}")
    if filters.until is not None:
        lines.append(f"before {moment(filters.until)}")
    if filters.tools:
        lines.append(f"tools: {', '.join(tool_name(tool) for tool in filters.tools)}")
    if filters.findings:
        lines.append(f"findings: {', '.join(filters.findings)}")
    return lines


def saved_lines(report: Report) -> list[str]:
    """Return what was saved, measured, a sentence each."""
    done = report.answered
    parts = [f"{done.replayed:,} replayed", f"{done.joined:,} joined", f"{done.refused:,} refused"]
    if done.at_the_end is not None:
        parts.append(f"{done.at_the_end:,} at the end of a run")
    calls = count(done.calls, "guarded call")
    line = f"{done.without_execution:,} of {calls} were answered without execution: "
    return [f"{line}{', '.join(parts)}. {REFUSALS}", _turns_line(report)]


def _turns_line(report: Report) -> str:
    early = report.early_ends
    line = f"{count(early.runs, 'run')} ended early because stuck"
    if early.max_turns is None or early.turns_left is None:
        return (
            f"{line}; how many turns that saved is only known with the host's limit (--max-turns)."
        )
    line += (
        f"; up to the limit of {count(early.max_turns, 'turn')} they had "
        f"{count(early.turns_left, 'turn')} left, the most that can have been saved"
    )
    if early.without_turns:
        line += f" ({count(early.without_turns, 'run')} without turn marks not counted)"
    return f"{line}."


def would_lines(report: Report) -> list[str]:
    """Return what would have been saved in the softer modes; nothing if there was nothing."""
    would = report.would
    if not (would.replayed or would.refused or would.exited):
        return []
    ended = f"{count(would.runs_ended, 'run')} ended"
    done = f"{would.replayed:,} replayed, {would.refused:,} refused, {ended}"
    exits = f"({count(would.exited, 'call')} at or behind the end)"
    lines = [f"{SOFTER} {done} {exits}."]
    if would.replayed:
        lines.append(
            f"Of the {count(would.replayed, 'replay')} {would.equal:,} would have served the "
            f"result that came, {would.differed:,} another one; {would.unknown:,} not compared."
        )
    return [*lines, UPPER_BOUND]


def fire_line(report: Report) -> str:
    """Return how many runs had an event."""
    rate = report.fire_rate
    line = f"{rate.hits:,} of {count(rate.of, 'run')} had an event"
    if rate.rate is not None:
        line += f": {percent(rate.rate)} (95 % interval {interval(rate)})"
    if report.unrecorded:
        line += (
            f"; {report.unrecorded:,} without a record (killed, still going on, or ended outside of "
            "the times asked for)"
        )
    return f"{line}."
