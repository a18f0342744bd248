"""Real tools under a real run, and the slow model beside them, step for step."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from repeatguard_sdk import Registry, Run, guarded_tool
from slow_model import EMPTY_RESULTS, Line, Outcome, SlowModel, Tool, fact_of

EXAMPLES = int(os.environ.get("REPEATGUARD_MODEL_EXAMPLES", "3000"))


class Broken(Exception):
    """A failure that is not transient."""


@attrs.frozen
class Call:
    """A call, and what the tool comes to if it runs."""

    tool: int
    text: str
    outcome: Outcome


@attrs.frozen
class Refused:
    """A call that never reaches its tool; a negative tool is a name nobody declared."""

    tool: int
    text: str
    reason: str


@attrs.frozen
class Tell:
    """An event."""

    event: str


@attrs.frozen
class Know:
    """A fact that is told."""

    fact: str
    value: str


KINDS = (
    {"effect": "read"},
    {"effect": "read"},
    {"effect": "read"},
    {"effect": "write"},
    {"effect": "live"},
    {"effect": "ask"},
    {"effect": "ask", "slot": True},
    {"effect": "ask", "slot": True},
    {"effect": "bookkeeping"},
    {"effect": "final"},
    {"effect": "unknown"},
    {"effect": "unknown"},
    {"effect": "read", "repeatable": True},
    {"effect": "write", "repeatable": True},
    {"effect": "unknown", "repeatable": True},
    {"effect": "read", "max_calls": 2},
    {"effect": "unknown", "max_calls": 1},
    {"effect": "live", "max_calls": 3},
)
# Spellings that fold together, and some that do not.
TEXTS = (("a",), ("a", "A"), ("a", " a", "A"), ("a b", "a  B"), ("a", "A", "b"), ("a b", "b"))
OUTCOMES = (
    Outcome(value="x"),
    Outcome(value="x"),
    Outcome(value="y"),
    Outcome(value=""),
    Outcome(value=[]),
    Outcome(value="no results"),
    Outcome(error="bad"),
    Outcome(error="worse"),
    Outcome(error="timeout 1", transient=True),
    Outcome(error="timeout 2", transient=True),
)

events = st.sampled_from(["turn", "turn", "turn", "user_message", "progress", "compacted"])


def steps(tools: int, texts: tuple[str, ...], outcomes: list[Outcome]) -> st.SearchStrategy[Any]:
    """One step; each of the pools is small, so that most steps were made before."""
    text = st.sampled_from(texts)
    call = st.builds(Call, st.integers(0, tools - 1), text, st.sampled_from(outcomes))
    refused = st.builds(
        Refused, st.integers(-2, tools - 1), text, st.sampled_from(["denied", "no fit"])
    )
    know = st.builds(Know, st.sampled_from(["a", "a_b"]), st.sampled_from(["x", "k"]))
    return st.one_of(call, call, call, call, call, call, refused, st.builds(Tell, events), know)


@st.composite
def sequences(draw: st.DrawFn) -> tuple[list[Tool], list[Any]]:
    """Some tools and many steps: made of few in one half of the cases, of small pools in the other."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    tools = [Tool(f"tool{number}", **kind) for number, kind in enumerate(kinds)]
    texts = draw(st.sampled_from(TEXTS))
    outcomes = draw(st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=3))
    step = steps(len(tools), texts, outcomes)
    if draw(st.booleans()):
        step = st.sampled_from(draw(st.lists(step, min_size=1, max_size=6)))
    return tools, draw(st.lists(step, max_size=30))


class Stage:
    """The real side: decorated tools and an open run that raises nothing when it is stuck."""

    def __init__(self, tools: list[Tool]) -> None:
        self.registry = Registry()
        self.outcome = Outcome()
        self.ran = False
        self.functions = [self._declare(tool) for tool in tools]
        self.run = Run(registry=self.registry, on_stuck="flag")

    def _declare(self, tool: Tool) -> Any:
        def body(q: str) -> Any:
            self.ran = True
            if self.outcome.failed:
                raise (TimeoutError if self.outcome.transient else Broken)(self.outcome.error)
            return self.outcome.value

        return guarded_tool(
            name=tool.name,
            effect=tool.effect,
            slot="q" if tool.slot else None,
            repeatable=tool.repeatable,
            max_calls=tool.max_calls,
            registry=self.registry,
        )(body)

    def call(self, step: Call, number: int) -> tuple[Any, ...]:
        """Make a call; return what became of it, as `said` returns what the model says."""
        self.outcome, self.ran = step.outcome, False
        try:
            got = ("ok", self.functions[number](step.text))
        except (Broken, TimeoutError) as error:
            got = ("error", str(error))
        return (*self._verdict(), self.ran, got)

    def refused(self, step: Refused, tools: list[Tool]) -> tuple[Any, ...]:
        """Tell of a call that reached no tool."""
        name = ghost(step).name if step.tool < 0 else tools[step.tool].name
        self.run.refused(name, {"q": step.text}, step.reason)
        return (*self._verdict(), False, None)

    def _verdict(self) -> tuple[Any, ...]:
        value = self.run.last_decision
        assert value is not None
        noted = value.observation is not None
        return (
            value.decision,
            value.count,
            None if value.finding is None else value.finding.kind,
            noted,
        )


