"""The command `repeatguard report`, on files that real runs left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

import demo_runs
import report_strategies as given_
from repeatguard_sdk.cli import main
from repeatguard_sdk.cli._table import print_report
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.report import Report, build_report
from repeatguard_sdk.sinks.sqlite import SQLiteSink

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of events, one without, and one that is something else."""
    folder = tmp_path_factory.mktemp("events")
    for name, seed in (("a.db", 1), ("b.db", 2)):
        sink = SQLiteSink(folder / name)
        demo_runs.record(sink, runs=60, seed=seed)
        sink.close()
    quiet = SQLiteSink(folder / "quiet.db")
    shop = demo_runs.Shop(demo_runs.random.Random(1))
    demo_runs.one_run(
        shop,
        quiet,
        demo_runs.Policy(),
        demo_runs.Clock(5.0),
        iter([("get_stock", {"item": "x"})]),
        0,
    )
    quiet.close()
    (folder / "notes.txt").write_text("no database\n" * 200, encoding="utf-8")
    return folder


@pytest.fixture
def command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run the command in the folder; return its exit status and what it said."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["repeatguard", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "120")
    return run


def test_the_table(command: Command) -> None:
    """It names tools with bar and cause, what stood behind, what followed and what was saved."""
    status, out, err = command("report", "a.db", "b.db", "--max-turns", "20")
    assert (0, "") == (status, err)
    for words in (
        "120 runs had an event",
        "track_parcel",
        "█",
        "reads as retryable",
        '"no scans recorded"',
        "Repetition ended (95 %)",
        "no note",
        "answered without execution",
        "up to the limit of 20 turns",
        "Say whether and when a retry can help.",
    ):
        assert words in out


def test_files_in_any_order(command: Command) -> None:
    """Two files are one report, whichever is named first, and a file named twice counts once."""
    one = command("report", "a.db", "b.db", "--format", "json")
    assert one == command("report", "b.db", "./a.db", "a.db", "--format", "json")
    a, b = (
        json.loads(command("report", name, "--format", "json")[1])["events"]
        for name in ("a.db", "b.db")
    )
    assert a + b == json.loads(one[1])["events"]


def test_the_file_tells_what_the_sink_saw(command: Command) -> None:
    """A report of the file is that of the same runs in memory."""
    sink = MemorySink(100_000)
    demo_runs.record(sink, runs=60, seed=1)
    memory = build_report(sink.repeats, sink.runs)
    found = json.loads(command("report", "a.db", "--format", "json")[1])
    assert memory.events == found["events"]
    assert [tool.tool for tool in memory.tools] == [tool["tool"] for tool in found["tools"]]
    assert memory.answered.without_execution == found["answered"]["without_execution"]
    assert memory.fire_rate.hits == found["fire_rate"]["hits"]


def test_filters(command: Command) -> None:
    """Time, tool and finding each leave a part of it, and the report says so."""
    everything = json.loads(command("report", "a.db", "--format", "json")[1])
    some = ("--tool", "track_parcel", "--tool", "get_stock", "--finding", "repeat")
    found = json.loads(command("report", "a.db", "--format", "json", *some)[1])
    assert {"track_parcel", "get_stock"} == {tool["tool"] for tool in found["tools"]}
    assert 0 < found["events"] < everything["events"]
    half = json.loads(command("report", "a.db", "--format", "json", "--since", "2026-09-20")[1])
    rest = json.loads(command("report", "a.db", "--format", "json", "--until", "2026-09-19")[1])
    assert half["events"] + rest["events"] == everything["events"]
    assert "Only since 2026-09-" in command("report", "a.db", "--since", "2026-09-20")[1]


@pytest.mark.parametrize("format", ["table", "json", "csv", "html"])
def test_output_to_a_file(command: Command, format: str, tmp_path: Path) -> None:
    """What would be printed is in the file, in UTF-8 and without colours."""
    place = tmp_path / "out"
    assert (0, "", "") == command("report", "a.db", "--format", format, "--output", str(place))
    text = place.read_text(encoding="utf-8")
    assert "track_parcel" in text
    assert "\x1b" not in text


