"""The report as CSV for spreadsheets, one row a tool."""

from __future__ import annotations

import csv
import io

from repeatguard_sdk.report._values import Report, ToolReport
from repeatguard_sdk.report._visible import visible
from repeatguard_sdk.report._words import tool_name

COLUMNS = (
    "tool",
    "effect",
    "events",
    "share",
    "runs",
    "suspected_cause",
    "calls",
    "executed",
    "replayed",
    "joined",
    "refused",
    "exits",
    "ended_hits",
    "ended_of",
    "ended_rate",
    "ended_low",
    "ended_high",
    "results",
    "top_result_events",
    "top_result_failed",
    "top_result",
)
# A cell that begins with one of these is a formula to some spreadsheet; the last four are the
# wide forms, which East Asian ones take for the same.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def to_csv(report: Report) -> str:
    """Return the report as CSV: a head, and a row for each tool.

    A text that a spreadsheet would take for a formula begins with an apostrophe, and control
    characters are written as in a Python text.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_row(tool) for tool in report.tools)
    return out.getvalue()


def _row(tool: ToolReport) -> list[str | int | float | None]:
    top = tool.groups[0] if tool.groups else None
    return [
        _cell(tool_name(tool.tool, 200)),
        tool.effect,
        tool.events,
        round(tool.share, 4),
        tool.runs,
        tool.suspected_cause or "",
        tool.calls,
        tool.executed,
        tool.replayed,
        tool.joined,
        tool.refused,
        tool.exits,
        tool.ended.hits,
        tool.ended.of,
        *(
            None if part is None else round(part, 4)
            for part in (tool.ended.rate, tool.ended.low, tool.ended.high)
        ),
        len(tool.groups),
        0 if top is None else top.events,
        "" if top is None else str(top.failed).lower(),
        "" if top is None else _cell(visible(top.preview)),
    ]


def _cell(text: str) -> str:
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
