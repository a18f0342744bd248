"""Real tools under a real run, and the slow model beside them, step for step."""

from __future__ import annotations

import os
from typing import Any

import attrs
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from repeatguard_sdk import Registry, Run, guarded_tool
from slow_model import Line, Outcome, SlowModel, Tool

EXAMPLES = int(os.environ.get("REPEATGUARD_MODEL_EXAMPLES", "1500"))


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
TEXTS = ("a", "A", " a", "a b", "a  B", "b")
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


def steps(tools: int, texts: list[str], outcomes: list[Outcome]) -> st.SearchStrategy[Any]:
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
    texts = draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3, unique=True))
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


@usual
@given(sequences())
def test_the_guard_does_what_the_slow_model_says(given_: tuple[list[Tool], list[Any]]) -> None:
    """Decisions, counts, findings, notes, executions and results agree at every step."""
    tools, script = given_
    model = walk(tools, script, must_agree)
    for line in model.lines:
        if line.finding:
            event(f"{line.decision}, {line.finding}")
