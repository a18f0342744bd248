"""JSON, CSV and the page: their shape, and that no text of a tool gets out of its place."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from html.parser import HTMLParser

import attrs
import pytest

import demo_runs
import report_strategies as given_
from repeatguard_sdk.report import Filters, Report, ToolReport, build_report, to_csv, to_json
from repeatguard_sdk.report._charts import columns
from repeatguard_sdk.report._values import Day
from repeatguard_sdk.report._visible import shown
from repeatguard_sdk.report.as_csv import COLUMNS
from repeatguard_sdk.report.as_html import to_html

TAGS = """
a article bdi body br caption code dd details div dl dt figcaption figure footer h1 h2 h3 head header
html li main meta nav ol p rect section span strong style summary svg table tbody td th thead title tr
ul
"""
ALLOWED_TAGS = frozenset(TAGS.split())


@pytest.fixture(scope="module")
def report() -> Report:
    sink = demo_runs.sample(runs=120)
    return build_report(sink.repeats, sink.runs, max_turns=20)


@pytest.fixture(scope="module")
def hostile() -> Report:
    return build_report(given_.hostile_events(), [])


class Reader(HTMLParser):
    """Reads a page as a browser would: tags with attributes, and the text between."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


# -- JSON ------------------------------------------------------------------------------------------


def test_the_keys_of_the_json(report: Report) -> None:
    """The keys are the attributes that `Report` documents; another set is another version."""
    value = json.loads(to_json(report))
    assert 1 == value["version"]
    assert [field.name for field in attrs.fields(Report)] == list(value)
    assert [field.name for field in attrs.fields(ToolReport)] == list(value["tools"][0])
    assert {"preview", "events", "suspected_cause"} <= set(value["tools"][0]["groups"][0])
    assert {"cause", "events", "rule"} == set(value["causes"][0])
    assert {"hits", "of", "rate", "low", "high"} == set(value["fire_rate"])


def test_json_keeps_what_the_tools_wrote(hostile: Report) -> None:
    """A program gets the texts as they were."""
    names = {tool["tool"] for tool in json.loads(to_json(hostile))["tools"]}
    assert set(given_.HOSTILE) == names


# -- CSV -------------------------------------------------------------------------------------------


def rows(report: Report) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(report))))


def test_a_row_a_tool(report: Report) -> None:
    """The rows are the tools in their order, with numbers that a program can read."""
    found = rows(report)
    assert [tool.tool for tool in report.tools] == [row["tool"] for row in found]
    assert [tool.events for tool in report.tools] == [int(row["events"]) for row in found]
    assert all(0 <= float(row["ended_low"]) <= float(row["ended_high"]) <= 1 for row in found)
    assert COLUMNS == tuple(found[0])


def test_no_cell_is_a_formula(hostile: Report) -> None:
    """A spreadsheet that opens it computes nothing and calls nobody."""
    cells = [cell for row in rows(hostile) for cell in row.values()]
    assert [] == [cell for cell in cells if cell.lstrip().startswith(tuple("=+-@\t\r\n"))]
    assert [] == [cell for cell in cells if given_.CONTROLS.search(cell) or "\n" in cell]
    assert any(cell.startswith("'=HYPERLINK") for cell in cells)


def test_csv_of_nothing_is_its_head() -> None:
    """A program finds the columns also where there is no row."""
    assert ",".join(COLUMNS) + "\n" == to_csv(build_report([], []))


# -- the page --------------------------------------------------------------------------------------


def test_the_page_is_one_file(report: Report) -> None:
    """It loads nothing, runs nothing, and says so to the browser."""
    reader = Reader(to_html(report))
    (policy,) = [
        meta["content"] or ""
        for meta in reader.of("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert {tag for tag, _ in reader.tags} <= ALLOWED_TAGS
    links = [attributes["href"] or "" for attributes in reader.of("a")]
    assert all(link.startswith("#") for link in links)
    places = {attributes.get("id") for _, attributes in reader.tags}
    assert {link[1:] for link in links} <= places
    assert not re.search(r"url\(|@import|https?:", to_html(report))


def test_hostile_text_is_text(hostile: Report) -> None:
    """Tags, quotes, template marks, controls and turned text of a tool are shown, and nothing more."""
    text = to_html(hostile)
    reader = Reader(text)
    assert {tag for tag, _ in reader.tags} <= ALLOWED_TAGS
    attributes = {name for _, found in reader.tags for name in found}
    assert not {name for name in attributes if name.startswith("on") or name in ("src", "style")}
    assert not given_.CONTROLS.search(text)
    for written in given_.HOSTILE:
        assert shown(written, 80) in reader.text
        assert shown(written, 400) in reader.text
    assert 1 == text.count("</style>")


def test_text_of_tools_is_isolated(report: Report) -> None:
    """A name that is written from right to left turns nothing around it."""
    reader = Reader(to_html(report))
    assert len(reader.of("bdi")) > 2 * len(report.tools)
    results = [found for found in reader.of("div") if found.get("class") == "result"]
    assert results
    assert all("auto" == found["dir"] for found in results)


def test_the_page_has_its_parts(report: Report) -> None:
    """Headings do not skip a level, tables have captions and columns heads."""
    reader = Reader(to_html(report))
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h\d", tag)]
    assert 1 == levels[0] == levels.count(1)
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert len(reader.of("table")) == len(reader.of("caption"))
    assert all("scope" in head for head in reader.of("th"))
    for words in ("Suspected cause", "Does a note end", "What was saved", "Over time", "Wilson"):
        assert words in reader.text


@pytest.mark.parametrize("share", [0, 1])
def test_charts_are_drawn_from_numbers(share: float, report: Report) -> None:
    """Every size of a bar is a number within its axis."""
    reader = Reader(to_html(report))
    drawn = [found for found in reader.of("rect") if found.get("class") in ("part", "range")]
    assert drawn
    assert all(0 <= float(found["width"] or "nan") <= 100 for found in drawn)


def test_a_report_of_nothing_says_how_to_get_something() -> None:
    """Instead of an empty page there is a sentence."""
    reader = Reader(to_html(build_report([], [])))
    assert 'events=SQLiteSink("events.db")' in reader.text
    assert not reader.of("table")
    filtered = to_html(build_report([], [], filters=Filters(tools=("look",))))
    assert "No event fits." in Reader(filtered).text


def test_many_tools_and_results_are_cut() -> None:
    """A model that makes up names makes no endless page; what is left out is counted."""
    event = given_.hostile_events()[0]
    events = [attrs.evolve(event, tool=f"t{number}") for number in range(70)]
    events += [attrs.evolve(event, tool="t0", result_digest=f"d{number}") for number in range(20)]
    text = Reader(to_html(build_report(events, []))).text
    assert "And 20 more tools with 20 events, in the JSON." in text
    assert "And 13 other results with 13 events." in text


# -- the chart over time ---------------------------------------------------------------------------


def test_columns_hold_every_day() -> None:
    """Days without events have their place, and long times share columns."""
    days = [Day(day=f"2026-0{month}-01", events=month, runs=1) for month in (1, 2, 9)]
    by_day = columns(days, most=400)
    assert 244 == len(by_day)
    few = columns(days, most=10)
    assert 10 >= len(few)
    assert (12, 3) == (sum(each.events for each in few), sum(each.runs for each in few))
    assert 100 == max(each.height for each in few)
    assert "2026-01-01" == by_day[0].days
    assert few[0].days.startswith("2026-01-01 to ")


def test_no_days_no_columns() -> None:
    """A chart of nothing is left out."""
    assert [] == columns([])
