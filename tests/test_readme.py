"""The README holds: its examples run as they stand and print what it says."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import repeatguard_sdk
from repeatguard_sdk import guarded_tool
from repeatguard_sdk._types import EFFECTS, MODES, RULE_NAMES, Reason

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
PRINTED = [text for language, text in BLOCKS if language == "text"]
COMMANDS = [text for language, text in BLOCKS if language == "bash"]


def run(program: str, tmp_path: Path) -> str:
    environment = {**os.environ, "REPEATGUARD_MODE": ""}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_there_is_something_to_run() -> None:
    """The README has an example and the text it prints."""
    assert PYTHON
    assert 2 == len(PRINTED)


@pytest.mark.parametrize("program", PYTHON, ids=range(len(PYTHON)))
def test_python_blocks_run(program: str, tmp_path: Path) -> None:
    """Each example runs by itself, without a warning."""
    run(program, tmp_path)


def test_the_first_example_prints_what_is_shown(tmp_path: Path) -> None:
    """The text below the first example is what it prints, to the letter."""
    assert PRINTED[0] == run(PYTHON[0], tmp_path)


def test_the_audit_prints_what_is_shown(tmp_path: Path) -> None:
    """The table below the command is the head of what it prints, to the letter."""
    pytest.importorskip("typer")
    command = [sys.executable, "-m", "repeatguard_sdk", "audit"]
    command.append(str(Path(__file__).parent / "data" / "transcripts.jsonl"))
    environment = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path, env=environment)
    printed = [line.rstrip() for line in done.stdout.decode().splitlines()]
    shown = PRINTED[1].splitlines()
    assert shown == printed[: len(shown)]


def test_the_two_commands() -> None:
    """One command audits the real runs and one runs the tests, each in a block of its own."""
    assert 2 == len(COMMANDS)
    assert all(1 == len(command.splitlines()) for command in COMMANDS)
    assert "repeatguard audit" in COMMANDS[0]
    assert "pytest" in COMMANDS[1]


def test_every_parameter_is_named() -> None:
    """The README names every parameter of the decorator."""
    parameters = list(inspect.signature(guarded_tool).parameters)[1:]
    assert [] == [name for name in parameters if f"`{name}" not in README]


@pytest.mark.parametrize("word", [*EFFECTS, *RULE_NAMES, *MODES, *get_args(Reason)])
def test_every_word_is_named(word: str) -> None:
    """The README names every effect, rule, mode and end of a run."""
    assert f"`{word}`" in README


def test_named_files_exist() -> None:
    """Every module and file that the README names is there."""
    root = Path(__file__).parent.parent
    package = Path(repeatguard_sdk.__file__).parent
    named = set(re.findall(r"`([\w./-]+\.(?:py|md))`", README)) - {".ci/noxfile.py"}
    missing = {name for name in named if not any((top / name).exists() for top in (root, package))}
    assert set() == missing
