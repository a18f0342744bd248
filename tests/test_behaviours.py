"""The behaviours that 22 other guards were probed on, each through real tools and a real run."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime
import decimal
import json
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repeatguard_sdk import Policy, Registry, Run, guarded_tool
from repeatguard_sdk.events import MemorySink
from strategies import DIFFERENT, values

LADDER = ["execute", "replay", "exit"]


class Tool:
    """A decorated tool with two parameters, and the arguments of each execution."""

    def __init__(self, answer: Callable[..., Any] | None = None, **declaration: Any) -> None:
        self.ran: list[dict[str, Any]] = []
        respond = answer or (lambda **given: f"answer to {sorted(given)}")

        @guarded_tool(registry=Registry(), **declaration)
        def look_up(query: Any = None, page: int = 1) -> Any:
            self.ran.append({"query": query, "page": page})
            return respond(query=query, page=page)

        self.call = look_up


def walk(tool: Any, calls: Sequence[Any], policy: Policy | None = None) -> list[str]:
    """Make calls (keyword arguments, or a function that makes the call) in one run.

    The run does not leave its block, so that every call gets an answer.
    """
    decided = []
    sink = MemorySink()
    with Run([tool.call], on_stuck="flag", policy=policy, events=sink) as run:
        for each in calls:
            tool.call(**each) if isinstance(each, Mapping) else each()
            assert run.last_decision is not None
            decided.append(run.last_decision.decision)
    assert sink.warnings == []
    return decided


def by_query(query: Any, page: int) -> str:
    """Answer with what was asked for, so that other calls have other results."""
    return f"{query!r}, page {page}"


# -- what is the same ----------------------------------------------------------------------------


def test_identical_three_times() -> None:
    """The first call runs, the second gets its result and a note, the third leaves the block."""
    tool = Tool()
    with Run([tool.call]) as run:
        first = tool.call(query="SO-1")
        assert first == tool.call(query="SO-1")
        (observation,) = run.observations()
        tool.call(query="SO-1")
        pytest.fail("the third call must leave the block")
    assert "already answered at call 1" in observation.text
    assert len(tool.ran) == 1
    assert run.outcome is not None
    assert (run.outcome.reason, run.outcome.count) == ("stuck", 3)


@pytest.mark.parametrize("rule", ["space", "text", "id"])
def test_white_space_declared(rule: str) -> None:
    """Under a rule that collapses white space the second spelling is answered from store."""
    tool = Tool(fields={"query": rule})
    calls = [{"query": "late  order"}, {"query": " late\torder "}, {"query": "late order\n"}]
    assert walk(tool, calls) == LADDER
    assert len(tool.ran) == 1


def test_white_space_around_a_short_text() -> None:
    """Outer white space of a one-line text means nothing to a read, and needs no declaration."""
    assert walk(Tool(), [{"query": "SO-1"}, {"query": " SO-1"}, {"query": "SO-1  "}]) == LADDER


def test_white_space_inside_is_a_suspicion() -> None:
    """Undeclared, another spelling runs; its equal result then makes it a repeat of the first."""
    tool = Tool(lambda **given: "three orders")
    with Run([tool.call]) as run:
        tool.call(query="late order")
        tool.call(query="late  ORDER")
        (observation,) = run.observations()
        assert run.last_decision is not None
        assert run.last_decision.count == 2
    assert observation.finding == "repeat"
    assert len(tool.ran) == 2


def test_white_space_that_matters_passes() -> None:
    """A spelling that has another result is a call of its own: the agent corrected itself."""
    tool = Tool(by_query)
    calls = [{"query": "if x:\n  end"}, {"query": "if x:\n    END"}, {"query": "IF x: end"}]
    assert walk(tool, calls) == ["execute"] * 3


def test_case_of_an_id() -> None:
    """An identifier declared with case_fold is the same in any case."""
    tool = Tool(by_query, case_fold=["query"])
    assert walk(tool, [{"query": "so-1"}, {"query": "SO-1"}, {"query": "So-1 "}]) == LADDER
    assert tool.ran == [{"query": "so-1", "page": 1}]


def test_key_order() -> None:
    """The order in which the model wrote the arguments means nothing."""
    tool = Tool()
    calls = [{"query": "a", "page": 2}, {"page": 2, "query": "a"}, {"query": "a", "page": 2}]
    assert walk(tool, calls) == LADDER


def test_key_order_in_json_text() -> None:
    """Nor does it in JSON text, nor the blanks between."""
    tool = Tool()
    texts = ['{"query":"a","page":2}', '{ "page": 2, "query": "a" }']
    with Run([tool.call]) as run:
        for text in texts:
            run.dispatch("look_up", text)
    assert run.last_decision is not None
    assert run.last_decision.decision == "replay"


def test_one_and_one_point_zero() -> None:
    """JSON knows one kind of number: 1 and 1.0 are equal, at the top and inside."""
    tool = Tool()
    calls = [{"query": [1], "page": 1}, {"query": [1.0], "page": 1.0}, {"query": [1]}]
    assert walk(tool, calls) == LADDER


@pytest.mark.parametrize(
    "others", [(20.00, 20), ("20.00", " 20 "), (decimal.Decimal("20.004"), 19.995)]
)
def test_amounts_to_the_cent(others: tuple[Any, Any]) -> None:
    """A declared amount is compared in cents, whatever its type."""
    tool = Tool(by_query, money_fields=["query"])
    assert walk(tool, [{"query": 19.999}, *({"query": each} for each in others)]) == LADDER
    assert tool.ran == [{"query": 19.999, "page": 1}]


def test_amounts_that_differ_by_a_cent_pass() -> None:
    """A cent is a difference."""
    tool = Tool(by_query, money_fields=["query"])
    assert walk(tool, [{"query": 19.99}, {"query": 20}, {"query": "20.01"}]) == ["execute"] * 3


def test_nested_key_order() -> None:
    """Key order means nothing at any depth; the order of a list does."""
    tool = Tool(by_query)
    one = {"filter": {"from": 1, "to": {"a": 2, "b": [1, 2]}}, "sort": "up"}
    two = {"sort": "up", "filter": {"to": {"b": [1, 2], "a": 2}, "from": 1}}
    other = {"sort": "up", "filter": {"to": {"b": [2, 1], "a": 2}, "from": 1}}
    assert walk(tool, [{"query": one}, {"query": two}, {"query": other}]) == [
        "execute",
        "replay",
        "execute",
    ]


def test_positional_and_keyword() -> None:
    """However a framework passes the arguments, it is one call."""
    tool = Tool()
    call = tool.call
    calls = [lambda: call("a", 2), lambda: call("a", page=2), lambda: call(page=2, query="a")]
    assert walk(tool, calls) == LADDER


def test_default_omitted_and_given() -> None:
    """An argument that equals the default may be left out."""
    tool = Tool()
    assert walk(tool, [{"query": "a"}, {"query": "a", "page": 1}, {"query": "a"}]) == LADDER


# -- what goes in circles ------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "unknown"])
def test_alternation_within_four_calls(effect: str) -> None:
    """A-B-A-B is spoken of at its fourth call at the latest, whatever is known of the tool."""
    tool = Tool(by_query, effect=effect)
    with Run([tool.call], on_stuck="flag") as run:
        for query in "abab":
            tool.call(query=query)
        found = run.observations()
    assert found
    assert found[0].call <= 4


@pytest.mark.parametrize("effect", ["read", "unknown"])
def test_three_in_a_circle_within_six_calls(effect: str) -> None:
    """A-B-C twice is spoken of at its sixth call at the latest."""
    tool = Tool(by_query, effect=effect)
    with Run([tool.call], on_stuck="flag") as run:
        for query in "abcabc":
            tool.call(query=query)
        found = run.observations()
    assert found
    assert found[0].call <= 6


# -- what must pass ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declaration", [{"effect": "live"}, {"effect": "unknown"}, {"repeatable": True}]
)
def test_a_poll_whose_result_changes_passes(declaration: dict[str, Any]) -> None:
    """Asking again is right where the answer changes: no note, nothing withheld."""
    tool = Tool(lambda **given: f"{10 * len(tool.ran)} % done", **declaration)
    with Run([tool.call]) as run:
        answers = [tool.call(query="job-7") for _ in range(10)]
    assert answers == [f"{10 * number} % done" for number in range(1, 11)]
    assert run.observations() == []
    assert run.outcome is not None
    assert run.outcome.reason == "completed"


@pytest.mark.parametrize("effect", ["read", "unknown", "live"])
def test_pages_one_to_twelve_pass(effect: str) -> None:
    """The next page is another call."""
    tool = Tool(by_query, effect=effect)
    assert walk(tool, [{"query": "a", "page": n} for n in range(1, 13)]) == ["execute"] * 12


@pytest.mark.parametrize("effect", ["read", "write", "unknown"])
def test_twelve_ids_pass(effect: str) -> None:
    """The same tool for another thing is another call, even if the answers are alike."""
    tool = Tool(lambda **given: {"status": "ok"}, effect=effect, case_fold=["query"])
    with Run([tool.call]) as run:
        for number in range(12):
            tool.call(query=f"SO-{number}")
    assert len(tool.ran) == 12
    assert run.observations() == []


@pytest.mark.parametrize("nothing", [[], "", "No results found.", '{"items": []}', None])
def test_five_queries_that_find_nothing_do_not_stop(nothing: Any) -> None:
    """Other words may find something: it is noted once, and nothing is withheld."""
    tool = Tool(lambda **given: nothing)
    with Run([tool.call]) as run:
        for number in range(5):
            tool.call(query=f"words {number}")
    assert len(tool.ran) == 5
    assert len(run.observations()) <= 1
    assert run.outcome is not None
    assert run.outcome.reason == "completed"


def test_read_write_read_is_neither_stale_nor_blocked() -> None:
    """After a write the same read runs again and gets the new state."""
    orders = {"SO-1": "open"}
    registry = Registry()

    @guarded_tool(registry=registry)
    def get_order(order_id: str) -> str:
        return orders[order_id]

    @guarded_tool(effect="write", registry=registry)
    def set_order(order_id: str, status: str) -> str:
        orders[order_id] = status
        return "ok"

    with Run(registry=registry) as run:
        seen = [get_order("SO-1")]
        for status in ("closed", "open", "closed"):
            set_order("SO-1", status)
            seen.append(get_order("SO-1"))
    assert seen == ["open", "closed", "open", "closed"]
    assert run.observations() == []
    assert run.outcome is not None
    assert run.outcome.reason == "completed"


def test_raise_then_retry_runs() -> None:
    """A call that failed is run again, and its success is the result."""

    def answer(**given: Any) -> str:
        if len(tool.ran) == 1:
            msg = "no such order yet"
            raise ValueError(msg)
        return "found"

    tool = Tool(answer)
    with Run([tool.call]) as run:
        with pytest.raises(ValueError, match="no such order yet"):
            tool.call(query="SO-1")
        assert tool.call(query="SO-1") == "found"
    assert run.observations() == []


# -- where it runs -------------------------------------------------------------------------------


class AsyncTool:
    """A decorated coroutine tool, and the arguments of each execution."""

    def __init__(self, **declaration: Any) -> None:
        self.ran: list[Any] = []

        @guarded_tool(registry=Registry(), **declaration)
        async def look_up(query: Any = None) -> Any:
            self.ran.append(query)
            await asyncio.sleep(0)
            return {"query": query, "rows": [1, 2]}

        self.call = look_up


def test_async() -> None:
    """A coroutine tool climbs the same ladder."""
    tool = AsyncTool()

    async def agent() -> Run:
        async with Run([tool.call]) as run:
            first = await tool.call("a")
            assert first == await tool.call("a")
            assert len(run.observations()) == 1
            await tool.call("a")
            pytest.fail("the third call must leave the block")
        return run

    run = asyncio.run(agent())
    assert tool.ran == ["a"]
    assert run.stuck


def test_two_runs_are_isolated_one_after_the_other() -> None:
    """What one run has seen means nothing to the next."""
    tool = Tool()
    assert walk(tool, [{"query": "a"}] * 2) == ["execute", "replay"]
    assert walk(tool, [{"query": "a"}] * 2) == ["execute", "replay"]


def test_two_runs_are_isolated_in_threads() -> None:
    """Two threads with a run each count each for themselves."""
    tool = Tool()
    gate = threading.Barrier(2)

    def agent(_: int) -> list[str]:
        decided = []
        with Run([tool.call], on_stuck="flag") as run:
            for _ in range(3):
                gate.wait(10)
                tool.call(query="a")
                assert run.last_decision is not None
                decided.append(run.last_decision.decision)
        return decided

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(agent, range(2))) == [LADDER, LADDER]
    assert len(tool.ran) == 2


def test_two_runs_are_isolated_in_tasks() -> None:
    """So do two tasks of one loop."""
    tool = AsyncTool()

    async def agent() -> int:
        async with Run([tool.call], on_stuck="flag") as run:
            await tool.call("a")
            await tool.call("a")
        return len(run.observations())

    async def both() -> list[int]:
        return await asyncio.gather(agent(), agent())

    assert asyncio.run(both()) == [1, 1]
    assert tool.ran == ["a", "a"]


def test_a_run_inside_a_run_is_isolated() -> None:
    """A sub-agent's run neither counts for the outer one nor ends it."""
    tool = Tool()
    with Run([tool.call]) as outer:
        tool.call(query="a")
        with Run([tool.call]) as inner:
            for _ in range(3):
                tool.call(query="a")
        assert inner.stuck
        assert not outer.stuck
        tool.call(query="a")
        assert outer.calls == 2
    assert len(tool.ran) == 2


