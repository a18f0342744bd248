"""The examples run as a newcomer runs them, and show what they are there to show."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repeatguard_sdk import Policy

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
RECEIPTS = "are receipts of writes that were not done a second time"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(name: str, tmp_path: Path) -> str:
    environment = {**os.environ, "REPEATGUARD_MODE": "", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    printed = run("garden_bench.py", tmp_path_factory.mktemp("garden"))
    return re.split(r"^\d\. ", printed, flags=re.MULTILINE)[1:]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run("real_runs.py", tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def real_runs() -> Any:
    return load("real_runs")


def calls(part: str) -> list[tuple[str, str]]:
    """Return what became of each call and its tool."""
    return re.findall(r"^  call \d+   (executed|replayed|ends run) +(\w+)\(", part, re.MULTILINE)


def test_without_a_guard_the_budget_is_spent(parts: list[str]) -> None:
    """The unguarded loop asks nine times and the shopper has no answer."""
    assert [("executed", "track_order")] * 9 == calls(parts[0])
    assert "the carrier was asked 9 times, the shopper has no answer" in parts[0]


def test_under_guard_the_same_model_takes_another_option(parts: list[str]) -> None:
    """The second call is replayed, the observation is shown whole, and the run ends finished."""
    expected = [("executed", "track_order"), ("replayed", "track_order"), ("executed", "escalate")]
    assert expected == calls(parts[1])
    assert 'was already answered at call 1: "no scans recorded"' in parts[1]
    assert "| Still open, choose one:" in parts[1]
    assert "| - message_seller: Write to the seller of an order." in parts[1]
    assert "  model    The carrier has not scanned your bench yet." in parts[1]
    assert "=> finished after 3 calls, the carrier was asked 1 time" in parts[1]


def test_a_model_that_does_not_read_ends_stuck(parts: list[str]) -> None:
    """The third call ends the run, and the summary names the call, its result and the options."""
    assert ["executed", "replayed", "ends run"] == [did for did, _ in calls(parts[2])]
    assert "=> stuck after 3 calls, the carrier was asked 1 time; the summary:" in parts[2]
    assert '| First result: "no scans recorded"' in parts[2]
    assert "| Offered and not taken:" in parts[2]


def test_a_transcript_fits_a_terminal(parts: list[str]) -> None:
    """No line is wider than 100 columns."""
    assert max(len(line) for part in parts for line in part.splitlines()) <= 100


def test_the_score_of_the_real_runs(scored: str) -> None:
    """The printed score is the one that the README gives, for the default and for a plain count."""
    default, plain = scored.split("\nFor comparison a plain count")
    for line in (
        "174 runs, 1738 calls walked",
        "flagged 48, right 48: precision 100.0%",
        "wasted 48, found 48: recall 100.0%",
        f"replayed 27, with a wrong result 0 (7 {RECEIPTS})",
        "ended stuck 4, of which had succeeded 0",
    ):
        assert f"\n{line}\n" in default
    for line in (
        "flagged 211, right 44: precision 20.9%",
        "wasted 44, found 44: recall 100.0%",
        f"replayed 145, with a wrong result 27 (10 {RECEIPTS})",
        "ended stuck 35, of which had succeeded 16",
    ):
        assert f"\n{line}\n" in plain


def test_each_intervention_is_a_row(scored: str) -> None:
    """There is one row for each flagged call, and no row is wider than a wide terminal."""
    rows = re.findall(r"^ +\d+ +\d+  .*$", scored, re.MULTILINE)
    assert 48 == len(rows)
    assert max(map(len, rows)) <= 140


@pytest.mark.parametrize(("policy", "column"), [(None, 1), (Policy.strict(), 2)])
def test_the_readme_gives_the_measured_score(
    real_runs: Any, policy: Policy | None, column: int
) -> None:
    """Every figure of the README's table is the measured one."""
    score = real_runs.measure(real_runs.load(), policy)
    rows = [line.split("|")[1:-1] for line in README.splitlines() if line.startswith("|")]
    cells = {row[0].strip(): row[column].strip() for row in rows if len(row) == 3}
    precision, recall = f"{score.precision:.1%}", f"{score.recall:.1%}"
    assert cells["calls flagged, of which wasted"] == (
        f"{score.flagged}, {score.right} (precision {precision.replace('%', ' %')})"
    )
    assert cells["wasted calls found"] == (
        f"{score.found} of {score.wasted} (recall {recall.replace('%', ' %')})"
    )
    assert cells["results replayed, of which wrong"] == (
        f"{score.replays}, {score.wrong_replays}; {score.receipts} are receipts of writes"
    )
    assert cells["runs ended stuck, of which had succeeded"] == (
        f"{score.stuck}, {score.stuck_but_succeeded}"
    )


def test_the_receipts_are_what_the_readme_says(real_runs: Any) -> None:
    """Of the seven replayed receipts three equal the recorded second result and four do not."""
    differs = [
        played.returned != real_runs._text(call)
        for _, call, played, _ in real_runs.walk(real_runs.load())
        if played.decision == "replay" and call["effect"] == "write"
    ]
    assert 3 == differs.count(False)
    assert 4 == differs.count(True)
    assert "of the 7, three second results were equal and four were not" in " ".join(README.split())
