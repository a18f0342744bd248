"""What a policy changes in a run: ladders, modes, folds, the whole-run rule."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from repeatguard_sdk import Ladder, Policy, Registry, Run, guarded_tool
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.exceptions import PolicyError


class Tool:
    """A decorated tool that answers with what a function makes of its argument."""

    def __init__(
        self, answer: Callable[[str], Any] = lambda key: f"for {key}", **declared: Any
    ) -> None:
        self.ran = 0

        @guarded_tool(registry=Registry(), **declared)
        def look_up(key: str = "") -> Any:
            self.ran += 1
            return answer(key)

        self.call = look_up


def walk(tool: Tool, keys: str, policy: Policy, **options: Any) -> tuple[list[str], list[int]]:
    """Call a tool with each letter; return the decisions and the calls that were noted."""
    decided, noted = [], []
    with Run([tool.call], policy=policy, on_stuck="flag", **options) as run:
        for number, key in enumerate(keys, 1):
            try:
                tool.call(key)
            except LookupError:
                pass
            assert run.last_decision is not None
            decided.append(run.last_decision.decision)
            if run.last_decision.observation is not None:
                noted.append(number)
    return decided, noted


def _fail(key: str) -> str:
    raise LookupError(key)


# -- as a value ----------------------------------------------------------------------------------


def test_the_default_is_the_table() -> None:
    """Each ladder has the steps of the design."""
    policy = Policy()
    assert (policy.mode, policy.folds, policy.whole_run) == ("enforce", "suspect", False)
    assert attrs.astuple(policy.known_effects) == (2, 2, 3)
    assert attrs.astuple(policy.failing) == (2, 3, 4)
    assert attrs.astuple(policy.unknown) == (2, 3, 5)
    assert attrs.astuple(policy.live) == (3, None, None)
    assert policy.cycle is not None
    assert (policy.cycle.note, policy.cycle.exit) == (2, 3)
    assert (policy.same_errors, policy.same_empties, policy.failures) == (3, 3, 4)
    assert policy.transient_retries == 2


def test_a_policy_is_frozen() -> None:
    """It may be shared by many runs."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Policy().mode = "off"  # type: ignore[misc]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Ladder().note = 5  # type: ignore[misc]


def test_a_policy_is_a_value() -> None:
    """Equal ones compare equal, and it survives copy and pickle."""
    policy = Policy(mode="advise", failing=Ladder(2, 4, 6))
    assert policy == Policy(mode="advise", failing=Ladder(2, 4, 6))
    assert policy != Policy()
    assert copy.deepcopy(policy) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert hash(policy) == hash(copy.copy(policy))


def test_a_changed_copy_is_checked_again() -> None:
    """`attrs.evolve` cannot make what the constructor refuses."""
    assert attrs.evolve(Policy(), mode="observe").mode == "observe"
    with pytest.raises(PolicyError):
        attrs.evolve(Policy(), mode="loud")
    with pytest.raises(PolicyError):
        attrs.evolve(Ladder(), note=1)


def test_arguments_are_keywords() -> None:
    """A policy has too many parts to be told by their order."""
    with pytest.raises(TypeError):
        Policy("enforce")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("effect", "ladder"),
    [
        ("read", "known_effects"),
        ("write", "known_effects"),
        ("ask", "known_effects"),
        ("final", "known_effects"),
        ("unknown", "unknown"),
        ("bookkeeping", "unknown"),
        ("live", "live"),
    ],
)
def test_which_ladder_holds(effect: Any, ladder: str) -> None:
    """After a failure it is that of failures, but never for a live tool; a repeatable has none."""
    policy = Policy()
    assert policy.ladder(effect, repeatable=False, failed=False) is getattr(policy, ladder)
    failing = policy.live if effect == "live" else policy.failing
    assert policy.ladder(effect, repeatable=False, failed=True) is failing
    assert policy.ladder(effect, repeatable=True, failed=False) is None


# -- ladders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "write"])
def test_other_steps_for_known_effects(effect: str) -> None:
    """Note, withhold and exit are taken where the ladder says."""
    tool = Tool(effect=effect)
    decided, noted = walk(tool, "aaaaa", Policy(known_effects=Ladder(2, 3, 5)))
    assert decided[0] == "execute"
    assert decided[2:] == ["replay", "replay", "exit"]
    assert noted[0] == 2


def test_a_ladder_that_never_ends_a_run() -> None:
    """`None` means never."""
    decided, noted = walk(Tool(), "a" * 12, Policy(known_effects=Ladder(None, 2, None)))
    assert decided == ["execute"] + ["replay"] * 11
    assert noted == []