@pytest.mark.parametrize("effect", ["read", "write", "unknown"])
def test_three_at_once_in_threads_run_once(effect: str) -> None:
    """Equal calls in flight are one execution, and each caller gets a result of its own."""
    entered, leave = threading.Event(), threading.Event()

    def answer(**given: Any) -> dict[str, list[int]]:
        entered.set()
        leave.wait(10)
        return {"rows": [1, 2]}

    tool = Tool(answer, effect=effect)
    with Run([tool.call]) as run, ThreadPoolExecutor(3) as pool:
        first = pool.submit(run.bind(tool.call), query="a")
        entered.wait(10)
        others = [pool.submit(run.bind(tool.call), query="a") for _ in range(2)]
        for _ in range(10_000):
            if run.calls == 3:
                break
            time.sleep(0.001)
        leave.set()
        results = [each.result(10) for each in (first, *others)]
    assert results == [{"rows": [1, 2]}] * 3
    assert len({id(result) for result in results}) == 3
    assert len(tool.ran) == 1
    assert run.observations() == []


def test_three_at_once_in_one_gather_run_once() -> None:
    """So it is for coroutines, with and without turn marks."""
    tool = AsyncTool()

    async def agent(*, marked: bool) -> list[Any]:
        async with Run([tool.call]) as run:
            if marked:
                run.turn()
            results = await asyncio.gather(*(tool.call("a") for _ in range(3)))
        assert run.observations() == []
        return results

    for number, marked in enumerate((False, True), start=1):
        results = asyncio.run(agent(marked=marked))
        assert results == [{"query": "a", "rows": [1, 2]}] * 3
        assert len({id(result) for result in results}) == 3
        assert len(tool.ran) == number


