"""The audit says of a recorded run, call by call, what the live guard does when it meets it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from audit_cases import POLICIES, audited, differing, live, recorded_runs
from repeatguard_sdk import Policy, ToolSpec, _default_sink, guarded_tool
from repeatguard_sdk._spec import find_record
from repeatguard_sdk.audit import AuditTools, RecordedCall, RecordedRun, _tools, audit_run
from repeatguard_sdk.exceptions import ToolDeclarationError

ROOT = Path(__file__).parent.parent


def _scenarios() -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for name in ("field_reports", "peer_scenarios"):
        text = (ROOT / "data" / f"{name}.jsonl").read_text(encoding="utf-8")
        lines += map(json.loads, text.splitlines())
    return lines


def _recorded(run: dict[str, Any]) -> RecordedRun:
    path = ROOT.parent / "examples" / "real_runs.py"
    found = importlib.util.spec_from_file_location("real_runs", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    scenario = module.as_scenario(run)
    return _from_scenario(run["run_id"], scenario)


def _from_scenario(name: str, scenario: dict[str, Any]) -> RecordedRun:
    steps: list[Any] = []
    turn = 0
    for number, step in enumerate(scenario["steps"]):
        if "event" in step:
            event = {"progress": "external_change"}.get(step["event"], step["event"])
            if event != "auto_continue":
                steps.append(event)
            continue
        turn = step.get("turn", -number)
        steps.append(
            RecordedCall(
                step["tool"],
                step.get("args") or {},
                step.get("result"),
                step.get("error") or (str(step["refused"]) if step.get("refused") else None),
                turn,
                step.get("call_id"),
                scenario["tools"][step["tool"]].get("effect", "read"),
                refused=bool(step.get("refused")),
            )
        )
    return RecordedRun(name, steps)


@pytest.fixture(scope="module")
def real_runs() -> list[RecordedRun]:
    text = (ROOT / "data" / "transcripts.jsonl").read_text(encoding="utf-8")
    return [_recorded(json.loads(line)) for line in text.splitlines()]


@pytest.mark.parametrize("policy", POLICIES)
def test_on_real_runs_it_is_the_live_guard(policy: str, real_runs: list[RecordedRun]) -> None:
    """On all 174 of them, under every kind of policy."""
    assert [] == differing(real_runs, POLICIES[policy])


@pytest.mark.parametrize("policy", POLICIES)
def test_on_scenarios_it_is_the_live_guard(policy: str) -> None:
    """On all those of one run and without denials, with the declarations they come with."""
    tried = 0
    for scenario in _scenarios():
        steps = scenario["steps"]
        if any("run" in step or step.get("refused") == "denied" for step in steps):
            continue
        if any(not step.get("tool", "-").strip() for step in steps):
            continue
        tried += 1
        run = _from_scenario(scenario["id"], scenario)
        assert [] == differing([run], POLICIES[policy], scenario["tools"])
    assert tried > 250


@settings(max_examples=60)
@given(recorded_runs())
def test_on_random_runs_it_is_the_live_guard(run: RecordedRun) -> None:
    """Whatever the mix of tools, repeats, failures, redeliveries and words of a user."""
    for policy in POLICIES.values():
        assert live(run, policy) == audited(audit_run(run, None, policy))


_DECLARED: dict[str, Any] = {
    "look": {"effect": "read", "case_fold": ["q"], "money_fields": ["n"]},
    "find": {"effect": "read", "fields": {"q": "text", "n": "ignore"}},
    "save": {"effect": "write", "max_calls": 2},
    "shell": {"effect": "unknown", "volatile": ["rows"]},
    "question": {"effect": "ask", "slot": "q"},
    "note": {"effect": "bookkeeping"},
    "poll": {"effect": "live"},
    "submit": {"effect": "final", "empty": "ok"},
}


@settings(max_examples=80)
@given(recorded_runs())
def test_with_declarations_too(run: RecordedRun) -> None:
    """Rules, budgets, slots, volatile parts and an own idea of what is empty all hold."""
    for policy in (Policy(), Policy.strict()):
        audit = audit_run(run, _DECLARED, policy)
        assert live(run, policy, _DECLARED) == audited(audit)


def test_it_is_a_pure_function() -> None:
    """Asked again it says the same, and what it was given is as it was."""
    call = RecordedCall("look_up", {"q": {"deep": ["a"]}}, {"rows": [1]}, None, 1)
    run = RecordedRun("r", [call, call._replace(turn=2), call._replace(turn=3)])
    before = repr(run)
    first, second = audit_run(run), audit_run(run)
    assert first == second
    assert before == repr(run)
    assert ["replay", "exit"] == [verdict.decision for verdict in first.verdicts]
    assert ("stuck", 3, {"look_up": 3}) == (first.ended, first.walked, first.calls)


def test_what_it_finds_is_no_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It happened in no run: the file that takes the events of runs is left alone."""
    monkeypatch.setattr(_default_sink, "_sinks", {})
    monkeypatch.setenv("REPEATGUARD_EVENTS", str(tmp_path / "events.db"))
    call = RecordedCall("look_up", {"word": "loop"}, "no entry")
    found = audit_run(RecordedRun("r1", [call._replace(turn=turn) for turn in range(3)]))
    assert ["replay", "exit"] == [verdict.decision for verdict in found.verdicts]
    assert {} == _default_sink._sinks


