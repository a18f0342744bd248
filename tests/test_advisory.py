"""The advisory policy, point by point, and what the default policy answers to its limits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from repeatguard_sdk import Memory, Policy, Registry, Run, guarded_tool
from repeatguard_sdk.exceptions import PolicyError

# Each point that the advisory way of working has to make, and the test below that shows it.
POINTS = {
    "consecutive identical calls, per run": "test_only_consecutive_calls_count",
    "canonical arguments, nested keys sorted": "test_nested_keys_have_no_order",
    "raw text where arguments do not parse": "test_text_that_does_not_parse_counts_by_itself",
    "thresholds 3, 5, 8": "test_the_thresholds_speak",
    "first a short nudge, later tool, count and arguments": "test_a_nudge_then_reminders",
    "clamped to 500 characters with the number left out": "test_long_arguments_are_clamped",
    "once a threshold a chain": "test_each_threshold_speaks_once_a_chain",
    "appended after all results of the batch": "test_the_text_waits_for_the_end_of_the_batch",
    "three equal calls in one batch count three": "test_a_batch_of_equal_calls_counts_each",
    "denied and disabled calls count": "test_denied_calls_count",
    "a user's words reset the chain": "test_the_user_resets_the_chain",
    "compaction does not": "test_compaction_does_not_reset_the_chain",
    "administrative tools are transparent": "test_bookkeeping_is_transparent",
    "include and exclude take *": "test_names_may_hold_a_star",
    "a threshold below 2 or a duplicate is an error": "test_bad_thresholds",
    "nothing is ever blocked": "test_nothing_is_ever_blocked",
    "its limit, consecutive only: cycles are seen": "test_the_default_policy_sees_cycles",
    "its limit, no memory across runs": "test_memory_may_outlive_the_run",
    "its limit, advisory only": "test_the_default_policy_stops_what_ignores_the_note",
    "its limit, a user-role message": "test_the_role_is_the_hosts_choice",
}


def test_every_point_has_its_test() -> None:
    """The table names tests that exist."""
    here = vars(sys.modules[__name__])
    assert [] == [name for name in POINTS.values() if not callable(here.get(name))]


class Bench:
    """Two tools and what ran."""

    def __init__(self, **declaration: Any) -> None:
        self.registry = Registry()
        self.ran: list[str] = []

        def note(**arguments: Any) -> str:
            """Plan a step."""
            self.ran.append("todo")
            return "noted"

        def track(**arguments: Any) -> str:
            """Track a parcel."""
            self.ran.append("track")
            return "no scans recorded"

        def order(**arguments: Any) -> str:
            """Get an order."""
            self.ran.append("order")
            return f"order {len(self.ran)}"

        decorate: Callable[..., Any] = guarded_tool
        self.todo = decorate(name="todo", effect="bookkeeping", registry=self.registry)(note)
        self.track = decorate(name="track", registry=self.registry, **declaration)(track)
        self.order = decorate(name="get_order", registry=self.registry)(order)

    def run(self, **options: Any) -> Run:
        """Return a run under the advisory policy."""
        return Run(registry=self.registry, policy=Policy.advisory(**options))


def texts(run: Run) -> list[str]:
    """Drain the texts."""
    return [observation.text for observation in run.observations()]


def counts(run: Run) -> list[int]:
    """Drain the counts."""
    return [observation.count for observation in run.observations()]


def test_only_consecutive_calls_count() -> None:
    """Another call breaks the chain, and another run has its own."""
    bench = Bench()
    with bench.run() as run:
        for _ in range(6):
            bench.track(p=1)
            bench.track(p=1)
            bench.order(p=1)
        assert texts(run) == []
    with bench.run() as run:
        bench.track(p=1)
        bench.track(p=1)
        assert texts(run) == []


def test_nested_keys_have_no_order() -> None:
    """Arguments are compared in canonical form."""
    bench = Bench()
    with bench.run() as run:
        bench.track(q={"a": 1, "b": {"c": 2, "d": 3}})
        bench.track(q={"b": {"d": 3, "c": 2}, "a": 1})
        bench.track(q={"b": {"c": 2, "d": 3}, "a": 1})
        assert [3] == counts(run)


def test_text_that_does_not_parse_counts_by_itself() -> None:
    """Three times the same broken arguments are three equal calls; other broken ones are not."""
    bench = Bench()
    with bench.run() as run:
        for text in ("{oops", "{oops", "{oops!", "{oops!", "{oops!"):
            run.dispatch("track", text)
        assert run.last_decision is not None
        assert run.last_decision.count == 3


def test_the_thresholds_speak() -> None:
    """Ten equal calls are spoken of three times."""
    bench = Bench()
    with bench.run() as run:
        for _ in range(10):
            bench.track(p=1)
        assert [3, 5, 8] == counts(run)


def test_other_thresholds_may_be_given_in_any_order() -> None:
    """They are thresholds, not steps of a list."""
    bench = Bench()
    with bench.run(thresholds=[4, 2]) as run:
        for _ in range(6):
            bench.track(p=1)
        assert [2, 4] == counts(run)


def test_a_nudge_then_reminders() -> None:
    """The first text names neither tool nor arguments, the later ones name both and the count."""
    bench = Bench()
    with bench.run() as run:
        for _ in range(8):
            bench.track(parcel="P-77")
        nudge, *reminders = texts(run)
    assert "track" not in nudge
    assert "P-77" not in nudge
    for text, count in zip(reminders, (5, 8), strict=True):
        assert f"track has now been called {count} times" in text
        assert 'parcel="P-77"' in text


def test_long_arguments_are_clamped() -> None:
    """A reminder shows 500 characters of them and says how many it left out."""
    bench = Bench()
    with bench.run() as run:
        for _ in range(5):
            bench.track(text="x" * 5_000)
        reminder = texts(run)[-1]
    assert len(reminder) < 800
    assert "x" * 400 in reminder


def test_each_threshold_speaks_once_a_chain() -> None:
    """Within a chain a threshold speaks once; a new chain begins anew."""
    bench = Bench()
    with bench.run() as run:
        for _ in range(2):
            for _ in range(4):
                bench.track(p=1)
            bench.order(p=1)
        assert [3, 3] == counts(run)


def test_the_text_waits_for_the_end_of_the_batch() -> None:
    """It is no part of any result; the host puts it after all of them."""
    bench = Bench()
    with bench.run() as run:
        run.turn()
        results = [bench.track(p=1) for _ in range(3)] + [bench.order(p=1)]
        assert not any("times in a row" in result for result in results)
        (message,) = run.messages("anthropic")
    assert "times in a row" in str(message)


def test_a_batch_of_equal_calls_counts_each() -> None:
    """Three equal calls of one turn are a chain of three, and each of them ran."""
    bench = Bench()
    with bench.run() as run:
        run.turn()
        for _ in range(3):
            bench.track(p=1)
        assert [3] == counts(run)
    assert bench.ran == ["track"] * 3


def test_denied_calls_count() -> None:
    """A call that never reached its tool is part of the chain."""
    bench = Bench()
    with bench.run() as run:
        bench.track(p=1)
        run.refused("track", {"p": 1}, "denied", denied=True)
        run.refused("track", {"p": 1}, "denied", denied=True)
        assert [3] == counts(run)


def test_the_user_resets_the_chain() -> None:
    """A steer or a follow-up makes the next call a first one."""
    bench = Bench()
    with bench.run() as run:
        for _ in range(4):
            bench.track(p=1)
            bench.track(p=1)
            run.user_message("and now?")
        assert texts(run) == []


def test_compaction_does_not_reset_the_chain() -> None:
    """The calls were made, whether or not the model remembers them."""
    bench = Bench()
    with bench.run() as run:
        bench.track(p=1)
        bench.track(p=1)
        run.compacted()
        bench.track(p=1)
        assert [3] == counts(run)


def test_bookkeeping_is_transparent() -> None:
    """It neither counts nor breaks a chain."""
    bench = Bench()
    with bench.run() as run:
        for _ in range(3):
            bench.track(p=1)
            bench.todo(step=1)
        for _ in range(9):
            bench.todo(step=1)
        assert [3] == counts(run)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"exclude": ["get_*"]}, [3]),
        ({"include": ["tr*"]}, [3]),
        ({"exclude": ["*"]}, []),
        ({"include": ["nothing"]}, []),
        ({"include": ["*"], "exclude": ["*_order"]}, [3]),
    ],
)
def test_names_may_hold_a_star(options: dict[str, Any], expected: list[int]) -> None:
    """What is excluded or not included is transparent, so the chain goes on across it."""
    bench = Bench()
    with bench.run(**options) as run:
        for _ in range(3):
            bench.track(p=1)
            bench.order(p=1)
        assert expected == counts(run)


@pytest.mark.parametrize(
    ("thresholds", "words"),
    [
        ([1, 3], "2 or more"),
        ([3, 3], "duplicate"),
        ([True, 3], "True"),
        ([], "empty"),
        (["3"], "'3'"),
    ],
)
def test_bad_thresholds(thresholds: Any, words: str) -> None:
    """They are rejected where the policy is built."""
    with pytest.raises(PolicyError, match=words):
        Policy.advisory(thresholds=thresholds)


@pytest.mark.parametrize("option", ["include", "exclude"])
def test_a_bare_string_of_names_is_rejected(option: str) -> None:
    """It would be taken for a list of letters."""
    with pytest.raises(PolicyError, match="bare string"):
        Policy.advisory(**{option: "track"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "declaration", [{}, {"effect": "write"}, {"effect": "final"}, {"max_calls": 2}]
)
def test_nothing_is_ever_blocked(declaration: dict[str, Any]) -> None:
    """Twenty equal calls run twenty times, whatever they do, and the run goes on."""
    bench = Bench(**declaration)
    with bench.run() as run:
        for _ in range(20):
            assert bench.track(p=1) == "no scans recorded"
    assert len(bench.ran) == 20
    assert not run.stuck


def test_an_override_to_enforce_blocks_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable chooses a mode, not a policy: this one has nothing to enforce."""
    monkeypatch.setenv("REPEATGUARD_MODE", "enforce")
    bench = Bench()
    with bench.run():
        for _ in range(20):
            bench.track(p=1)
    assert len(bench.ran) == 20