def test_three_failing_at_once_run_once() -> None:
    """The error of the one execution is raised to all who joined it."""
    ran = []

    @guarded_tool(registry=Registry())
    async def look_up(query: str) -> None:
        ran.append(query)
        await asyncio.sleep(0)
        msg = f"no {query}"
        raise LookupError(msg)

    async def agent() -> list[Any]:
        async with Run([look_up]):
            return await asyncio.gather(*(look_up("a") for _ in range(3)), return_exceptions=True)
        raise AssertionError

    errors = asyncio.run(agent())
    assert [(type(error), str(error)) for error in errors] == [(LookupError, "no a")] * 3
    assert len({id(error) for error in errors}) == 3
    assert ran == ["a"]


def test_a_megabyte_of_argument() -> None:
    """A large argument is told apart by its last character, and is not kept."""
    tool = Tool()
    large = "x" * 1_000_000
    calls = [{"query": large}, {"query": large[:-1] + "y"}, {"query": "x" * 1_000_000}]
    assert walk(tool, calls) == ["execute", "execute", "replay"]
    nested = {"query": {"rows": [large, {"deep": large}]}}
    assert walk(tool, [nested, {"query": {"rows": [large, {"deep": large}]}}]) == [
        "execute",
        "replay",
    ]


# -- odd arguments -------------------------------------------------------------------------------