def ghost(step: Refused) -> Tool:
    """A tool nobody declared."""
    return Tool(f"ghost{-step.tool}", effect="unknown")


def said(line: Line) -> tuple[Any, ...]:
    """What the model says of a call: decision, count, finding, note, execution, result."""
    got: Any = None
    if line.what == "call" and not line.over_budget:
        assert line.outcome is not None
        failed = line.outcome.failed
        got = ("error", line.outcome.error) if failed else ("ok", line.outcome.value)
    verdict = (line.decision, line.reported, line.finding, line.finding is not None)
    return (*verdict, line.executed, got)


def walk(tools: list[Tool], script: list[Any], check: Any) -> SlowModel:
    """Take each step on both sides and hand both verdicts on each call to `check`."""
    stage, model = Stage(tools), SlowModel()
    with stage.run as run:
        for number, step in enumerate(script, 1):
            if isinstance(step, Call):
                which = step.tool
                line = model.call(tools[which], step.text, step.outcome)
                check(number, step, said(line), stage.call(step, which))
            elif isinstance(step, Refused):
                declared = step.tool >= 0
                tool = tools[step.tool] if declared else ghost(step)
                line = model.refused(tool, step.text, step.reason, declared=declared)
                check(number, step, said(line), stage.refused(step, tools))
            elif isinstance(step, Know):
                model.know(step.fact, step.value)
                run.know(**{step.fact: step.value})
            else:
                model.tell(step.event)
                getattr(run, step.event)()
            if model.over:
                break
    return model


def must_agree(number: int, step: Any, model: tuple[Any, ...], real: tuple[Any, ...]) -> None:
    """Compare the two verdicts; what a call over budget is told is the guard's own text."""
    if model[-1] is None:
        real = (*real[:-1], None)
    assert model == real, f"step {number}, {step}: the model says {model}, the guard {real}"