def test_other_steps_for_failures() -> None:
    """A host may give a flaky tool more patience."""
    policy = Policy(failing=Ladder(3, 4, 6), same_errors=None, failures=None)
    decided, noted = walk(Tool(_fail), "aaaaaa", policy)
    assert decided == ["execute"] * 3 + ["refuse"] * 2 + ["exit"]
    assert noted[0] == 3


def test_other_steps_for_unknown_tools() -> None:
    """Their results must be equal; then the steps are those of the ladder."""
    tool = Tool(effect="unknown")
    decided, noted = walk(tool, "aaaaaa", Policy(unknown=Ladder(2, 4, 6)))
    assert decided == ["execute"] * 3 + ["replay"] * 2 + ["exit"]
    assert noted[0] == 2


@pytest.mark.parametrize("note", [2, 3, 5])
def test_when_a_live_tool_is_noted(note: int) -> None:
    """It is never withheld."""
    decided, noted = walk(Tool(effect="live"), "a" * 6, Policy(live=Ladder(note, None, None)))
    assert decided == ["execute"] * 6
    assert noted[0] == note


def test_cycles_may_be_turned_off() -> None:
    """`cycle=None` finds none."""
    sink = MemorySink()
    tool = Tool(effect="unknown")
    walk(tool, "ababab", Policy(cycle=None, unknown=Ladder(None, None, None)), events=sink)
    assert sink.repeats == []
    walk(tool, "ababab", Policy(unknown=Ladder(None, None, None)), events=sink)
    assert {event.finding for event in sink.repeats} == {"cycle"}


def test_more_laps_before_a_cycle_ends_the_run() -> None:
    """Laps are counted as the ladder says."""
    policy = Policy(cycle=Ladder(3, None, 4), unknown=Ladder(None, None, None))
    decided, noted = walk(Tool(effect="unknown"), "abababab", policy)
    assert noted[0] == 6
    assert decided.index("exit") == 7


@pytest.mark.parametrize(("rows", "expected"), [(2, 2), (3, 3), (5, 5), (None, None)])
def test_rows_of_equal_errors(rows: int | None, expected: int | None) -> None:
    """Whatever the arguments; `None` turns it off."""
    policy = Policy(same_errors=rows, failures=None)

    def closed(key: str) -> str:
        msg = "the shop is closed"
        raise LookupError(msg)

    decided, noted = walk(Tool(closed), "abcdef", policy)
    assert decided == ["execute"] * 6
    assert (noted[0] if noted else None) == expected


@pytest.mark.parametrize(("rows", "expected"), [(2, 2), (4, 4), (None, None)])
def test_rows_of_any_failures(rows: int | None, expected: int | None) -> None:
    """Their texts may differ."""
    decided, noted = walk(Tool(_fail), "abcdef", Policy(failures=rows))
    assert decided == ["execute"] * 6
    assert (noted[0] if noted else None) == expected


@pytest.mark.parametrize(("rows", "expected"), [(2, 3), (3, 4), (None, None)])
def test_rows_of_empty_results(rows: int | None, expected: int | None) -> None:
    """After a result that said something, so many that say nothing are noted."""
    tool = Tool(lambda key: "found" if key == "a" else "")
    decided, noted = walk(tool, "abcdefg", Policy(same_empties=rows))
    assert decided == ["execute"] * 7
    assert (noted[0] if noted else None) == expected


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_transient_retries(retries: int) -> None:
    """So many failures count for nothing; then the ladder of failures begins."""

    def slow(key: str) -> str:
        raise TimeoutError(key)

    tool = Tool(slow)
    with Run([tool.call], policy=Policy(transient_retries=retries)) as run:
        for _ in range(retries + 3):
            with pytest.raises(TimeoutError):
                tool.call("a")
        assert run.last_decision is not None
        assert run.last_decision.decision == "refuse"
    assert tool.ran == retries + 2


@pytest.mark.parametrize("part", ["known_effects", "failing", "unknown", "live", "cycle"])
@pytest.mark.parametrize(
    "effect", ["read", "write", "live", "ask", "unknown", "bookkeeping", "final"]
)
def test_a_ladder_may_be_none(part: str, effect: Any) -> None:
    """What a policy accepts it can do: without a ladder nothing is withheld and nothing breaks."""
    declared = {"effect": effect, **({"slot": "key"} if effect == "ask" else {})}
    tool, sink = Tool(lambda key: "", **declared), MemorySink()
    policy: Policy
    try:
        policy = Policy(**{part: None})
    except PolicyError:
        return  # Refused where it is written: as good.
    with Run([tool.call], policy=policy, on_stuck="flag", events=sink) as run:
        run.know(a="known")
        for key in "aaaabcdefg":
            tool.call(key)
    assert sink.warnings == []