def test_a_replay_that_would_have_been_wrong_is_seen() -> None:
    """The transcript holds the second result, which the strict policy would not have asked for."""
    steps: list[Any] = [
        RecordedCall("get_order", {"id": 1}, "open", None, 1),
        RecordedCall("cancel_order", {"id": 1}, "done", None, 2),
        RecordedCall("get_order", {"id": 1}, "cancelled", None, 3),
        RecordedCall("get_order", {"id": 1}, "cancelled", None, 4),
    ]
    run = RecordedRun("r", steps)
    (strict, _) = audit_run(run, policy=Policy.strict()).verdicts
    assert (2, "replay", True) == (strict.number, strict.decision, strict.other)
    (default,) = audit_run(run).verdicts
    assert (3, "replay", False) == (default.number, default.decision, default.other)


def test_a_result_that_was_cut_is_known_by_its_digest() -> None:
    """Two results that begin alike are not one."""
    call = RecordedCall("look_up", {"q": "a"}, "begins alike…", None, 1, digest="11")
    other = call._replace(turn=2, digest="22")
    (verdict,) = audit_run(RecordedRun("r", [call, other])).verdicts
    assert verdict.other is True
    (verdict,) = audit_run(RecordedRun("r", [call, call._replace(turn=2)])).verdicts
    assert verdict.other is False


def test_a_call_without_a_result_counts_for_nothing() -> None:
    """A transcript may end in the middle: that call is one that was killed."""
    whole = RecordedCall("look_up", {"q": "a"}, "x", None, 1)
    cut = RecordedCall("look_up", {"q": "a"}, turn=1)
    audit = audit_run(RecordedRun("r", [cut, whole._replace(turn=2), whole._replace(turn=3)]))
    assert [(2, "replay")] == [(each.number, each.decision) for each in audit.verdicts]


def test_text_in_place_of_arguments_reached_no_tool() -> None:
    """It is counted on the ladder of failures, as `Run.dispatch` does."""
    call = RecordedCall("look_up", '{"q": ', None, "no valid JSON", 1)
    run = RecordedRun("r", [call._replace(turn=turn) for turn in range(4)])
    assert "stuck" == audit_run(run).ended


def test_a_tool_given_by_its_own_declaration() -> None:
    """The record of a decorated function brings its signature and rules along."""

    @guarded_tool(case_fold=["order_id"], name="get_order")
    def get_order(order_id: str, limit: int = 5) -> str:
        return order_id

    record = find_record(get_order)
    assert record is not None
    steps: list[Any] = [
        RecordedCall("get_order", {"order_id": "so-1"}, "x", None, 1),
        RecordedCall("get_order", {"order_id": "SO-1 ", "limit": 5}, "x", None, 2),
    ]
    audit = audit_run(RecordedRun("r", steps), {"get_order": record})
    assert ["replay"] == [verdict.decision for verdict in audit.verdicts]
    assert {"get_order": ("read", "declared")} == audit.effects
    assert isinstance(record.spec, ToolSpec)


def test_a_wrong_declaration_is_named() -> None:
    """With the tool it is about, before any run is read."""
    with pytest.raises(ToolDeclarationError, match=r"tools\['look_up'\].*cannot be 'reed'"):
        AuditTools({"look_up": {"effect": "reed"}})
    with pytest.raises(ToolDeclarationError, match=r"tools\['look_up'\].*efect"):
        AuditTools({"look_up": {"efect": "read"}})


def test_where_an_effect_is_from() -> None:
    """What is declared counts more than what is recorded, and that more than a name."""
    tools = AuditTools({"look_up": {"effect": "live"}})
    assert ("live", "declared") == tools.effect_of("look_up", "read")
    assert ("write", "recorded") == tools.effect_of("get_it", "write")
    assert ("read", "guessed") == tools.effect_of("get_it", None)


def test_many_shapes_of_one_tool_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that gets other arguments in every run is compared all the same."""
    monkeypatch.setattr(_tools, "_MAX_COMPILED", 20)
    tools = AuditTools()
    for number in range(60):
        call = RecordedCall("shell", {f"a{number}": [1.5]}, "x", None, 1)
        audit = audit_run(RecordedRun("r", [call, call._replace(turn=2)]), tools)
        assert 1 == len(audit.verdicts)
    assert len(tools._made) < 30