class Order(pydantic.BaseModel):
    """A pydantic value."""

    order_id: str
    tags: list[str] = []


@dataclasses.dataclass
class Point:
    """A dataclass value."""

    x: int
    y: float


class Plain:
    """An object whose equality is not defined: its state may change behind the same address."""


OBJECT, FUNCTION = object(), lambda: None
ODD: dict[str, Callable[[], Any]] = {
    "datetime": lambda: datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc),
    "Decimal": lambda: decimal.Decimal("19.90"),
    "bytes": lambda: b"\x00\xff" * 3,
    "set": lambda: {"a", "b", 3},
    "tuple": lambda: (1, ("a", None)),
    "object": lambda: OBJECT,
    "lambda": lambda: FUNCTION,
    "mixed-type keys": lambda: {1: "a", "b": 2, None: 3, (1, 2): 4},
    "lone surrogate": lambda: "caf\ud800",
    "pydantic": lambda: Order(order_id="SO-1", tags=["a"]),
    "NaN": lambda: float("nan"),
    "dataclass": lambda: Point(1, 2.5),
}


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("odd", ODD)
def test_odd_arguments_neither_crash_nor_are_missed(odd: str, nested: bool) -> None:
    """The same value passed again, built anew where it can be, is seen as a repeat."""
    tool = Tool()
    make = ODD[odd]
    calls = [{"query": [{"in": make()}] if nested else make()} for _ in range(3)]
    assert walk(tool, calls) == LADDER
    assert len(tool.ran) == 1


