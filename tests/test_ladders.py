"""Every row of the ladder's table, at every count, in every policy and mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from repeatguard_sdk import Policy, Registry, Run, guarded_tool
from repeatguard_sdk.events import MemorySink, RepeatEvent


class Broken(Exception):
    """A failure that is not transient."""


@attrs.frozen
class Kind:
    """One row: what is called again and again, and what each call comes to under the table.

    Attributes:
        ladder: per count the decision; a star says that it is noted, or ends the run.
        strict: the same under `Policy.strict()`.
    """

    name: str
    ladder: tuple[str, ...]
    strict: tuple[str, ...]
    effect: str = "read"
    repeatable: bool = False
    error: type[Exception] | None = None

    def declare(self, registry: Registry, ran: list[str], **more: Any) -> Callable[..., Any]:
        """Make the tool; it remembers that it ran."""

        def again(query: str) -> str:
            ran.append(query)
            if self.error is not None:
                raise self.error("it is down")
            return "the answer"

        return guarded_tool(
            effect=self.effect, repeatable=self.repeatable, registry=registry, **more
        )(again)


TWO_THREE = ("execute", "replay*", "exit*")
TWO_THREE_REFUSED = ("execute", "refuse*", "exit*")
FAILING = ("execute", "execute*", "refuse*", "exit*")
UNKNOWN = ("execute", "execute*", "replay*", "replay*", "exit*")
LIVE = ("execute", "execute", "execute*", "execute*", "execute*", "execute*")
FREE = ("execute",) * 7
# Two executions that count for nothing come before the ladder of failures.
TRANSIENT = ("execute", "execute", *FAILING)

KINDS = (
    Kind("read", TWO_THREE, TWO_THREE),
    Kind("write", TWO_THREE, TWO_THREE, effect="write"),
    Kind("ask", TWO_THREE, TWO_THREE, effect="ask"),
    Kind("final", TWO_THREE, TWO_THREE, effect="final"),
    Kind("failing read", FAILING, TWO_THREE_REFUSED, error=Broken),
    Kind("failing write", FAILING, TWO_THREE_REFUSED, effect="write", error=Broken),
    Kind("failing ask", FAILING, TWO_THREE_REFUSED, effect="ask", error=Broken),
    Kind("failing final", FAILING, TWO_THREE_REFUSED, effect="final", error=Broken),
    Kind("failing unknown", FAILING, TWO_THREE_REFUSED, effect="unknown", error=Broken),
    Kind("timing out", TRANSIENT, ("execute", "execute", *TWO_THREE_REFUSED), error=TimeoutError),
    Kind("unknown", UNKNOWN, TWO_THREE, effect="unknown"),
    Kind("live", LIVE, LIVE, effect="live"),
    Kind("failing live", LIVE, LIVE, effect="live", error=Broken),
    Kind("repeatable read", FREE, FREE, repeatable=True),
    Kind("repeatable write", FREE, FREE, effect="write", repeatable=True),
    Kind("repeatable unknown", FREE, FREE, effect="unknown", repeatable=True),
    Kind("failing repeatable", FREE, FREE, effect="write", repeatable=True, error=Broken),
    Kind("bookkeeping", UNKNOWN, TWO_THREE, effect="bookkeeping"),
)
BY_NAME = {kind.name: kind for kind in KINDS}
POLICIES: dict[str, Callable[..., Policy]] = {"default": Policy, "strict": Policy.strict}
CASES = [
    pytest.param(kind, policy, position, id=f"{kind.name}-{policy}-{position}")
    for kind in KINDS
    for policy in POLICIES
    for position in range(1, 1 + len(kind.ladder if policy == "default" else kind.strict))
]
WHOLE = [
    pytest.param(kind, policy, id=f"{kind.name}-{policy}") for kind in KINDS for policy in POLICIES
]


@attrs.frozen
class Seen:
    """What became of one call."""

    decision: str
    would: str
    count: int
    ran: bool
    observed: bool
    finding: str | None
    got: Any


@attrs.define
class Story:
    """A run of one tool that is called with the same arguments again and again."""

    calls: list[Seen] = attrs.field(factory=list)
    sink: MemorySink = attrs.field(factory=MemorySink)
    run: Any = None


def tell(kind: Kind, policy: Policy, times: int, **declared: Any) -> Story:
    """Call a tool of that kind `times` times, or until the run ends."""
    registry, ran, story = Registry(), [], Story()
    tool = kind.declare(registry, ran, **declared)
    run = story.run = Run(policy=policy, registry=registry, events=story.sink)
    with run:
        for _ in range(times):
            before, got = len(ran), None
            try:
                got = tool("q")
            except Exception as error:
                got = error
            finally:
                story.calls.append(_seen(run, len(ran) > before, got))
    return story


def _seen(run: Run, ran: bool, got: Any) -> Seen:
    value = run.last_decision
    if value is None:
        return Seen("execute", "execute", 0, ran, False, None, got)
    finding = None if value.finding is None else value.finding.kind
    observed = value.observation is not None
    return Seen(value.decision, value.would, value.count, ran, observed, finding, got)


def expected(kind: Kind, policy: str) -> tuple[str, ...]:
    """The ladder of a kind under a policy."""
    return kind.ladder if policy == "default" else kind.strict


def counts(kind: Kind, policy: str) -> list[int]:
    """The count told at each position."""
    length = len(expected(kind, policy))
    free = 2 if kind.error is TimeoutError else 0
    return [0] * free + list(range(1, length - free + 1))


@pytest.mark.parametrize(("kind", "policy", "position"), CASES)
def test_enforced_call_does_what_its_row_says(kind: Kind, policy: str, position: int) -> None:
    """Each call executes, replays, refuses or exits as the table says, with its count and finding."""
    step = expected(kind, policy)[position - 1]
    story = tell(kind, POLICIES[policy](), position)
    assert len(story.calls) == position
    call = story.calls[-1]
    decision, noted = step.rstrip("*"), step.endswith("*")
    assert call.decision == call.would == decision
    assert call.ran == (decision == "execute")
    assert call.count == counts(kind, policy)[position - 1]
    assert call.finding == ("repeat" if noted else None)
    # An exit speaks through the outcome, for the model reads no more.
    assert call.observed == (noted and decision != "exit")


@pytest.mark.parametrize(("kind", "policy"), WHOLE)
def test_run_ends_at_the_exit_of_its_row_and_not_before(kind: Kind, policy: str) -> None:
    """The block is left exactly where the table says exit; a final that succeeded is no failure."""
    ladder = expected(kind, policy)
    story = tell(kind, POLICIES[policy](), 20)
    ends = ladder[-1] == "exit*"
    assert len(story.calls) == (len(ladder) if ends else 20)
    if not ends:
        assert story.run.outcome.reason == "completed"
        return
    finished = kind.effect == "final" and kind.error is None
    assert story.run.outcome.reason == ("finished" if finished else "stuck")
    assert story.run.stuck is not finished
    assert story.run.outcome.count == counts(kind, policy)[-1]


@pytest.mark.parametrize(("kind", "policy"), WHOLE)
def test_answer_of_a_withheld_call_is_the_stored_one(kind: Kind, policy: str) -> None:
    """A replay gives the first result, a refusal raises an error of the stored type and text."""
    story = tell(kind, POLICIES[policy](), len(expected(kind, policy)))
    for call in story.calls:
        if call.decision == "replay":
            assert call.got == "the answer"
        elif call.decision == "refuse":
            assert type(call.got) is kind.error
            assert str(call.got) == "it is down"


@pytest.mark.parametrize(("kind", "policy"), WHOLE)
def test_advise_withholds_nothing_and_notes_at_the_same_counts(kind: Kind, policy: str) -> None:
    """In advise every call runs, and the model is told where it would be told in enforce."""
    ladder = expected(kind, policy)
    story = tell(kind, POLICIES[policy](mode="advise"), len(ladder))
    assert [call.ran for call in story.calls] == [True] * len(ladder)
    assert {call.decision for call in story.calls} == {"execute"}
    assert [call.observed for call in story.calls] == [step.endswith("*") for step in ladder]
    assert [call.would for call in story.calls] == [step.rstrip("*") for step in ladder]
    assert [call.count for call in story.calls] == counts(kind, policy)
    assert not story.run.stuck


@pytest.mark.parametrize(("kind", "policy"), WHOLE)
def test_observe_only_tells_what_enforce_would_have_done(kind: Kind, policy: str) -> None:
    """In observe nothing reaches the model; each event says what would have been done."""
    ladder = expected(kind, policy)
    story = tell(kind, POLICIES[policy](mode="observe"), len(ladder))
    assert all(call.ran and not call.observed for call in story.calls)
    told = [(event.decision, event.would, event.mode) for event in story.sink.repeats]
    assert told == [
        ("execute", step.rstrip("*"), "observe") for step in ladder if step.endswith("*")
    ]
    assert story.run.observations() == []
    assert not story.run.stuck


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_events_in_advise_say_what_was_done_and_what_would_be(kind: Kind) -> None:
    """One event for each note, with the count, and the decision that was spared."""
    story = tell(kind, Policy(mode="advise"), len(kind.ladder))
    assert [(event.count, event.would, event.finding) for event in story.sink.repeats] == [
        (count, step.rstrip("*"), "repeat")
        for count, step in zip(counts(kind, "default"), kind.ladder, strict=True)
        if step.endswith("*")
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_events_in_enforce_are_the_interventions(kind: Kind) -> None:
    """One event for each note, replay, refusal and exit, and none for a call that just ran."""
    story = tell(kind, Policy(), len(kind.ladder))
    assert [(event.decision, event.would) for event in story.sink.repeats] == [
        (step.rstrip("*"), step.rstrip("*")) for step in kind.ladder if step.endswith("*")
    ]


@pytest.mark.parametrize(("kind", "policy"), WHOLE)
def test_off_counts_nothing_at_all(kind: Kind, policy: str) -> None:
    """In off the tool is the plain tool: no count, no event, no decision."""
    story = tell(kind, POLICIES[policy](mode="off"), 8)
    assert [call.ran for call in story.calls] == [True] * 8
    assert story.run.calls == 0
    assert story.run.last_decision is None
    assert story.sink.repeats == []
    assert story.run.outcome.reason == "completed"


def shape(story: Story) -> list[tuple[str, str, bool, bool]]:
    """What a mode decides of a story."""
    return [(call.decision, call.would, call.ran, call.observed) for call in story.calls]


@pytest.mark.parametrize("mode", ["enforce", "advise", "observe", "off"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_mode_of_the_tool_stands_above_that_of_the_policy(kind: Kind, mode: Any) -> None:
    """`mode=` of a tool does what the same mode of the policy does."""
    other = "off" if mode != "off" else "enforce"
    told = tell(kind, Policy(mode=other), len(kind.ladder), mode=mode)
    assert shape(told) == shape(tell(kind, Policy(mode=mode), len(kind.ladder)))


@pytest.mark.parametrize("mode", ["enforce", "advise", "observe", "off"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_variable_stands_above_policy_and_tool(
    kind: Kind, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`REPEATGUARD_MODE` overrides the policy's mode and the tool's own."""
    plain = shape(tell(kind, Policy(mode=mode), len(kind.ladder)))
    other = "off" if mode != "off" else "enforce"
    monkeypatch.setenv("REPEATGUARD_MODE", mode)
    assert shape(tell(kind, Policy(mode=other), len(kind.ladder))) == plain
    assert shape(tell(kind, Policy(mode=other), len(kind.ladder), mode=other)) == plain


