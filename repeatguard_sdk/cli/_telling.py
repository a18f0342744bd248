"""How a command tells a person what is wrong, and where its output goes."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import NoReturn

import typer

from repeatguard_sdk.report._visible import visible

USAGE = 2
FAULT = 1


def fail(message: str, status: int) -> NoReturn:
    """Say in one line what is wrong and end the command.

    Args:
        message: what was given, what is allowed, what to write; without a traceback.
        status: `USAGE` for what was asked for, `FAULT` for what was found.
    """
    typer.echo(f"repeatguard: {visible(message)}", err=True)
    raise typer.Exit(status)


def write(text: str, output: Path | None) -> None:
    """Write a text to a file, or to standard output where none is given."""
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        fail(f"{output}: {error.strerror or error}", FAULT)


def let_any_character_pass() -> None:
    """Let standard output take characters that its encoding lacks, each as its code."""
    out: object = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")