@pytest.mark.parametrize("odd", ODD)
def test_odd_arguments_are_not_one(odd: str) -> None:
    """Each of them is another call than any other."""
    tool = Tool(lambda **given: len(tool.ran))
    calls = [{"query": make()} for name, make in ODD.items() if name != odd]
    assert walk(tool, [{"query": ODD[odd]()}, *calls]) == ["execute"] * len(ODD)


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_an_object_without_identity_makes_a_call_uncountable(nested: bool) -> None:
    """Such a call runs every time, and a developer is told once a tool, not once a call."""
    tool, sink = Tool(), MemorySink()
    with Run([tool.call], events=sink) as run:
        for _ in range(5):
            tool.call(query=[Plain()] if nested else Plain())
    assert len(tool.ran) == 5
    assert run.observations() == []
    (warning,) = sink.warnings
    assert warning.tool == "look_up"
    assert warning.fault is None
    assert "Plain" in warning.what
    assert "cannot be compared" in warning.what


APART = {
    "1 and True": (1, True),
    "0 and False": (0, False),
    '"1" and 1': ("1", 1),
    "None and its text": (None, "None"),
    "None and null": (None, "null"),
    "Decimal and its text": (decimal.Decimal("1.50"), "1.50"),
    "date and its text": (datetime.date(2026, 1, 2), "2026-01-02"),
    "datetime and its text": (
        datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc),
        "2026-01-02T00:00:00+00:00",
    ),
    "object and its repr": (OBJECT, repr(OBJECT)),
    "bytes and text": (b"a", "a"),
    "list and tuple of text": (["a"], "['a']"),
    "True and its text": (True, "True"),
    "dict and its JSON": ({"a": 1}, '{"a": 1}'),
}


@pytest.mark.parametrize("place", ["flat", "in a list", "in a dict"])
@pytest.mark.parametrize("pair", APART)
def test_types_are_not_conflated(pair: str, place: str) -> None:
    """Values that only look alike are different arguments."""
    tool = Tool(lambda **given: len(tool.ran))
    put: Callable[[Any], Any] = {
        "flat": lambda value: value,
        "in a list": lambda value: [value],
        "in a dict": lambda value: {"key": value},
    }[place]
    one, two = APART[pair]
    calls = [{"query": put(one)}, {"query": put(two)}, {"query": put(one)}, {"query": put(two)}]
    assert walk(tool, calls) == ["execute", "execute", "replay", "replay"]


