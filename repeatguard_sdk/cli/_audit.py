"""`repeatguard audit`: what the guard would have done in transcripts that exist already."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from repeatguard_sdk.audit import POLICIES, AuditReport, audit_files, write_tools
from repeatguard_sdk.audit.readers import READERS
from repeatguard_sdk.cli._audit_table import print_audit
from repeatguard_sdk.cli._telling import FAULT, USAGE, fail, let_any_character_pass, write
from repeatguard_sdk.exceptions import RepeatGuardError

FORMATS = ("table", "json")
_FILE_WIDTH = 100


def audit(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Transcripts; - is standard input.")
    ],
    format_name: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FORMAT", help=f"Told by the content, or {', '.join(READERS)}."
        ),
    ] = None,
    tools: Annotated[
        str | None,
        typer.Option(metavar="WHERE", help="Declarations: tools.toml, tools.py or package.module."),
    ] = None,
    save_tools: Annotated[
        Path | None,
        typer.Option(
            "--write-tools", metavar="FILE", help="Write a tools.toml of what was taken for what."
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Of {', '.join(POLICIES)}; may be repeated."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; one a core if nothing is said.")
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        str, typer.Option(metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.")
    ] = "table",
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file.")] = None,
) -> None:
    """Tell what the guard would have done in transcripts: replayed, noted, ended, and how wrongly.

    The exit status is 1 where a part of the files could not be read.
    """
    let_any_character_pass()
    if format not in FORMATS:
        fail(f"--format {format}: give one of {', '.join(FORMATS)}", USAGE)
    if workers is not None and workers < 1:
        fail(f"--workers {workers}: give a number of processes, at least 1", USAGE)
    _check_written(save_tools, tools)
    with _progress() as show:
        try:
            found = audit_files(
                dict.fromkeys(files),
                format_name=format_name,
                tools=tools,
                policies=tuple(dict.fromkeys(policy or POLICIES)),
                workers=workers,
                progress=show,
            )
        except (ValueError, RepeatGuardError) as error:
            fail(str(error), USAGE)
    if save_tools is not None:
        write(write_tools(_tools_of(found)), save_tools)
    if format == "json":
        text = json.dumps(found.as_dict(), ensure_ascii=False, indent=2) + "\n"
        write(text.encode("utf-8", "replace").decode(), output)
    else:
        _print(found, save_tools, output)
    if found.faulty or not (found.runs or found.without_calls):
        raise typer.Exit(FAULT)


def _check_written(save_tools: Path | None, tools: str | None) -> None:
    if save_tools is None:
        return
    if tools is not None and save_tools.resolve() == Path(tools).resolve():
        fail(f"--write-tools {save_tools}: that is the file of --tools; give another one", USAGE)
    if save_tools.exists():
        fail(f"--write-tools {save_tools}: it is there already; give a new file", USAGE)


def _tools_of(found: AuditReport) -> list[tuple[str, str, str, int]]:
    return [(name, *found.tools[name].effect(), found.tools[name].calls) for name in found.ranked()]


@contextmanager
def _progress() -> Generator[Callable[[int, int], Any], None, None]:
    """Show how far the files are read, where a person looks at the terminal."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if not (sys.stderr.isatty() and console.is_terminal):
        yield lambda done, total: None
        return
    columns = (TextColumn("audit"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _print(found: AuditReport, save_tools: Path | None, output: Path | None) -> None:
    if output is None:
        print_audit(found, Console(markup=False, emoji=False, highlight=False), save_tools)
        return
    console = Console(
        width=_FILE_WIDTH, color_system=None, markup=False, emoji=False, highlight=False
    )
    with console.capture() as captured:
        print_audit(found, console, save_tools)
    lines = captured.get().splitlines()
    write("".join(f"{line.rstrip()}\n" for line in lines), output)