def test_two_tools_of_one_run_may_have_two_modes() -> None:
    """A tool that is off is not counted, while its neighbour is enforced."""
    registry, ran = Registry(), []
    guarded = KINDS[0].declare(registry, ran, name="guarded")
    free = KINDS[0].declare(registry, ran, name="free", mode="off")
    with Run(registry=registry) as run:
        for _ in range(2):
            free("q")
            guarded("q")
        assert run.calls == 2
        assert run.last_decision.decision == "replay"
    assert ran == ["q", "q", "q"]


def test_strict_lets_nothing_start_afresh() -> None:
    """Under the whole-run rule a write, progress and the user's word change no count."""
    registry, ran = Registry(), []
    read = KINDS[0].declare(registry, ran, name="read")
    write = BY_NAME["write"].declare(registry, ran, name="write")
    with Run(policy=Policy.strict(), registry=registry) as run:
        read("q")
        write("w")
        run.progress()
        run.user_message("try again")
        read("q")
        assert run.last_decision.decision == "replay"
        read("q")
    assert run.stuck


def test_strict_convicts_by_the_fold_alone() -> None:
    """Under the strict policy another case and other spaces are the same call, unseen."""
    registry, ran = Registry(), []
    read = KINDS[0].declare(registry, ran)
    with Run(policy=Policy.strict(), registry=registry) as run:
        read("Parcel  P-7")
        read(" parcel p-7")
        assert run.last_decision.decision == "replay"
    assert ran == ["Parcel  P-7"]