def test_no_two_of_many_values_are_conflated() -> None:
    """Of all the values a caller may think of, no two make one call."""
    tool = Tool(lambda **given: len(tool.ran))
    assert walk(tool, [{"query": [value]} for value in DIFFERENT]) == ["execute"] * len(DIFFERENT)


# -- what others change --------------------------------------------------------------------------


def test_a_stored_result_changed_by_its_receiver_stays_intact() -> None:
    """Neither the first receiver's changes nor the second's reach the store."""
    tool = Tool(lambda **given: {"rows": [{"id": 1}], "total": 1}, effect="unknown")
    with Run([tool.call], on_stuck="flag"):
        for _ in range(4):
            result = tool.call(query="a")
            assert result == {"rows": [{"id": 1}], "total": 1}
            result["rows"][0]["id"] = 99
            result["rows"].append("mine")
            result.clear()


def test_an_argument_changed_by_the_tool_does_not_hide_the_repeat() -> None:
    """The call is identified before the tool gets the arguments."""

    def answer(query: Any, page: int) -> str:
        query["page_token"] = "used"
        query["ids"].clear()
        return "done"

    tool = Tool(answer)
    assert walk(tool, [{"query": {"ids": [1, 2]}} for _ in range(3)]) == LADDER
    assert len(tool.ran) == 1


def test_an_argument_that_was_changed_is_another_call() -> None:
    """The caller's own change of a value it passes again makes another call."""
    tool = Tool(by_query)
    given = {"ids": [1]}
    with Run([tool.call]) as run:
        tool.call(query=given)
        given["ids"].append(2)
        tool.call(query=given)
        assert run.last_decision is not None
        assert run.last_decision.decision == "execute"
    assert run.observations() == []


# -- its pace ------------------------------------------------------------------------------------


def test_a_hundred_thousand_calls_keep_their_pace() -> None:
    """The last calls of a long run cost about what the early ones did."""

    @guarded_tool(registry=Registry())
    def get_order(order_id: str, limit: int = 10) -> str:
        return order_id

    block = 1_000
    spent = []
    with Run([get_order]) as run:
        for first in range(0, 100_000, block):
            ids = [f"SO-{number}" for number in range(first, first + block)]
            began = time.process_time()
            for order_id in ids:
                get_order(order_id)
            spent.append(time.process_time() - began)
    assert run.calls == 100_000
    # Medians of blocks: a collection of garbage or a busy neighbour is not the guard's pace.
    early, late = statistics.median(spent[1:11]), statistics.median(spent[-10:])
    assert late / early < 2


# -- whatever comes ------------------------------------------------------------------------------


def _raise(*_: Any, **__: Any) -> Any:
    msg = "hostile"
    raise RuntimeError(msg)


def _hostile(*names: str, hashable: bool = True) -> Any:
    methods: dict[str, Any] = dict.fromkeys(names, _raise)
    if hashable and "__hash__" not in names:
        methods["__hash__"] = object.__hash__
    return type("Hostile", (), methods)()


class LyingClass:
    """An object that lies about its class."""

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:  # type: ignore[override]
        return dict


class HostileText(str):
    """Text whose every method raises."""

    __slots__ = ()
    split = strip = lower = upper = __eq__ = __hash__ = __repr__ = __str__ = __len__ = _raise  # type: ignore[assignment]
    encode = __iter__ = __contains__ = __getitem__ = __format__ = _raise  # type: ignore[assignment]


class HostileDict(dict[Any, Any]):
    """A dict that cannot be read."""

    __iter__ = items = keys = values = __len__ = __getitem__ = __contains__ = _raise  # type: ignore[assignment]


class HostileList(list[Any]):
    """A list that cannot be read."""

    __iter__ = __len__ = __getitem__ = _raise  # type: ignore[assignment]