def test_the_default_policy_sees_cycles() -> None:
    """Two calls in turn are no chain, but they are a cycle."""
    bench = Bench(effect="unknown")
    with bench.run() as run:
        for _ in range(2):
            bench.track(p=1)
            bench.track(p=2)
        assert texts(run) == []
    with Run(registry=bench.registry) as run:
        for _ in range(2):
            bench.track(p=1)
            bench.track(p=2)
        assert "cycle" in [observation.finding for observation in run.observations()]


def test_memory_may_outlive_the_run() -> None:
    """The next run of the same work answers from memory what the last one learnt."""
    bench, memory = Bench(), Memory()
    for _ in range(2):
        with Run(registry=bench.registry, memory=memory) as run:
            bench.track(p=1)
    assert run.last_decision is not None
    assert run.last_decision.decision == "replay"
    assert bench.ran == ["track"]


def test_the_default_policy_stops_what_ignores_the_note() -> None:
    """The third equal call leaves the block."""
    bench = Bench()
    with Run(registry=bench.registry) as run:
        for _ in range(9):
            bench.track(p=1)
    assert run.stuck
    assert run.calls == 3


def test_the_role_is_the_hosts_choice() -> None:
    """User, developer or system, as the provider takes it."""
    bench = Bench()
    with bench.run() as run:
        roles = []
        for role in ("user", "developer", "system"):
            for _ in range(3):
                bench.track(p=role)
            roles += [message["role"] for message in run.messages("openai", role=role)]
    assert ["user", "developer", "system"] == roles
