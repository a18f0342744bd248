"""The backlog of tools to mend: what was repeated, what stood behind it, what that came to."""

from __future__ import annotations

from repeatguard_sdk.report._build import build_report
from repeatguard_sdk.report._rates import Rate, rate_of
from repeatguard_sdk.report._values import (
    Answered,
    CauseCount,
    CountRate,
    Day,
    EarlyEnds,
    Filters,
    FindingCount,
    NextSteps,
    Report,
    ResultGroup,
    ToolReport,
    WouldHave,
)
from repeatguard_sdk.report.as_csv import to_csv
from repeatguard_sdk.report.as_json import to_json

__all__ = [
    "Answered",
    "CauseCount",
    "CountRate",
    "Day",
    "EarlyEnds",
    "Filters",
    "FindingCount",
    "NextSteps",
    "Rate",
    "Report",
    "ResultGroup",
    "ToolReport",
    "WouldHave",
    "build_report",
    "rate_of",
    "to_csv",
    "to_json",
]
