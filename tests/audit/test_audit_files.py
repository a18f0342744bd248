"""Whole files through the audit: sums, faults with their lines, ranges, processes, declarations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repeatguard_sdk import Policy
from repeatguard_sdk.audit import (
    POLICIES,
    AuditReport,
    RecordedCall,
    RecordedRun,
    audit_files,
    audit_run,
    load_tools,
    write_tools,
)
from repeatguard_sdk.audit import _many as many
from repeatguard_sdk.exceptions import ToolDeclarationError

REAL = Path(__file__).parent.parent / "data" / "transcripts.jsonl"


def run_line(name: str, *results: str, tool: str = "get_order", **more: Any) -> dict[str, Any]:
    """Return a run of our own lines: equal calls, one a turn, with these results."""
    calls = [
        {"i": i, "turn": i, "tool": tool, "args": {"id": 1}, "error": False, "result": text}
        for i, text in enumerate(results)
    ]
    return {"run_id": name, "calls": calls, **more}


def write(path: Path, *lines: Any) -> str:
    """Write JSON lines; a text is written as it is."""
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text(text + "\n", encoding="utf-8")
    return str(path)


# -- sums ----------------------------------------------------------------------------------------


def test_on_the_real_runs_the_strict_rule_is_seen_to_be_wrong() -> None:
    """Side by side: the default policy serves no other result, a plain count 27 of them."""
    report = audit_files([REAL], policies=("default", "strict", "advisory"))
    assert (174, 1929, 0) == (report.runs, report.calls, report.faulty)
    default, strict, advisory = (report.policies[name] for name in POLICIES)
    assert (0, 27) == (default.sums.wrong, strict.sums.wrong)
    assert (27, 145, 0) == (default.sums.replayed, strict.sums.replayed, advisory.sums.replayed)
    assert (48, 212) == (default.sums.flagged, strict.sums.flagged)
    assert (0, 16) == (default.stuck_but_succeeded, strict.stuck_but_succeeded)
    assert 24 == report.without_user


def test_sums_are_those_of_the_runs(tmp_path: Path) -> None:
    """Replays, exits, calls after the end, wrong results: each counted once, by tool and in all."""
    path = write(
        tmp_path / "runs.jsonl",
        run_line("a", "x", "x", "x", "x", "x", reward=0),
        run_line("b", "x", "y"),
        run_line("c", "x", tool="cancel_order"),
    )
    report = audit_files([path])
    (default,) = report.policies.values()
    sums = default.sums
    assert (3, 8) == (report.runs, report.calls)
    assert (3, 2, 1, 1) == (sums.flagged, sums.replayed, sums.exits, sums.wrong)
    assert (2, 1, 0, 2) == (default.touched, default.stuck, default.finished, default.after_end)
    assert (1, 0) == (default.stuck_and_known, default.stuck_but_succeeded)
    assert 2 + 1 + 2 == default.saved
    assert {"get_order"} == set(default.tools)
    assert ("read", "guessed") == report.tools["get_order"].effect()
    assert [("cancel_order", "write"), ("get_order", "read")] == list(report.guessed())
    assert json.loads(json.dumps(report.as_dict()))["policies"]["default"]["saved"] == 5


def test_reports_add_up_in_any_order() -> None:
    """The report of two halves is the report of the whole."""
    call = RecordedCall("get_order", {"id": 1}, "x", None, 1)
    runs = [
        RecordedRun(name, [call._replace(turn=turn) for turn in range(number)])
        for name, number in [("a", 1), ("b", 2), ("c", 5), ("d", 3)]
    ]

    def report(chosen: list[RecordedRun]) -> AuditReport:
        made = AuditReport(("default", "strict"))
        for run in chosen:
            audits = {
                "default": audit_run(run),
                "strict": audit_run(run, policy=Policy.strict()),
            }
            made.count(audits, "lines")
        return made

    whole = report(runs).as_dict()
    for cut in range(5):
        one, other = report(runs[cut:]), report(runs[:cut])
        one.add(other)
        assert whole == one.as_dict()


# -- what cannot be read -------------------------------------------------------------------------


def test_a_broken_line_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    """With its file and line, also where the file is cut short."""
    good = run_line("a", "x", "x")
    path = write(tmp_path / "runs.jsonl", good, '{"run_id": ', good, "[1, 2]", good)
    with Path(path).open("a", encoding="utf-8") as file:
        file.write('{"run_id": "half", "calls": [{"i"')
    report = audit_files([path])
    assert (3, 4) == (report.runs, report.faulty)
    assert [2, 4, 4, 6] == sorted(fault.line for fault in report.faults)
    assert {path} == {fault.path for fault in report.faults}


def test_lines_are_counted_through_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the file was cut to be read by several, a fault has its own line."""
    monkeypatch.setattr(many, "_RANGE_BYTES", 500)
    lines: list[Any] = [run_line(f"r{number}", "x", "x") for number in range(40)]
    for number in (7, 23, 39):
        lines[number] = "broken"
    path = write(tmp_path / "runs.jsonl", *lines)
    other = write(tmp_path / "other.jsonl", "broken", run_line("z", "x"))
    report = audit_files([path, other])
    assert [8, 24, 40, 1] == [fault.line for fault in report.faults]
    assert 38 == report.runs