# -- folds and the whole-run rule ----------------------------------------------------------------


def test_folds_may_convict() -> None:
    """Equal text after folding is then one call, without a look at the result."""
    tool = Tool()
    with Run([tool.call], policy=Policy(folds="convict")):
        assert tool.call("Late  order") == tool.call("late order")
    assert tool.ran == 1


def test_strict_is_the_whole_run_rule() -> None:
    """No write, user or progress between two calls makes them two."""
    registry = Registry()
    ran = []

    @guarded_tool(registry=registry)
    def look_up(key: str) -> str:
        ran.append(key)
        return key

    @guarded_tool(effect="write", registry=registry)
    def change(key: str) -> str:
        return "ok"

    with Run(registry=registry, policy=Policy.strict()) as run:
        look_up("a")
        change("x")
        run.user_message("once more, please")
        run.progress()
        assert look_up("A ") == "a"
        change("y")
        look_up("a")
        pytest.fail("the third call must leave the block")
    assert ran == ["a"]
    assert run.stuck


def test_strict_in_another_mode() -> None:
    """The whole-run rule may be observed before it is enforced."""
    sink = MemorySink()
    tool = Tool()
    walk(tool, "aaa", Policy.strict(mode="observe"), events=sink)
    assert tool.ran == 3
    assert [event.would for event in sink.repeats] == ["replay", "exit"]


# -- modes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "decided", "noted", "events"),
    [
        ("enforce", ["execute", "replay", "exit"], [2], 2),
        ("advise", ["execute"] * 3, [2, 3], 2),
        ("observe", ["execute"] * 3, [], 2),
    ],
)
def test_modes(mode: Any, decided: list[str], noted: list[int], events: int) -> None:
    """They differ in what is done, and not in what is found."""
    tool, sink = Tool(), MemorySink()
    with Run([tool.call], policy=Policy(mode=mode), events=sink, on_stuck="exit") as run:
        for _ in range(3):
            tool.call("a")
    assert [event.would for event in sink.repeats] == ["replay", "exit"]
    assert len(sink.repeats) == events
    assert tool.ran == decided.count("execute")
    assert [observation.call for observation in run.observations()] == noted
    assert run.stuck is (mode == "enforce")


def test_off_is_the_plain_tool() -> None:
    """Nothing is counted, said or reported but the run itself."""
    tool, sink = Tool(), MemorySink()
    with Run([tool.call], policy=Policy(mode="off"), events=sink) as run:
        for _ in range(5):
            tool.call("a")
        assert run.last_decision is None
        assert run.calls == 0
    assert tool.ran == 5
    assert sink.repeats == []
    assert len(sink.runs) == 1


@pytest.mark.parametrize("mode", ["advise", "observe", "off"])
def test_a_softer_mode_never_joins_or_refuses(mode: Any) -> None:
    """Every call runs: twins of one turn, redeliveries, budgets, failures."""
    tool, sink = Tool(_fail, max_calls=1), MemorySink()
    with Run([tool.call], policy=Policy(mode=mode), events=sink) as run:
        run.turn()
        for _ in range(3):
            with pytest.raises(LookupError):
                tool.call("a")
        for _ in range(3):
            with pytest.raises(LookupError):
                run.dispatch("look_up", {"key": "a"}, "call_1")
    assert tool.ran == 6
    assert sink.warnings == []


def test_a_tools_own_mode_overrides_the_policys() -> None:
    """One tool may be observed while the others are guarded, and the other way round."""
    soft, hard = Tool(mode="observe"), Tool(mode="enforce")
    assert walk(soft, "aaa", Policy())[0] == ["execute"] * 3
    assert walk(hard, "aaa", Policy(mode="observe"))[0] == ["execute", "replay", "exit"]