HOSTILE: list[Any] = [
    _hostile("__repr__", "__str__"),
    _hostile("__eq__", "__ne__"),
    _hostile("__hash__", "__eq__"),
    _hostile("__getattr__"),
    _hostile("__getattribute__"),
    _hostile("__reduce__", "__reduce_ex__", "__copy__", "__deepcopy__", "__getstate__"),
    _hostile("__len__", "__bool__", "__iter__", "__contains__"),
    _hostile("__dir__", "__sizeof__", "__format__", "__lt__"),
    _hostile("__class_getitem__", "__instancecheck__"),
    _hostile("__float__", "__int__", "__index__"),
    LyingClass(),
    HostileText("text"),
    HostileDict(a=1),
    HostileList([1]),
    iter([1]),
    (number for number in range(3)),
    threading.Lock(),
    memoryview(b"ab"),
    Plain,
    type("Meta", (type,), {"__repr__": _raise, "__eq__": _raise, "__hash__": type.__hash__})(
        "Made", (), {}
    )(),
    NotImplemented,
    ValueError("as a value"),
    1 << 5000,
    float("-inf"),
]


@dataclasses.dataclass(frozen=True)
class Place:
    """Stands for a hostile value while Hypothesis, which would print it, makes an example."""

    number: int


def fill(value: Any) -> Any:
    """Put the hostile values where an example has their places."""
    if isinstance(value, Place):
        return HOSTILE[value.number]
    if type(value) in (list, tuple):
        return type(value)([fill(each) for each in value])
    return {key: fill(each) for key, each in value.items()} if type(value) is dict else value


places = st.builds(Place, st.integers(min_value=0, max_value=len(HOSTILE) - 1))
anything = st.recursive(
    values | places,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("effect", ["read", "write", "unknown", "live", "ask", "bookkeeping"])
@settings(deadline=None)
@given(value=anything, other=anything)
def test_no_argument_crashes_a_call(effect: Any, value: Any, other: Any) -> None:
    """Whatever the arguments are, the caller gets the tool's own result, and nothing raises."""
    ran = 0
    value, other = fill(value), fill(other)

    @guarded_tool(effect=effect, registry=Registry())
    def look_up(query: Any, *more: Any, **named: Any) -> str:
        nonlocal ran
        ran += 1
        return "its own result"

    sink = MemorySink()
    with Run([look_up], on_stuck="flag", events=sink) as run:
        for _ in range(3):
            assert look_up(value, other, named=value) == "its own result"
            run.messages("openai")
    assert ran >= 1
    assert [warning for warning in sink.warnings if warning.fault is not None] == []


RULES = ["exact", "space", "text", "id", "money", "path", "ignore", str.upper]


@settings(deadline=None)
@given(value=anything, rule=st.sampled_from(RULES), other=anything)
def test_no_argument_crashes_a_rule(value: Any, rule: Any, other: Any) -> None:
    """Nor does it under any rule: what a rule does not fit is compared exactly."""

    @guarded_tool(fields={"query": rule, "extra": rule}, registry=Registry())
    def look_up(query: Any, **named: Any) -> str:
        return "its own result"

    sink = MemorySink()
    with Run([look_up], on_stuck="flag", events=sink):
        for each in map(fill, (value, other, value)):
            assert look_up(each, extra=each) == "its own result"
    assert [warning for warning in sink.warnings if warning.fault is not None] == []


@settings(deadline=None)
@given(value=values | places)
def test_the_tool_gets_the_very_objects(value: Any) -> None:
    """The normalized form exists only inside the guard."""
    got = []

    @guarded_tool(case_fold=["query"], registry=Registry())
    def look_up(query: Any) -> None:
        got.append(query)

    value = fill(value)
    with Run([look_up], events=MemorySink()):
        look_up(value)
    assert got[0] is value


@settings(deadline=None)
@given(value=values)
def test_a_value_passed_again_is_a_repeat(value: Any) -> None:
    """Any value with a defined identity is recognised when an equal one comes."""
    again = copy.deepcopy(value)
    assert walk(Tool(), [{"query": value}, {"query": again}]) == ["execute", "replay"]


@settings(deadline=None)
@given(arguments=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5)))
def test_json_text_and_its_mapping_are_one_call(arguments: dict[str, Any]) -> None:
    """A call may come as JSON text or as the mapping it means."""

    @guarded_tool(registry=Registry())
    def look_up(**named: Any) -> str:
        return "ok"

    with Run([look_up]) as run:
        run.dispatch("look_up", json.dumps(arguments))
        run.dispatch("look_up", arguments)
    assert run.last_decision is not None
    assert run.last_decision.decision == "replay"