def test_several_processes_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And faults keep their lines."""
    lines: list[Any] = [run_line(f"r{number}", "x", "x", "y") for number in range(60)]
    lines[41] = "broken"
    path = write(tmp_path / "runs.jsonl", *lines)
    monkeypatch.setattr(many, "_RANGE_BYTES", 2_000)
    alone = audit_files([path], workers=1)
    monkeypatch.setattr(many, "_WORTH_PROCESSES", 0)
    done: list[tuple[int, int]] = []
    spread = audit_files(
        [path, REAL], workers=2, progress=lambda now, all_bytes: done.append((now, all_bytes))
    )
    alone.add(audit_files([REAL], workers=1))
    assert alone.as_dict() == spread.as_dict()
    assert [42] == [fault.line for fault in spread.faults]
    assert len(done) > 3
    assert done[-1][0] == done[-1][1]


def test_what_is_no_transcript_is_said(tmp_path: Path) -> None:
    """No such file, an empty one, one in no known format: each a fault, and the rest goes on."""
    path = write(tmp_path / "runs.jsonl", run_line("a", "x"))
    other = write(tmp_path / "other.jsonl", {"what": "is this"})
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    report = audit_files([tmp_path / "nowhere", other, empty, path, tmp_path])
    told = {Path(fault.path).name: fault.what for fault in report.faults}
    assert "No such file" in told["nowhere"]
    assert "--from" in told["other.jsonl"]
    assert "empty" in told["empty.jsonl"]
    assert 1 == report.runs


def test_a_conversation_without_calls_is_no_run(tmp_path: Path) -> None:
    """There is nothing to guard in it; it is counted apart."""
    talk = {
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    }
    report = audit_files([write(tmp_path / "talk.jsonl", talk)])
    assert (0, 1, 0) == (report.runs, report.without_calls, report.faulty)


def test_wrong_names_are_rejected() -> None:
    """Before anything is read."""
    with pytest.raises(ValueError, match="no policy 'lax'; write one of default, strict"):
        audit_files([REAL], policies=("lax",))
    with pytest.raises(ValueError, match="policies is empty"):
        audit_files([REAL], policies=())
    with pytest.raises(ValueError, match="no format 'xml'; write one of"):
        audit_files([REAL], format_name="xml")


def test_a_big_file_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """Its size does not show in what the process holds at its peak."""
    program = (
        "import sys, tracemalloc; from repeatguard_sdk.audit import audit_files\n"
        "tracemalloc.start(); audit_files([sys.argv[1]], workers=1)\n"
        "print(tracemalloc.get_traced_memory()[1])"
    )
    line = json.dumps(run_line("a", "x" * 2_000, "x" * 2_000, "y" * 2_000))
    peaks = []
    for times in (100, 3_000):
        path = tmp_path / f"{times}.jsonl"
        path.write_text(f"{line}\n" * times, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout))
    assert (3_000 - 100) * len(line) > 16_000_000
    assert peaks[1] - peaks[0] < 4_000_000


# -- declarations --------------------------------------------------------------------------------


def test_tools_are_declared_in_toml(tmp_path: Path) -> None:
    """What is declared counts, and the rest is as the transcript or the name tells."""
    pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    path = write(tmp_path / "runs.jsonl", run_line("a", "x", "x", "x"))
    tools = tmp_path / "tools.toml"
    tools.write_text('[tools.get_order]\neffect = "live"\n', encoding="utf-8")
    report = audit_files([path], tools=str(tools))
    assert ("live", "declared") == report.tools["get_order"].effect()
    (default,) = report.policies.values()
    assert (0, 1) == (default.sums.replayed, default.sums.noted)


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    """Whatever a tool is called."""
    pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    names = ["get_order", "mcp.server/tool", 'a "quoted" one', "日本", "", "tab\there", "del\x7f"]
    tools = tmp_path / "tools.toml"
    tools.write_text(
        write_tools((name, "read", "guessed", number) for number, name in enumerate(names)),
        encoding="utf-8",
    )
    assert {name: {"effect": "read"} for name in names} == load_tools(str(tools))
    assert "# 1 call, guessed from its name" in tools.read_text(encoding="utf-8")


def test_tools_are_declared_in_a_module(tmp_path: Path) -> None:
    """A Python file of decorated tools brings their signatures and rules along."""
    module = tmp_path / "my_tools.py"
    module.write_text(
        "from repeatguard_sdk import Registry, guarded_tool\n"
        "mine = Registry()\n"
        "@guarded_tool(case_fold=['id'], registry=mine)\n"
        "def get_order(id, limit=5):\n    'Look an order up.'\n",
        encoding="utf-8",
    )
    line = run_line("a", "x", "x")
    line["calls"][1]["args"] = {"id": " 1", "limit": 5}
    line["calls"][0]["args"] = {"id": "1"}
    report = audit_files([write(tmp_path / "runs.jsonl", line)], tools=str(module))
    (default,) = report.policies.values()
    assert 1 == default.sums.replayed
    assert ("read", "declared") == report.tools["get_order"].effect()


def test_a_module_of_tools_is_run_once(tmp_path: Path) -> None:
    """What it only puts into the default registry is found, though its names stay there."""
    module = tmp_path / "made_tools.py"
    module.write_text(
        "from repeatguard_sdk import guarded_tool\n"
        "def make():\n"
        "    @guarded_tool(effect='live')\n"
        "    def get_order_of_a_factory(id): ...\n"
        "make()\n"
        "with open(__file__ + '.log', 'a') as log: log.write('run ')\n",
        encoding="utf-8",
    )
    line = run_line("a", "x", "x", tool="get_order_of_a_factory")
    report = audit_files([write(tmp_path / "runs.jsonl", line)], tools=str(module))
    assert ("live", "declared") == report.tools["get_order_of_a_factory"].effect()
    assert "run " == Path(f"{module}.log").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none.toml", None, "cannot be read: No such file"),
        ("bad.toml", "[tools", "is no TOML"),
        ("other.toml", "x = 1", "declares no tool"),
        ("flat.toml", "tools = 3", "tools is no table"),
        ("entry.toml", "[tools]\nget = 1", "tools.get is no table"),
        ("key.toml", "[tools.get]\nefect = 'read'", "has unknown ['efect']"),
        ("effect.toml", "[tools.get]\neffect = 'reed'", "cannot be 'reed'"),
        ("none.py", None, "cannot be imported"),
        ("broken.py", "1 / 0", "ZeroDivisionError"),
        ("empty.py", "x = 1", "declares no tool"),
        ("no.such.module", None, "cannot be imported"),
    ],
)
def test_a_declaration_that_cannot_be_read(
    name: str, text: str | None, said: str, tmp_path: Path
) -> None:
    """It is said what is wrong, and nothing is audited without it."""
    if name.endswith(".toml"):
        pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    where = tmp_path / name
    if text is not None:
        where.write_text(text, encoding="utf-8")
    given = name if name == "no.such.module" else str(where)
    with pytest.raises(ToolDeclarationError) as error:
        audit_files([REAL], tools=given)
    assert said in str(error.value)
