"""`repeatguard audit` as a person runs it: what is printed, written and returned."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich")
pytest.importorskip("typer")

REAL = Path(__file__).parent.parent / "data" / "transcripts.jsonl"


def command(*arguments: object, given: str = "", columns: int = 100) -> tuple[int, str, str]:
    """Run it and return its status, its output and its errors."""
    done = subprocess.run(
        [sys.executable, "-m", "repeatguard_sdk", "audit", *map(str, arguments)],
        input=given.encode("utf-8", "surrogatepass"),
        capture_output=True,
        env={"COLUMNS": str(columns), "PATH": "", "PYTHONPATH": ":".join(filter(None, sys.path))},
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def lines(*runs: dict[str, Any]) -> str:
    return "".join(json.dumps(run) + "\n" for run in runs)


def a_run(tool: str = "get_order", result: str = "x", times: int = 3) -> dict[str, Any]:
    """Return a run of our own lines in which one call is made again and again."""
    calls = [
        {"i": i, "turn": i, "tool": tool, "args": {"id": 1}, "error": False, "result": result}
        for i in range(times)
    ]
    return {"run_id": "r", "calls": calls}


def row(output: str, label: str) -> list[str]:
    """Return the cells of a row."""
    (line,) = [line for line in output.splitlines() if line.strip().startswith(label)]
    return [cell for cell in line.strip().removeprefix(label).split("  ") if cell.strip()]


def test_the_policies_stand_side_by_side() -> None:
    """The strict policy's wrong replays are seen beside the default's."""
    status, output, errors = command(REAL)
    assert (0, "") == (status, errors)
    assert "174 runs (174 lines), 1,929 tool calls, 88 tools" in output
    wrong = [cell.strip() for cell in row(output, "with another result than recorded")]
    assert ["0 of 7", "27 of 122", "–"] == wrong
    succeeded = [cell.strip() for cell in row(output, "that had succeeded in truth")]
    assert ["0 of 4", "16 of 35", "–"] == succeeded
    assert "24 runs of 174 hold no message of a person" in output


def test_it_fits_a_narrow_terminal() -> None:
    """No line is longer than the terminal is wide."""
    _, output, _ = command(REAL, columns=80)
    assert max(map(len, output.splitlines())) <= 80


def test_guessed_effects_are_listed_and_written_for_correction(tmp_path: Path) -> None:
    """Written with one command, corrected by hand, and used by the next."""
    pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    path, tools = tmp_path / "runs.jsonl", tmp_path / "tools.toml"
    path.write_text(lines(a_run("get_order")), encoding="utf-8")
    status, output, _ = command(path, "--write-tools", tools)
    assert 0 == status
    assert "guessed from the name: get_order = read" in output
    assert "read?" in output
    text = tools.read_text(encoding="utf-8")
    assert 'effect = "read"  # 3 calls, guessed from its name' in text
    tools.write_text(text.replace('"read"  #', '"live"  #'), encoding="utf-8")
    status, output, _ = command(path, "--tools", tools, "--policy", "default")
    assert 0 == status
    assert "guessed" not in output
    assert ["0"] == [cell.strip() for cell in row(output, "answered from store")]


def test_as_json() -> None:
    """All that is counted, for a program to read."""
    status, output, _ = command(REAL, "--format", "json", "--policy", "strict")
    found = json.loads(output)
    assert 0 == status
    assert 1 == found["version"]
    assert ["strict"] == list(found["policies"])
    assert 27 == found["policies"]["strict"]["calls"]["wrong"]
    assert 88 == len(found["tools"])


def test_into_a_file(tmp_path: Path) -> None:
    """Plain text without a terminal's codes."""
    target = tmp_path / "audit.txt"
    status, output, _ = command(REAL, "--output", target)
    assert (0, "") == (status, output)
    text = target.read_text(encoding="utf-8")
    assert "What the guard would have done" in text
    assert "\x1b" not in text


def test_from_standard_input() -> None:
    """A log can be piped in."""
    status, output, _ = command("-", given=lines(a_run()))
    assert 0 == status
    assert "1 run (1 lines), 3 tool calls, 1 tool" in output


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With file and line; the rest is audited, and the status says so."""
    path = tmp_path / "runs.jsonl"
    path.write_text(lines(a_run()) + "broken\n" + lines(a_run()), encoding="utf-8")
    status, output, _ = command(path, tmp_path / "nowhere")
    assert 1 == status
    assert "2 runs" in output
    assert f"{path}:2: no JSON" in output.replace("\n", "")
    assert "No such file" in output


def test_a_file_of_something_else_is_one_fault(tmp_path: Path) -> None:
    """Not one for each of its lines."""
    path = tmp_path / "notes.txt"
    path.write_text("a note\n" * 50, encoding="utf-8")
    status, output, _ = command(path)
    assert 1 == status
    assert "1 part of the files could not be read" in output
    assert "nor is any other" in output


def test_text_of_a_tool_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    """Names of tools are shown, not obeyed, and are no markup."""
    path = tmp_path / "runs.jsonl"
    name = "look\x1b[2J\u202e[red]up[/red]"
    path.write_text(lines(a_run(name)), encoding="utf-8")
    status, output, _ = command(path)
    assert 0 == status
    assert "\x1b" not in output
    assert "\u202e" not in output
    assert "[red]up[/red]" in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "lax"], "no policy 'lax'; write one of default, strict, advisory"),
        (["--from", "xml"], "no format 'xml'; write one of"),
        (["--format", "pdf"], "--format pdf: give one of table, json"),
        (["--workers", "0"], "--workers 0: give a number of processes"),
        (["--tools", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["--write-tools", str(REAL)], "it is there already; give a new file"),
        (["--tools", "a.toml", "--write-tools", "a.toml"], "that is the file of --tools"),
    ],
)
def test_a_wrong_option_is_one_line(arguments: list[str], said: str) -> None:
    """On the error stream, with status 2 and no traceback."""
    status, output, errors = command(REAL, *arguments)
    assert (2, "") == (status, output)
    assert said in errors
    assert 1 == len(errors.splitlines())
