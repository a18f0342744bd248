"""The report in a terminal: tables without markup, so that no text of a tool is taken for any."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from repeatguard_sdk.report import NextSteps, Rate, Report, ToolReport
from repeatguard_sdk.report import _sentences as sentences
from repeatguard_sdk.report import _words as words
from repeatguard_sdk.report._rates import METHOD
from repeatguard_sdk.report._tallies import HIGHEST_COUNT
from repeatguard_sdk.report._visible import shown

MOST_TOOLS = 20
MOST_GROUPS = 3
_WIDE = 100
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def print_report(report: Report, console: Console) -> None:
    """Print a report for a person.

    Args:
        console: where to; what it makes of markup and emoji does not matter.
    """
    _say(console, _headline(report), "bold")
    for line in sentences.filter_lines(report):
        _say(console, f"Only {line}.")
    if not report.events:
        _say(console, sentences.empty_line(report))
        if report.runs:
            _say(console, sentences.fire_line(report))
        return
    _say(console, sentences.fire_line(report))
    console.print()
    console.print(_tools(report, console))
    _rest(report, console)
    _head(console, "Behind the events")
    for tool in report.tools[:MOST_TOOLS]:
        _print_tool(tool, console)
    if report.next_steps:
        _head(console, "Does a note end the repetition?")
        console.print(_notes(report))
        _say(console, f"{sentences.NO_TRIAL} {METHOD}", "dim")
    _head(console, "Saved")
    for line in (*sentences.saved_lines(report), *sentences.would_lines(report)):
        _say(console, line)
    _head(console, "Suspected causes, by these rules")
    for each in report.causes:
        _say(console, f"{words.CAUSE_NAMES[each.cause]} ({each.events:,}): {each.rule}")


def _say(console: Console, line: str, style: str = "") -> None:
    console.print(Text(line, style=style))


def _head(console: Console, line: str) -> None:
    console.print()
    _say(console, line, "bold")


def _headline(report: Report) -> str:
    if not report.events:
        return "What to mend"
    tools = words.count(len(report.tools), "tool")
    times = f"{words.moment(report.first_at)} to {words.moment(report.last_at)}"
    return f"What to mend: {words.count(report.events, 'event')} about {tools}, {times}"


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))


def _tools(report: Report, console: Console) -> Table:
    wide = console.width >= _WIDE
    table = _table()
    table.add_column("Tool", overflow="fold")
    table.add_column("Events", justify="right")
    table.add_column("Share", no_wrap=True)
    table.add_column("Runs", justify="right")
    table.add_column("Suspected cause", no_wrap=True)
    table.add_column("Ended after a note" if wide else "Ended", overflow="fold")
    for tool in report.tools[:MOST_TOOLS]:
        bar = _bar(tool.share, 14 if wide else 8, ascii_only=console.options.ascii_only)
        share = f"{bar} {words.percent(tool.share)}"
        cells = (
            words.tool_name(tool.tool, 40),
            f"{tool.events:,}",
            share,
            f"{tool.runs:,}",
            words.CAUSE_NAMES[tool.suspected_cause],
            _rate(tool.ended) if wide else _short_rate(tool.ended),
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _rest(report: Report, console: Console) -> None:
    """Say what has no row, and what the last column means."""
    _say(console, "Ended: the next step after a note about the tool was no repetition.", "dim")
    hidden = report.tools[MOST_TOOLS:]
    if hidden:
        events = sum(tool.events for tool in hidden)
        tools = words.count(len(hidden), "more tool")
        _say(console, f"And {tools} with {words.count(events, 'event')}: --format json has all.")
    if report.other_tools:
        _say(console, f"Beyond the tools kept apart: {words.count(report.other_tools, 'event')}.")


def _print_tool(tool: ToolReport, console: Console) -> None:
    _say(console, f"{words.tool_name(tool.tool)}: {words.CAUSE_NAMES[tool.suspected_cause]}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for group in tool.groups[:MOST_GROUPS]:
        what = Text("error", style="red") if group.failed else Text("result", style="cyan")
        preview = shown(group.preview, 160) or "(nothing kept of it)"
        grid.add_row(Text(f"{group.events:,}"), what, Text(preview))
    rest = tool.groups[MOST_GROUPS:]
    if rest or tool.other_results:
        events = sum(group.events for group in rest) + tool.other_results
        grid.add_row(Text(f"{events:,}"), Text("others", style="dim"), Text(""))
    console.print(Padding(grid, (0, 0, 0, 2)))


def _notes(report: Report) -> Table:
    table = _table()
    table.add_column("Note", overflow="fold")
    table.add_column("Mode")
    table.add_column("Count")
    table.add_column("Repetition ended (95 %)")
    table.add_column("Run over", justify="right")
    table.add_column("Unknown", justify="right")
    for row in report.next_steps:
        _add_steps(table, row)
    return table


def _add_steps(table: Table, row: NextSteps) -> None:
    cells = (shown(row.style, 40) or "no note", shown(row.mode, 20), "all", _rate(row.ended))
    rest = (f"{row.over:,}", f"{row.unknown:,}")
    table.add_row(*(Text(cell) for cell in (*cells, *rest)))
    if len(row.by_count) > 1:
        for each in row.by_count:
            more = " or more" if each.count == HIGHEST_COUNT else ""
            nested = ("", "", f"{each.count}{more}", _rate(each.ended), "", "")
            table.add_row(*(Text(cell, style="dim") for cell in nested))


def _rate(rate: Rate) -> str:
    if not rate.of:
        return "–"
    return f"{words.percent(rate.rate)} ({words.interval(rate)}), {rate.hits:,} of {rate.of:,}"


def _short_rate(rate: Rate) -> str:
    return f"{words.percent(rate.rate)} of {rate.of:,}" if rate.of else "–"


def _bar(share: float, width: int, *, ascii_only: bool) -> str:
    if ascii_only:
        return ("#" * round(share * width)).ljust(width)
    full, part = divmod(round(share * width * 8), 8)
    return f"{'█' * full}{_EIGHTHS[part] if part else ''}".ljust(width)
