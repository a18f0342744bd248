"""What outlives a run, and what does not."""

from __future__ import annotations

import pytest

from repeatguard_sdk import Memory, Policy, Registry, Run, guarded_tool
from repeatguard_sdk.events import MemorySink, RunRecord
from repeatguard_sdk.exceptions import RunStateError

TOOLS = Registry()
RAN: list[str] = []


@guarded_tool(registry=TOOLS, max_calls=2)
def look(what: str) -> str:
    """Look something up."""
    RAN.append(what)
    return f"seen {what}"


@guarded_tool(registry=TOOLS, effect="ask", slot="fact")
def ask(fact: str) -> str:
    """Ask the user."""
    RAN.append(fact)
    return "SO-1"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()


def test_a_heartbeat_hears_that_it_has_the_answer() -> None:
    """Each run's first equal call is a second one: answered from memory, with an observation."""
    memory = Memory()
    decisions = []
    for _ in range(4):
        with Run(registry=TOOLS, memory=memory) as run:
            look("parcel")
            assert run.last_decision is not None
            decisions.append(run.last_decision.decision)
    assert decisions == ["execute", "replay", "replay", "replay"]
    assert RAN == ["parcel"]
    assert "4" not in repr(run.calls)


def test_counts_begin_anew_with_each_run() -> None:
    """The exit needs its repeats within one run: the model has not read the notes of the last."""
    memory = Memory()
    for _ in range(3):
        with Run(registry=TOOLS, memory=memory) as run:
            look("parcel")
        assert not run.stuck
    with Run(registry=TOOLS, memory=memory) as run:
        look("parcel")
        look("parcel")
        pytest.fail("the third of its ladder should have left the block")
    assert run.stuck


def test_budgets_and_totals_begin_anew_with_each_run() -> None:
    """A budget is one run's, and so is the record."""
    memory, sink = Memory(), MemorySink()
    for number in range(2):
        with Run(registry=TOOLS, memory=memory, events=sink) as run:
            look(f"a{number}")
            look(f"b{number}")
        assert run.calls == 2
    records: list[RunRecord] = sink.runs
    assert [record.executed for record in records] == [{"look": 2}, {"look": 2}]
    assert [record.calls for record in records] == [2, 2]


def test_facts_stay_known() -> None:
    """What the user said once is not asked again in the next run."""
    memory = Memory()
    with Run(registry=TOOLS, memory=memory):
        assert ask("order id") == "SO-1"
    with Run(registry=TOOLS, memory=memory):
        assert ask("Order ID") == "SO-1"
    assert RAN == ["order id"]


def test_progress_says_that_the_world_moved_on_in_between() -> None:
    """Then the call runs, as it would after any change."""
    memory = Memory()
    for _ in range(2):
        with Run(registry=TOOLS, memory=memory) as run:
            run.progress()
            look("parcel")
    assert RAN == ["parcel", "parcel"]


def test_another_policy_on_the_same_memory() -> None:
    """What was learnt under one policy is used as the other one says."""
    memory = Memory()
    with Run(registry=TOOLS, memory=memory):
        look("parcel")
    with Run(registry=TOOLS, memory=memory, policy=Policy(mode="observe")):
        look("parcel")
    assert RAN == ["parcel", "parcel"]


def test_one_run_at_a_time() -> None:
    """Two runs at once on one memory would count each other's calls."""
    memory = Memory()
    first = Run(registry=TOOLS, memory=memory)
    with first, pytest.raises(RunStateError, match="in use by another run"):
        Run(registry=TOOLS, memory=memory).__enter__()
    with Run(registry=TOOLS, memory=memory):
        pass
