"""The score on 174 real runs, which the default policy must keep and the whole-run rule cannot."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from repeatguard_sdk import Policy

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "real_runs.py"


def _load_example() -> Any:
    found = importlib.util.spec_from_file_location("real_runs", EXAMPLE)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


real_runs = _load_example()


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    """Return the recorded runs."""
    loaded: list[dict[str, Any]] = real_runs.load()
    return loaded


def test_all_runs_are_there(runs: list[dict[str, Any]]) -> None:
    """The data are whole, and each line names its source and its licence."""
    assert len(runs) == 174
    assert len({run["run_id"] for run in runs}) == 174
    assert {run["license"] for run in runs} == {"MIT"}
    assert all(run["source"] for run in runs)


def test_the_default_policy(runs: list[dict[str, Any]], show: Any) -> None:
    """It flags what was wasted and nothing else, and never serves a result that was not the one."""
    score = real_runs.measure(runs)
    show("Policy()", score)
    assert score.precision >= 0.98, score.false_alarms
    assert score.recall >= 0.98, score.missed
    assert score.wrong_replays == 0
    assert score.stuck_but_succeeded == 0
    # Nothing flagged would be a perfect score too.
    assert score.wasted >= 40
    assert score.replays >= 20
    assert score.stuck >= 1


def test_the_whole_run_rule_is_worse(runs: list[dict[str, Any]], show: Any) -> None:
    """A count alone serves results that are wrong, and ends runs that would have succeeded."""
    score = real_runs.measure(runs, Policy.strict())
    show("Policy.strict()", score)
    assert score.wrong_replays > 0
    assert score.stuck_but_succeeded > 0
    assert score.precision < 0.9


@pytest.mark.parametrize("mode", ["advise", "observe", "off"])
def test_softer_modes_run_every_call(runs: list[dict[str, Any]], mode: Any) -> None:
    """Outside `enforce` each recorded call runs and gets its own result."""
    calls = 0
    for _, call, played, _ in real_runs.walk(runs, Policy(mode=mode)):
        calls += 1
        assert played.executed
        assert played.decision == "execute"
        assert (played.error is not None) == call["error"]
        assert (played.observation is None) or mode == "advise"
    assert calls == sum(len(run["calls"]) for run in runs)


def test_advice_says_what_enforcement_would(runs: list[dict[str, Any]], show: Any) -> None:
    """Up to where a run would have ended, what is only noted is right as often."""
    score, over = real_runs.Score(), set()
    for run, call, played, retry in real_runs.walk(runs, Policy(mode="advise")):
        if run["run_id"] not in over:
            score.add(run, call, played, retry)
        if played.value is not None and played.value.would == "exit":
            over.add(run["run_id"])
    score.runs = len(runs)
    show('Policy(mode="advise")', score)
    assert score.precision >= 0.98, score.false_alarms
    assert score.recall >= 0.9, score.missed