def test_runs_without_events(command: Command) -> None:
    """A file of calm runs is no error: the sentence says how events come about."""
    status, out, err = command("report", "quiet.db")
    assert (0, "") == (status, err)
    assert "No events yet." in out
    assert "0 of 1 run had an event" in out


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("none.db",), 1, "none.db: there is no such file"),
        (("notes.txt",), 1, "notes.txt"),
        ((".",), 1, "a folder; give the files in it"),
        (("a.db", "--tool", "nothing"), 1, "no event fits; there are"),
        (("a.db", "--since", "2030-01-01"), 1, "track_parcel"),
        (("a.db", "--since", "soon"), 2, "--since 'soon': write a date"),
        (("a.db", "--until", "later"), 2, "--until 'later'"),
        (("a.db", "--since", "1d", "--until", "2d"), 2, "is not before"),
        (("a.db", "--finding", "loop"), 2, "give one of repeat, cycle"),
        (("a.db", "--format", "xml"), 2, "give one of table, json"),
        (("a.db", "--max-turns", "0"), 2, "at least 1"),
        (("a.db", "--output", "./a.db"), 2, "a file to read"),
        (("a.db", "--output", "no/where.html"), 1, "No such file or directory"),
        (("x" * 300,), 1, "name too long"),
        (("a\x1b[2Jb.db",), 1, "a\\x1b[2Jb.db"),
    ],
)
def test_what_a_person_gets_wrong(
    command: Command, arguments: tuple[str, ...], status: int, words: str
) -> None:
    """One plain line on standard error says it; there is no traceback and no other output."""
    found, out, err = command("report", *arguments)
    assert (status, "") == (found, out)
    assert 1 == err.count("\n")
    assert words in err
    assert err.startswith("repeatguard: ")


def test_a_command_is_needed(command: Command) -> None:
    """Alone it shows its help, and each command has one."""
    assert "report" in "".join(command()[1:])
    status, out, _ = command("report", "--help")
    assert 0 == status
    assert "--max-turns" in out


# -- where an extra is missing ---------------------------------------------------------------------


def without(module: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv[0] = 'repeatguard'; "
        "from repeatguard_sdk.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("typer", "cli", ["report", "a.db"]),
        ("rich", "cli", ["report", "a.db"]),
        ("jinja2", "report", ["report", "a.db", "--format", "html"]),
    ],
)
def test_a_missing_extra(folder: Path, module: str, extra: str, arguments: list[str]) -> None:
    """One line says what to install."""
    done = without(module, *arguments, cwd=folder)
    assert (2, "") == (done.returncode, done.stdout)
    assert 1 == done.stderr.count("\n")
    assert f'pip install "repeatguard-sdk[{extra}]"' in done.stderr


def test_the_other_formats_need_no_jinja2(folder: Path) -> None:
    """The table is there without the page."""
    assert 0 == without("jinja2", "report", "a.db", cwd=folder).returncode


def test_as_a_module(folder: Path) -> None:
    """`python -m repeatguard_sdk` is the command, also where the terminal knows ASCII only."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-m", "repeatguard_sdk", "report", "a.db"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PYTHONIOENCODING": "ascii", "PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.isascii()
    assert "|##" in done.stdout


# -- hostile text ----------------------------------------------------------------------------------


def printed(report: Report) -> str:
    console = Console(
        width=200,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    with console.capture() as captured:
        print_report(report, console)
    return captured.get()


def test_a_terminal_obeys_no_tool() -> None:
    """No control character of a tool gets through, and its markup is shown as it is."""
    out = printed(build_report(given_.hostile_events(), []))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert not given_.CONTROLS.search(plain)
    assert "[bold red]not bold[/bold red][link=file" in plain
    assert "\x1b]" not in out
    assert "31mred" in plain
    assert "\x1b[31mred" not in out