@pytest.mark.parametrize("kind", ["read", "live", "unknown"])
def test_changed_result_starts_the_count_afresh(kind: str) -> None:
    """A row of equal results is broken by another one, where the call runs again at all."""
    registry = Registry()
    answers = iter(["a", "a", "b", "b", "b", "a"])

    @guarded_tool(effect=BY_NAME[kind].effect, registry=registry)
    def look() -> str:
        return next(answers)

    with Run(policy=Policy(mode="observe"), registry=registry) as run:
        told = []
        for _ in range(6):
            look()
            told.append(run.last_decision.count)
    assert told == [1, 2, 1, 2, 3, 1]


def test_failure_of_another_text_starts_the_count_afresh() -> None:
    """Only the same failure again climbs: another text is another failure."""
    registry = Registry()
    texts = iter(["bad", "bad", "worse", "worse", "bad"])

    @guarded_tool(registry=registry)
    def look() -> str:
        raise Broken(next(texts))

    with Run(
        policy=Policy(same_errors=None, failures=None, mode="observe"), registry=registry
    ) as run:
        told = []
        for _ in range(5):
            with pytest.raises(Broken):
                look()
            told.append(run.last_decision.count)
    assert told == [1, 2, 1, 2, 1]


@pytest.mark.parametrize(("retries", "free"), [(0, 0), (1, 1), (2, 2), (5, 5)])
def test_transient_retries_count_for_nothing(retries: int, free: int) -> None:
    """As many time-outs as the policy says come before the ladder of failures."""
    ladder = ("execute",) * free + FAILING
    story = tell(BY_NAME["timing out"], Policy(transient_retries=retries), 30)
    assert [call.decision for call in story.calls] == [step.rstrip("*") for step in ladder]
    assert [call.observed for call in story.calls[:free]] == [False] * free