@pytest.mark.parametrize("mode", ["enforce", "OBSERVE ", "off", "Advise"])
def test_the_environment_overrides_everything(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Policy and tool alike, whatever the case of its letters; it is read when a run is made."""
    monkeypatch.setenv("REPEATGUARD_MODE", mode)
    tool = Tool(mode="advise" if "OFF" not in mode.upper() else "enforce")
    with Run([tool.call], policy=Policy(mode="observe"), on_stuck="flag") as run:
        monkeypatch.delenv("REPEATGUARD_MODE")
        tool.call("a")
        tool.call("a")
        noted = len(run.observations())
    assert tool.ran == (1 if mode == "enforce" else 2)
    assert noted == (1 if mode in ("enforce", "Advise") else 0)


@pytest.mark.parametrize("value", ["", "  "])
def test_a_blank_environment_overrides_nothing(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """An empty variable is as good as none."""
    monkeypatch.setenv("REPEATGUARD_MODE", value)
    assert walk(Tool(), "aa", Policy())[0] == ["execute", "replay"]


def test_observe_tells_whether_a_replay_would_have_been_right() -> None:
    """The event says if the result differed from the one that would have been served."""
    tool, sink = Tool(lambda key: key if key == "a" else tool.ran), MemorySink()
    walk(tool, "aabb", Policy(mode="observe"), events=sink)
    assert [(event.call, event.would, event.differed) for event in sink.repeats] == [
        (2, "replay", False),
        (4, "replay", True),
    ]


# -- the advisory policy -------------------------------------------------------------------------


class Bench:
    """Tools of several kinds, for chains of calls."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.ran: list[str] = []
        for name, declared in (
            ("look_up", {}),
            ("other", {}),
            ("change", {"effect": "write"}),
            ("poll", {"effect": "live"}),
            ("toggle", {"repeatable": True}),
            ("plan", {"effect": "bookkeeping"}),
        ):
            self.add(name, **declared)

    def add(self, name: str, **declared: Any) -> None:
        """Declare a tool that answers something new each time."""

        def body(key: Any = "") -> str:
            self.ran.append(name)
            return f"{name} {len(self.ran)}"

        decorate: Callable[..., Any] = guarded_tool
        decorated = decorate(name=name, registry=self.registry, **declared)(body)
        setattr(self, name, decorated)

    def run(self, *args: Any, **options: Any) -> Run:
        """Return a run under the advisory policy."""
        return Run(registry=self.registry, policy=Policy.advisory(*args, **options))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def heard(run: Run) -> list[tuple[int, int]]:
    """Return call and count of the observations that are waiting."""
    return [(each.call, each.count) for each in run.observations()]


@pytest.mark.parametrize("tool", ["look_up", "change", "poll", "toggle"])
def test_advisory_speaks_at_its_thresholds(tool: str) -> None:
    """At 3, 5 and 8 consecutive identical calls, whatever they return; all of them run."""
    bench = Bench()
    with bench.run() as run:
        answers = [getattr(bench, tool)("a") for _ in range(12)]
        assert heard(run) == [(3, 3), (5, 5), (8, 8)]
    assert len(set(answers)) == 12
    assert run.outcome is not None
    assert run.outcome.reason == "completed"


def test_advisory_first_nudges_then_reminds() -> None:
    """The nudge is short and names nothing; a reminder names tool, count and arguments."""
    bench = Bench()
    with bench.run() as run:
        for _ in range(5):
            bench.look_up("SO-1")
        nudge, reminder = run.observations()
    assert len(nudge.text) < len(reminder.text)
    assert "SO-1" not in nudge.text
    assert "look_up" in reminder.text
    assert "5" in reminder.text
    assert "SO-1" in reminder.text


def test_advisory_clamps_arguments_and_says_by_how_much() -> None:
    """A long argument is cut, and the number left out is told."""
    bench = Bench()
    with bench.run((2, 3), preview_chars=100) as run:
        for _ in range(3):
            bench.look_up("x" * 5_000)
        reminder = run.observations()[-1]
    assert len(reminder.text) < 500
    assert "x" * 50 in reminder.text
    left = [
        word for word in reminder.text.replace("(", " ").replace("+", " ").split() if word.isdigit()
    ]
    assert any(4_500 < int(number) < 5_100 for number in left)


def test_advisory_breaks_a_chain_at_another_call() -> None:
    """Only consecutive identical calls count, and each chain is told afresh."""
    bench = Bench()
    with bench.run() as run:
        for key in ("a", "a", "b", "a", "a"):
            bench.look_up(key)
        assert heard(run) == []
        bench.look_up("a")
        bench.other("a")
        assert heard(run) == [(6, 3)]
        for _ in range(3):
            bench.look_up("a")
        assert heard(run) == [(10, 3)]


def test_advisory_sorts_keys() -> None:
    """Arguments are compared in canonical form."""
    bench = Bench()
    with bench.run() as run:
        bench.look_up({"a": 1, "b": {"c": 1, "d": 2}})
        bench.look_up({"b": {"d": 2, "c": 1}, "a": 1})
        run.dispatch("look_up", '{"key": {"b": {"d": 2, "c": 1}, "a": 1}}')
        assert heard(run) == [(3, 3)]


def test_advisory_counts_each_call_of_a_batch() -> None:
    """Three equal calls of one turn are three."""
    bench = Bench()
    with bench.run() as run:
        run.turn()
        for _ in range(3):
            bench.look_up("a")
        assert heard(run) == [(3, 3)]
    assert len(bench.ran) == 3


def test_advisory_counts_calls_that_reached_no_tool() -> None:
    """A denied call is part of its chain, and so is one that does not fit."""
    bench = Bench()
    with bench.run() as run:
        for _ in range(3):
            run.refused("look_up", {"key": "a"}, "denied", denied=True)
        assert heard(run) == [(3, 3)]
        said = [run.dispatch("look_up", "{not JSON") for _ in range(3)]
    assert ["in a row" in each for each in said] == [False, False, True]


def test_advisory_resets_at_a_users_word_only() -> None:
    """A message resets the chain, a compaction does not."""
    bench = Bench()
    with bench.run() as run:
        bench.look_up("a")
        bench.look_up("a")
        run.user_message("again")
        bench.look_up("a")
        bench.look_up("a")
        assert heard(run) == []
        run.compacted()
        bench.look_up("a")
        assert heard(run) == [(5, 3)]


@pytest.mark.parametrize(
    ("options", "transparent"),
    [
        ({}, "plan"),
        ({"exclude": ["oth*"]}, "other"),
        ({"exclude": ["other"]}, "other"),
        ({"include": ["look_*"]}, "other"),
    ],
)
def test_advisory_looks_through_some_tools(options: dict[str, Any], transparent: str) -> None:
    """Bookkeeping, excluded and not included tools neither count nor break a chain."""
    bench = Bench()
    with bench.run(**options) as run:
        for _ in range(4):
            bench.look_up("a")
            getattr(bench, transparent)("a")
        assert [count for _, count in heard(run)] == [3]


def test_advisory_thresholds_of_ones_own() -> None:
    """Any number of them, in any order."""
    bench = Bench()
    with bench.run((4, 2)) as run:
        for _ in range(6):
            bench.look_up("a")
        assert heard(run) == [(2, 2), (4, 4)]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"thresholds": (1, 3)}, "1"),
        ({"thresholds": (0,)}, "0"),
        ({"thresholds": (3, 3)}, "duplicate"),
        ({"thresholds": (True, 3)}, "True"),
        ({"thresholds": ()}, "(3, 5, 8)"),
        ({"thresholds": (3.0,)}, "3.0"),
        ({"include": "look_up"}, "['look_up']"),
        ({"exclude": "look_up"}, "['look_up']"),
        ({"preview_chars": 0}, "0"),
        ({"preview_chars": True}, "True"),
    ],
)
def test_advisory_is_checked_when_it_is_built(options: dict[str, Any], part: str) -> None:
    """Each mistake says what was given."""
    with pytest.raises(PolicyError) as caught:
        Policy.advisory(**options)
    assert part in str(caught.value)


@pytest.mark.parametrize("thresholds", [3, "358", None, ["3"]])
def test_advisory_thresholds_that_are_no_list_of_numbers(thresholds: Any) -> None:
    """A single number, a text: the error is ours and says what to write."""
    with pytest.raises(PolicyError) as caught:
        Policy.advisory(thresholds)
    assert "thresholds" in str(caught.value)


def test_advisory_may_be_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment makes it silent; the events tell."""
    monkeypatch.setenv("REPEATGUARD_MODE", "observe")
    bench, sink = Bench(), MemorySink()
    with Run(registry=bench.registry, policy=Policy.advisory(), events=sink) as run:
        for _ in range(5):
            bench.look_up("a")
        assert run.observations() == []
    assert [event.count for event in sink.repeats] == [3, 5]


def test_advisory_never_withholds_even_where_it_is_enforced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mode that demands more does not make it another policy."""
    monkeypatch.setenv("REPEATGUARD_MODE", "enforce")
    bench = Bench()
    with bench.run() as run:
        for _ in range(9):
            bench.look_up("a")
    assert len(bench.ran) == 9
    assert not run.stuck