usual = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
lawful = settings(usual, max_examples=max(EXAMPLES // 3, 1))


@usual
@given(sequences())
def test_the_guard_does_what_the_slow_model_says(given_: tuple[list[Tool], list[Any]]) -> None:
    """Decisions, counts, findings, notes, executions and results agree at every step."""
    tools, script = given_
    model = walk(tools, script, must_agree)
    for line in model.lines:
        if line.finding:
            event(f"{line.decision}, {line.finding}")


def call(tool: int, text: str, outcome: Outcome | str) -> Call:
    """Write a call briefly: `!text` is an error, `~text` a transient one, all else a result."""
    if not isinstance(outcome, str):
        return Call(tool, text, outcome)
    if outcome[:1] in "!~" and outcome:
        return Call(tool, text, Outcome(error=outcome[1:], transient=outcome[0] == "~"))
    return Call(tool, text, Outcome(value=outcome))


def found(number: int) -> Outcome:
    """A result unlike any other."""
    return Outcome(value=f"result {number}")


TURN, PROGRESS, COMPACTED, USER = map(Tell, ("turn", "progress", "compacted", "user_message"))
READ, WRITE, SHELL = {"effect": "read"}, {"effect": "write"}, {"effect": "unknown"}
ASK, SLOT = {"effect": "ask"}, {"effect": "ask", "slot": True}
PLAN, ONCE = {"effect": "bookkeeping"}, {"effect": "read", "max_calls": 1}
GHOST = Refused(-1, "a", "no fit")
# Each is a sequence on which guard and model once differed, as short as Hypothesis made it.
ONCE_DIFFERENT: dict[str, tuple[list[dict[str, Any]], list[Any]]] = {
    "a verdict on a suspect outlives its epoch": (
        [READ], [call(0, "a", "x"), call(0, "A", "x"), PROGRESS, call(0, "a", "y"), call(0, "A", "z")]
    ),
    "a verdict outlives its epoch, the other spelling first": (
        [READ], [call(0, "a", "x"), call(0, "A", "x"), PROGRESS, call(0, "A", "y"), call(0, "a", "z")]
    ),
    "a third time-out of a write opens no epoch": (
        [WRITE, READ],
        [*[call(0, "w", "~timeout")] * 2, call(1, "r", "x"), call(0, "w", "~timeout"), call(1, "r", "y")],
    ),
    "a fourth time-out of an unknown tool opens no epoch": (
        [SHELL, READ],
        [*[call(0, "w", "~timeout")] * 3, call(1, "r", "x"), call(0, "w", "~timeout"), call(1, "r", "y")],
    ),
    "a suspected question is never convicted": ([ASK], [call(0, "a", "x"), call(0, "A", "x")]),
    "a convicted question is asked again": (
        [ASK], [call(0, "A", "x"), call(0, "a", "x"), call(0, "a", "x")]
    ),
    "a first spelling that failed at first raises no suspicion": (
        [READ], [call(0, "A", "!bad"), call(0, "A", "x"), call(0, "a", "x")]
    ),
    "a first spelling called again in a new epoch raises no suspicion": (
        [READ], [call(0, "a", "x"), PROGRESS, call(0, "a", "x"), call(0, "A", "x")]
    ),
    "a failed question hides a fact told later": (
        [SLOT], [call(0, "a", "!bad"), Know("a", "k"), call(0, "a", "x")]
    ),
    "an empty answer counts towards a fact told later": (
        [SLOT], [call(0, "a", ""), Know("a", "k"), call(0, "a", "x")]
    ),
    "a question that timed out passes for an answer lost to a compaction": (
        [SLOT], [call(0, "a", "~timeout"), COMPACTED, Know("a", "k"), call(0, "a", "x")]
    ),
    "another fact goes on with the count of the old one": (
        [SLOT], [call(0, "a", "x"), call(0, "a", "x"), Know("a", "k"), call(0, "a", "x")]
    ),
    "a question that failed counts on through an epoch": (
        [SLOT], [call(0, "a", "!bad"), PROGRESS, call(0, "a", "!bad")]
    ),
    "two equal questions of a turn, in a later epoch, end the run": (
        [SLOT, WRITE],
        [TURN, call(0, "a", "x"), TURN, call(1, "w", "x"), TURN, call(0, "a", "x"), call(0, "a", "x")],
    ),
    "a refused call opens an epoch": ([READ], [call(0, "a", "x"), GHOST, call(0, "a", "x")]),
    "a refused call ends a row of empties": (
        [READ],
        [call(0, "a", ""), call(0, "b", "no results"), Refused(0, "c", "denied"), call(0, "a b", "")],
    ),
    "a refused call's count is not carried": ([SHELL], [GHOST, GHOST, call(0, "a", "x"), GHOST]),
    "another spelling of the same turn is part of a cycle": (
        [READ],
        [
            call(0, "A", "x"), Refused(0, "A", "denied"), TURN, call(0, "A", "x"),
            call(0, "a", "x"), Refused(0, "A", "denied"),
        ],
    ),
    "a refused call of the same turn, after a write": (
        [WRITE], [TURN, Refused(0, "a", "denied"), call(0, "b", "x"), Refused(0, "a", "denied")]
    ),
    "a failing write's count is not carried": (
        [WRITE, SHELL], [*[call(0, "a", "!bad")] * 2, call(1, "a", "x"), call(0, "a", "!bad")]
    ),
    "refusals over budget survive the user's word": (
        [ONCE], [call(0, "a", "x"), *[call(0, "b", "x")] * 3, USER, call(0, "b", "x")]
    ),
    "a fact is not told again after a compaction": (
        [SLOT], [call(0, "a", "x"), COMPACTED, call(0, "a", "x")]
    ),
    "a free delivery is not shared within its turn": (
        [READ], [TURN, call(0, "a", "x"), TURN, COMPACTED, call(0, "a", "x"), call(0, "a", "x")]
    ),
    "a stored error is not told again after a compaction": (
        [READ], [*[call(0, "a", "!bad")] * 2, COMPACTED, call(0, "a", "!bad")]
    ),
    "a call before the first turn mark passes for turn one": (
        [READ], [call(0, "a", "!bad"), TURN, call(0, "b", "!bad"), TURN, call(0, "a b", "!bad")]
    ),
    "a stored time-out is part of a cycle": (
        [READ],
        [*[call(0, "a", "~timeout")] * 4, *[call(0, "b", "x"), call(0, "a", "~timeout")] * 2],
    ),
    "a plan counts on through progress": ([PLAN], [call(0, "a", "x"), PROGRESS, call(0, "a", "x")]),
    "a plan counts on through a refusal over budget": (
        [PLAN, ONCE], [call(1, "b", "x"), call(0, "a", "x"), call(1, "a", "x"), call(0, "a", "x")]
    ),
    "a plan counts on through a time-out": (
        [PLAN, READ], [call(0, "a", "x"), call(1, "a", "~timeout"), call(0, "a", "x")]
    ),
    "a plan's own time-out hides what lay between": (
        [PLAN],
        [call(0, "a", "x"), Refused(0, "a", "denied"), call(0, "a", "~timeout"), call(0, "a", "x")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ONCE_DIFFERENT)
def test_what_once_differed_agrees(case: str) -> None:
    """A sequence on which the guard and the model once differed is the same for both."""
    kinds, script = ONCE_DIFFERENT[case]
    walk([Tool(f"tool{number}", **kind) for number, kind in enumerate(kinds)], script, must_agree)


# -- the law ---------------------------------------------------------------------------------------


class Causes:
    """What may be a reason for a finding, read from what the callers asked and got, and no model."""

    def __init__(self, tools: list[Tool]) -> None:
        self.tools = tools
        self.seen: Counter[Any] = Counter()
        self.known: set[str] = set()
        self.any = False

    def see(self, step: Any, verdict: tuple[Any, ...] | None) -> None:
        """Look at one step; `any` is true from the first that gives a reason."""
        if isinstance(step, Know):
            self.known.add(step.fact)
        elif isinstance(step, Refused):
            name = step.tool if step.tool >= 0 else "nobody"
            self._count(("reason", name, step.reason), 2)
            self._count(("failures", name), 4)
        elif isinstance(step, Call):
            assert verdict is not None
            self._see_call(step, self.tools[step.tool], executed=verdict[4], got=verdict[5])

    def _see_call(self, step: Call, tool: Tool, *, executed: bool, got: Any) -> None:
        how, value = got
        self._count((tool.name, " ".join(step.text.lower().split()), repr(got)), 2)
        if tool.slot:
            self.any |= fact_of(step.text) in self.known
            self.known.add(fact_of(step.text))
        self.any |= tool.max_calls is not None and not executed
        if how == "error":
            self._count((tool.name, "error", value), 2)
            self._count(("failures", step.tool), 4)
        elif value in EMPTY_RESULTS:
            self._count((tool.name, "empty"), 3)

    def _count(self, what: Any, enough: int) -> None:
        self.seen[what] += 1
        self.any |= self.seen[what] >= enough


def obey(tools: list[Tool], script: list[Any]) -> bool:
    """Walk the real side alone: as long as there is no cause, there is no finding."""
    stage, causes = Stage(tools), Causes(tools)
    with stage.run as run:
        for step in script:
            verdict: tuple[Any, ...] | None = None
            if isinstance(step, Call):
                verdict = stage.call(step, step.tool)
            elif isinstance(step, Refused):
                verdict = stage.refused(step, tools)
            elif isinstance(step, Know):
                run.know(**{step.fact: step.value})
            else:
                getattr(run, step.event)()
            causes.see(step, verdict)
            if causes.any:
                return False
            if verdict is not None:
                assert verdict[2] is None, f"{step} was found to be {verdict[2]} for no reason"
                assert not verdict[3]
                assert verdict[0] in ("execute", "refuse")
    return True


@lawful
@given(sequences())
def test_no_finding_without_a_cause(given_: tuple[list[Tool], list[Any]]) -> None:
    """Nothing is found where nothing was equal, empty thrice, failing four times, spent or known."""
    obey(*given_)


@lawful
@given(sequences(), st.booleans())
def test_no_finding_where_every_result_is_new(
    given_: tuple[list[Tool], list[Any]], fail: bool
) -> None:
    """The same calls again and again, each with a result of its own: nothing is ever said."""
    tools, script = given_
    fresh: list[Any] = []
    # The tools that run each time, so that each result is there to be looked at.
    effects = ("live", "unknown", "live", "unknown")
    tools = [Tool(tool.name, effect) for tool, effect in zip(tools, effects, strict=False)]
    for number, step in enumerate(script):
        if isinstance(step, Call):
            fails = fail and number % 4 == 0
            outcome = Outcome(error=f"bad {number}") if fails else found(number)
            fresh.append(attrs.evolve(step, outcome=outcome))
        elif isinstance(step, Tell) and step.event != "turn":
            # Equal calls of one turn would be one call, with one result.
            fresh.append(step)
    failures = Counter(s.tool for s in fresh if isinstance(s, Call) and s.outcome.failed)
    assert obey(tools, fresh) or max(failures.values(), default=0) >= 4