def test_transient_failure_between_two_alike_breaks_nothing() -> None:
    """A time-out that counts for nothing leaves the count of the failures around it alone."""
    registry = Registry()
    errors = iter([Broken("bad"), TimeoutError("slow"), Broken("bad")])

    @guarded_tool(registry=registry)
    def look() -> str:
        raise next(errors)

    with Run(registry=registry) as run:
        told = []
        for _ in range(3):
            with pytest.raises((Broken, TimeoutError)):
                look()
            told.append((run.last_decision.count, run.last_decision.observation is not None))
    assert told == [(1, False), (0, False), (2, True)]


def test_write_is_done_once_although_its_receipts_would_differ() -> None:
    """The first receipt of a write is replayed: the second one is never made."""
    registry, numbers = Registry(), iter(range(100))

    @guarded_tool(effect="write", registry=registry)
    def book(seat: str) -> dict[str, Any]:
        return {"seat": seat, "receipt": next(numbers)}

    with Run(registry=registry):
        assert book("4A") == book("4A") == {"seat": "4A", "receipt": 0}


@pytest.mark.parametrize("budget", [1, 2, 3])
@pytest.mark.parametrize("effect", ["read", "live", "unknown", "write"])
def test_budget_refuses_and_a_model_that_ignores_it_ends(effect: Any, budget: int) -> None:
    """Past `max_calls` a call is refused with a text, three times; the fourth ends the run."""
    registry, ran = Registry(), []

    @guarded_tool(effect=effect, max_calls=budget, registry=registry)
    def look(query: int) -> str:
        ran.append(query)
        return f"answer {query}"

    told = []
    with Run(registry=registry) as run:
        for number in range(20):
            try:
                answer = look(number)
            finally:
                told.append(run.last_decision.decision)
            assert isinstance(answer, str)
    assert told == ["execute"] * budget + ["refuse"] * 3 + ["exit"]
    assert len(ran) == budget
    assert run.stuck


def test_repeatable_is_bounded_by_its_budget_alone() -> None:
    """An identical repeatable call runs until `max_calls`, and is refused from there."""
    registry, ran = Registry(), []

    @guarded_tool(repeatable=True, max_calls=4, registry=registry)
    def next_page() -> str:
        ran.append("page")
        return "the same page"

    told = []
    with Run(registry=registry) as run:
        for _ in range(6):
            next_page()
            told.append(run.last_decision.decision)
    assert told == ["execute"] * 4 + ["refuse"] * 2
    assert len(ran) == 4


def test_final_is_finished_after_its_success_and_stays_so() -> None:
    """The first success settles the outcome; nothing that comes after it is called stuck."""
    story = tell(BY_NAME["final"], Policy(), 1)
    assert story.run.outcome.reason == "finished"
    assert tell(BY_NAME["final"], Policy(), 2).run.outcome.reason == "finished"


def test_later_calls_of_an_ended_run_do_not_execute() -> None:
    """Once stuck, always stuck: another tool does not run either, whoever calls it."""
    registry, ran = Registry(), []
    read = KINDS[0].declare(registry, ran, name="read")
    other = BY_NAME["live"].declare(registry, ran, name="other")
    with Run(registry=registry, on_stuck="flag") as run:
        for _ in range(3):
            read("q")
        assert run.stuck
        for _ in range(3):
            other("o")
            assert run.last_decision.decision == "exit"
    assert ran == ["q"]


def test_each_event_names_run_call_tool_and_count() -> None:
    """An event can be read alone: it says where it belongs and what it saw."""
    story = tell(BY_NAME["read"], Policy(), 3)
    event = story.sink.repeats[0]
    assert isinstance(event, RepeatEvent)
    assert (event.run_id, event.call, event.tool, event.count) == (story.run.run_id, 2, "again", 2)
    assert event.cause == "identical call"
    assert event.key_digest
    assert event.result_digest
    assert story.sink.runs[0].executed == {"again": 1}
    assert story.sink.runs[0].replayed == {"again": 1}
