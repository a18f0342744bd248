"""The report as one HTML page without network, script or other files; wants the extra ``report``."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

import jinja2

from repeatguard_sdk.report import _sentences as sentences
from repeatguard_sdk.report import _words as words
from repeatguard_sdk.report._charts import columns
from repeatguard_sdk.report._rates import METHOD, Rate
from repeatguard_sdk.report._tallies import HIGHEST_COUNT
from repeatguard_sdk.report._values import Report
from repeatguard_sdk.report._visible import shown

MOST_TOOLS = 50
MOST_GROUPS = 8
_NO_BREAK = "\u00a0"


def to_html(report: Report) -> str:
    """Return the report as a page.

    Whatever tools and models wrote is escaped, isolated from the direction of the text around it and
    shown with its control characters visible. The page's own policy forbids scripts and
    every request, so that a fault in that would still do no harm.
    """
    style = _read("page.css")
    # The one style is allowed by its hash: a style that came in with a text would not be.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = _environment().from_string(_read("page.html.j2"))
    return page.render(
        report=report,
        style=style,
        style_hash=f"sha256-{digest}",
        columns=columns(report.days),
        most_tools=MOST_TOOLS,
        most_groups=MOST_GROUPS,
        highest_count=HIGHEST_COUNT,
        method=METHOD,
        percent=_percent,
        interval=_interval,
        words=words,
        sentences=sentences,
        shown=shown,
    )


def _percent(share: float | None) -> str:
    return words.percent(share).replace(" ", _NO_BREAK)


def _interval(rate: Rate) -> str:
    return words.interval(rate).replace(" ", _NO_BREAK)


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _read(name: str) -> str:
    return resources.files("repeatguard_sdk.report").joinpath(name).read_text(encoding="utf-8")
