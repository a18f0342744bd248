"""`repeatguard report`: the backlog of tools to mend."""

from __future__ import annotations

import sqlite3
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.console import Console

from repeatguard_sdk._types import FindingKind
from repeatguard_sdk.cli._table import print_report
from repeatguard_sdk.cli._telling import FAULT, USAGE, fail, let_any_character_pass, write
from repeatguard_sdk.cli._when import moment
from repeatguard_sdk.exceptions import RepeatGuardError
from repeatguard_sdk.report import Filters, Report, build_report, to_csv, to_json
from repeatguard_sdk.report import _words as words
from repeatguard_sdk.sinks.sqlite import read_events, read_runs

FORMATS = ("table", "json", "csv", "html")
FINDINGS: tuple[FindingKind, ...] = get_args(FindingKind)
_FILE_WIDTH = 100


def report(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What SQLiteSink wrote.")],
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="From then on: 2026-11-30, 2026-11-30T08:00, 7d.")
    ] = "",
    until: Annotated[
        str, typer.Option(metavar="WHEN", help="Before then; a date without time is included.")
    ] = "",
    tool: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this tool; may be repeated.")
    ] = None,
    finding: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help=f"Only {', '.join(FINDINGS)}; may be repeated."),
    ] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(metavar="N", help="The host's limit of turns, to say how many were left."),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        str, typer.Option(metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.")
    ] = "table",
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file.")] = None,
) -> None:
    """List the tools to mend: what was repeated, what stood behind it, what that came to."""
    let_any_character_pass()
    if format not in FORMATS:
        fail(f"--format {format}: give one of {', '.join(FORMATS)}", USAGE)
    if max_turns is not None and max_turns < 1:
        fail(f"--max-turns {max_turns}: give the host's limit of turns, at least 1", USAGE)
    filters = _filters(since, until, tool or [], finding or [])
    paths = _checked(files, output)
    found = _found(paths, filters, max_turns)
    if format == "table":
        _print(found, output)
    else:
        write(_renderer(format)(found), output)


def _filters(since: str, until: str, tools: list[str], findings: list[str]) -> Filters:
    unknown = [kind for kind in findings if kind not in FINDINGS]
    if unknown:
        fail(f"--finding {unknown[0]}: give one of {', '.join(FINDINGS)}", USAGE)
    now = time.time()
    filters = Filters(
        since=_moment("--since", since, now),
        until=_moment("--until", until, now),
        tools=tuple(dict.fromkeys(tools)),
        findings=tuple(kind for kind in FINDINGS if kind in findings),
    )
    if filters.since is not None and filters.until is not None and filters.since >= filters.until:
        fail(f"--since {since} is not before --until {until}: no moment lies between", USAGE)
    return filters


def _moment(option: str, text: str, now: float) -> float | None:
    if not text:
        return None
    try:
        return moment(text, now=now, ends=option == "--until")
    except ValueError as error:
        fail(f"{option} {error}", USAGE)


def _checked(files: list[Path], output: Path | None) -> list[Path]:
    """Return the files, each once."""
    paths: dict[Path, Path] = {}
    for path in files:
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            fail(f"{path}: there is no such file", FAULT)
        except OSError as error:
            fail(f"{path}: {error.strerror or error}", FAULT)
        if stat.S_ISDIR(mode):
            fail(f"{path}: a folder; give the files in it", FAULT)
        paths.setdefault(path.resolve(), path)
    if output is not None and output.resolve() in paths:
        fail(f"--output {output}: that is a file to read; give another one", USAGE)
    return list(paths.values())


def _found(paths: list[Path], filters: Filters, max_turns: int | None) -> Report:
    """Read the report, and fail if the filters leave nothing of what there is."""
    found = _read(paths, filters, max_turns)
    if found.events or filters == Filters():
        return found
    everything = _read(paths, Filters(), None)
    if everything.events:
        tools = ", ".join(words.tool_name(tool.tool) for tool in everything.tools[:8])
        more = ", …" if len(everything.tools) > 8 else ""
        first, last = words.moment(everything.first_at), words.moment(everything.last_at)
        events = words.count(everything.events, "event")
        fail(f"no event fits; there are {events} from {first} to {last}, of {tools}{more}", FAULT)
    return found


def _read(paths: list[Path], filters: Filters, max_turns: int | None) -> Report:
    try:
        return build_report(
            read_events(
                paths,
                since=filters.since,
                until=filters.until,
                tools=filters.tools or None,
                findings=filters.findings or None,
            ),
            read_runs(paths, since=filters.since, until=filters.until),
            filters=filters,
            max_turns=max_turns,
        )
    except (OSError, RepeatGuardError, sqlite3.Error) as error:
        fail(" ".join(str(error).split()) or type(error).__name__, FAULT)


def _renderer(format: str) -> Callable[[Report], str]:  # noqa: A002
    if format == "json":
        return to_json
    if format == "csv":
        return to_csv
    try:
        # Loads jinja2, which the other formats can do without.
        from repeatguard_sdk.report.as_html import to_html
    except ModuleNotFoundError as missing:
        if missing.name != "jinja2":
            raise
        fail('--format html needs jinja2: pip install "repeatguard-sdk[report]"', USAGE)
    return to_html


def _print(found: Report, output: Path | None) -> None:
    if output is None:
        print_report(found, Console(markup=False, emoji=False, highlight=False))
        return
    console = Console(
        width=_FILE_WIDTH, color_system=None, markup=False, emoji=False, highlight=False
    )
    with console.capture() as captured:
        print_report(found, console)
    lines = captured.get().splitlines()
    write("".join(f"{line.rstrip()}\n" for line in lines), output)
