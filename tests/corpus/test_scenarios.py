"""Every scenario of the corpus, each a case of its own, checked as the corpus words it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from repeatguard_sdk.testing import PlayedCall, play

DATA = Path(__file__).parent.parent / "data"
FILES = {"field_reports.jsonl": 148, "peer_scenarios.jsonl": 158}
CHECKS = {"runs", "never_runs", "note_by", "stuck_by", "no_note", "no_stuck"}


def load(name: str) -> list[dict[str, Any]]:
    """Return the scenarios of a file."""
    with (DATA / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


SCENARIOS = [scenario for name in FILES for scenario in load(name)]


def noted(call: PlayedCall) -> bool:
    """Tell whether somebody was told something: by an observation, a refusal or an exit."""
    return call.observation is not None or call.decision in ("refuse", "exit")


def failures(expect: Mapping[str, Any], played: Sequence[PlayedCall]) -> list[str]:
    """Return what an `expect` block asks for and the walk does not have."""
    ran = {number for number, call in enumerate(played, 1) if call.executed}
    notes = [number for number, call in enumerate(played, 1) if noted(call)]
    exits = [number for number, call in enumerate(played, 1) if call.decision == "exit"]
    wanted = expect.get("runs", ())
    must = set(range(1, len(played) + 1)) if wanted == "all" else set(wanted)
    found = []
    if not must <= ran:
        found.append(f"must run but did not: {sorted(must - ran)}")
    if ran & set(expect.get("never_runs", ())):
        found.append(f"must not run but did: {sorted(ran & set(expect['never_runs']))}")
    if "note_by" in expect and not (notes and notes[0] <= expect["note_by"]):
        found.append(f"no note by call {expect['note_by']}; notes at {notes}")
    if "stuck_by" in expect and not (exits and exits[0] <= expect["stuck_by"]):
        found.append(f"no exit by call {expect['stuck_by']}; exits at {exits}")
    if expect.get("no_note") and notes:
        found.append(f"must not be noted but was, at {notes}")
    if expect.get("no_stuck") and exits:
        found.append(f"must not end but did, at {exits}")
    return found


def shown(scenario: Mapping[str, Any], played: Sequence[PlayedCall]) -> str:
    """Return the walk as text: each step, and what became of it."""
    lines = [f"{scenario['id']} ({scenario['class']}, {scenario['shape']}): {scenario['summary']}"]
    lines += [f"  tool {name}: {declared}" for name, declared in scenario["tools"].items()]
    left = iter(enumerate(played, 1))
    for step in scenario["steps"]:
        if "event" in step:
            lines.append(f"      -- {step['event']}")
            continue
        number, call = next(left)
        came = f"error {step['error']!r}" if "error" in step else repr(step.get("result"))
        marks = {key: step[key] for key in ("turn", "run", "call_id", "refused") if key in step}
        said = "" if call.observation is None else f" | {call.observation.splitlines()[0]}"
        lines.append(
            f"  {number:>3} {call.decision:<8} {call.finding or '-':<12} "
            f"{step['tool']}({json.dumps(step.get('args'))}) -> {came} {marks or ''}{said}"
        )
    return "\n".join([*lines, f"  expect {scenario['expect']}"])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["id"])
def test_scenario(scenario: dict[str, Any]) -> None:
    """The guard notes, withholds, ends and lets through as the scenario expects."""
    played = play(scenario)
    found = failures(scenario["expect"], played)
    assert not found, "\n".join([*found, shown(scenario, played)])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["id"])
def test_scenario_walks(scenario: dict[str, Any]) -> None:
    """Each call has one answer, what did not run says so, and after an exit its run is over."""
    played = play(scenario)
    steps = [step for step in scenario["steps"] if "event" not in step]
    assert len(played) == len(steps)
    over: set[Any] = set()
    for step, call in zip(steps, played, strict=True):
        if step.get("run") in over:
            assert (call.decision, call.executed) == ("exit", False), shown(scenario, played)
        if call.decision == "exit":
            over.add(step.get("run"))
        elif call.decision == "execute":
            assert call.executed, shown(scenario, played)
            assert (call.error is None) == ("error" not in step), shown(scenario, played)
        else:
            assert not call.executed, shown(scenario, played)


@pytest.mark.parametrize("name", FILES)
def test_files_are_whole(name: str) -> None:
    """No scenario is missing, none has another's id, and each expects what this file can check."""
    scenarios = load(name)
    assert len(scenarios) == FILES[name]
    assert len({scenario["id"] for scenario in scenarios}) == len(scenarios)
    for scenario in scenarios:
        assert scenario["expect"]
        assert set(scenario["expect"]) <= CHECKS
