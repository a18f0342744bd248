"""Results on their way into the store and out of it, and errors that are raised again."""

from __future__ import annotations

import asyncio
import builtins
import copy
import dataclasses
import json
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pydantic
import pytest

from repeatguard_sdk import Ladder, Policy, Registry, Run, guarded_tool
from repeatguard_sdk._copies import plain_size
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.exceptions import RepeatedFailure


class Tool:
    """A decorated tool that returns or raises what a function makes, and how often it ran."""

    def __init__(self, make: Callable[[], Any], **declaration: Any) -> None:
        self.ran = 0

        @guarded_tool(registry=Registry(), **declaration)
        def fetch(key: str = "") -> Any:
            self.ran += 1
            made = make()
            if issubclass(type(made), BaseException):
                raise made
            return made

        self.call = fetch


def error_of(call: Callable[[], Any]) -> Exception:
    """Return the error a call raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any of them
        call()
    return caught.value


# -- copies --------------------------------------------------------------------------------------


class Order(pydantic.BaseModel):
    """A pydantic result."""

    order_id: str
    lines: list[dict[str, int]] = []


@dataclasses.dataclass
class Parcel:
    """A dataclass result."""

    place: str
    history: list[str] = dataclasses.field(default_factory=list)


@attrs.define
class Ticket:
    """An attrs result, with slots."""

    text: str
    tags: list[str]


class Note:
    """A result of a plain class."""

    def __init__(self) -> None:
        self.lines = ["a"]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Note) and self.lines == other.lines

    __hash__ = None  # type: ignore[assignment]


def _change_rows(result: Any) -> None:
    result["rows"][0]["id"] = 9
    result["rows"].append({})


CHANGED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "dict": (lambda: {"a": 1}, dict.clear),
    "list": (lambda: [1, 2], list.clear),
    "set": (lambda: {1, 2}, set.clear),
    "bytearray": (lambda: bytearray(b"ab"), bytearray.clear),
    "nested": (lambda: {"rows": [{"id": 1}]}, _change_rows),
    "list in a tuple": (lambda: (1, [2]), lambda result: result[1].append(3)),
    "list in a list": (lambda: [[1], [2]], lambda result: result[0].clear()),
    "dataclass": (lambda: Parcel("depot", ["a"]), lambda result: result.history.append("b")),
    "pydantic": (
        lambda: Order(order_id="a", lines=[{"n": 1}]),
        lambda result: result.lines[0].update(n=2),
    ),
    "attrs": (lambda: Ticket("a", ["b"]), lambda result: result.tags.clear()),
    "plain class": (Note, lambda result: result.lines.append("b")),
    "list of objects": (lambda: [Parcel("depot")], lambda result: result[0].history.append("b")),
    "subclass of dict": (lambda: __import__("collections").OrderedDict(a=[1]), dict.clear),
}


@pytest.mark.parametrize("kind", CHANGED)
def test_no_receiver_can_change_the_store(kind: str) -> None:
    """What the first receiver, the second or the tool itself changes later reaches no other."""
    make, change = CHANGED[kind]
    kept: list[Any] = []

    def made() -> Any:
        kept.append(make())
        return kept[0]

    tool = Tool(made)
    with Run([tool.call], on_stuck="flag"):
        first = tool.call()
        assert first is kept[0]  # the first caller gets the tool's own object
        change(first)
        second = tool.call()
        assert second == make()
        change(second)
        third = tool.call()
        assert third == make()
        assert type(third) is type(make())
    assert tool.ran == 1


@pytest.mark.parametrize(
    "value",
    ["text", b"bytes", 1, 1.5, None, True, (1, ("a", None)), frozenset({1}), range(3)],
    ids=repr,
)
def test_an_immutable_result_is_not_copied(value: Any) -> None:
    """What nobody can change is shared."""
    tool = Tool(lambda: value)
    with Run([tool.call]):
        assert tool.call() is value
        assert tool.call() is value
    assert tool.ran == 1


def test_a_result_that_holds_itself() -> None:
    """A self-referential result is stored and delivered; its first receiver cannot empty it."""

    def made() -> list[Any]:
        rows: list[Any] = [1]
        rows.append(rows)
        return rows

    tool = Tool(made)
    with Run([tool.call]):
        tool.call().clear()
        again = tool.call()
    assert tool.ran == 1
    for _ in range(500):
        assert again[0] == 1
        again = again[1]


def test_a_result_that_is_very_deep() -> None:
    """Depth is no reason to fail: the result comes back, twice."""

    def made() -> Any:
        deep: Any = []
        for _ in range(5_000):
            deep = [deep]
        return deep

    tool, sink = Tool(made), MemorySink()
    with Run([tool.call], events=sink):
        assert isinstance(tool.call(), list)
        assert isinstance(tool.call(), list)
    assert sink.warnings == []


class Uncopyable:
    """A value whose copy fails, but which has an equality."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uncopyable) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __deepcopy__(self, memo: Any) -> Any:
        msg = "no copy"
        raise RuntimeError(msg)


def test_a_result_that_cannot_be_copied_is_fetched_again_and_compared() -> None:
    """An equal one is a repeat and is noted; nothing that others could change is served."""
    tool = Tool(lambda: {"handle": Uncopyable(1)})
    with Run([tool.call]) as run:
        assert tool.call()["handle"].value == 1
        assert tool.call()["handle"].value == 1
        (observation,) = run.observations()
        tool.call()
        pytest.fail("the third call must leave the block")
    assert tool.ran == 2
    assert observation.finding == "repeat"
    assert "not run" not in observation.text


def test_another_result_that_cannot_be_copied_is_no_repeat() -> None:
    """A changed one starts the count afresh."""
    tool = Tool(lambda: Uncopyable(tool.ran))
    with Run([tool.call]) as run:
        assert [tool.call().value for _ in range(4)] == [1, 2, 3, 4]
    assert run.observations() == []


class OneCopy:
    """A value of which one copy can be made."""

    def __init__(self, copies: list[OneCopy]) -> None:
        self.copies = copies

    def __deepcopy__(self, memo: Any) -> OneCopy:
        if self.copies:
            raise RuntimeError
        self.copies.append(self)
        return OneCopy(self.copies)


@pytest.mark.parametrize("known", [False, True], ids=["first call of the tool", "known tool"])
def test_a_copy_that_fails_at_the_replay_lets_the_call_through(known: bool) -> None:
    """It runs, is counted once, and a warning says why."""
    tool, sink = Tool(lambda: OneCopy([])), MemorySink()
    with Run([tool.call], events=sink) as run:
        if known:
            tool.call("other")
        before = run.calls, tool.ran
        assert isinstance(tool.call(), OneCopy)
        assert isinstance(tool.call(), OneCopy)
        assert (2, 2) == (run.calls - before[0], tool.ran - before[1])
    assert 1 == len(sink.warnings)
    assert "RuntimeError" in sink.warnings[0].what


def _generator() -> Iterator[int]:
    yield from (1, 2)


@pytest.mark.parametrize(
    "make",
    [threading.Lock, _generator, lambda: memoryview(b"ab"), lambda: open],
    ids=["lock", "generator", "memoryview", "builtin"],
)
def test_a_result_that_has_no_value_comes_through(make: Callable[[], Any]) -> None:
    """A lock, a stream: the tool runs each time and its own object arrives."""
    made: list[Any] = []

    def keep() -> Any:
        made.append(make())
        return made[-1]

    tool, sink = Tool(keep), MemorySink()
    with Run([tool.call], on_stuck="flag", events=sink):
        assert tool.call() is made[-1]
        second = tool.call()
        assert second is made[-1] or second == made[-1]
    assert [warning for warning in sink.warnings if warning.fault is not None] == []


@pytest.mark.parametrize("make", [_generator, lambda: iter([1, 2]), lambda: zip([1, 2])])
def test_an_iterator_is_not_read(make: Callable[[], Any]) -> None:
    """Whoever called the tool gets all of it."""
    tool = Tool(make)
    with Run([tool.call], on_stuck="flag"):
        for _ in range(2):
            assert len(list(tool.call())) == 2


def test_a_coroutine_is_not_awaited_by_the_guard() -> None:
    """A plain function that returns a coroutine hands on a fresh one each time."""

    async def answer() -> str:
        return "found"

    tool = Tool(answer)

    async def agent() -> list[str]:
        with Run([tool.call], on_stuck="flag"):
            return [await tool.call() for _ in range(2)]
        raise AssertionError

    assert asyncio.run(agent()) == ["found", "found"]


# -- byte budgets --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [lambda: "x" * 2_000, lambda: {"rows": ["y" * 100] * 30}, lambda: b"z" * 2_000],
    ids=["text", "rows", "bytes"],
)
def test_a_result_too_big_is_fetched_again_and_compared(make: Callable[[], Any]) -> None:
    """Past the budget of one result nothing is stored: the repeat runs, is equal, and is noted."""
    tool = Tool(make)
    with Run([tool.call], policy=Policy(max_result_bytes=1_000)) as run:
        assert tool.call() == make()
        assert tool.call() == make()
        assert tool.ran == 2
        (observation,) = run.observations()
        assert observation.count == 2
        tool.call()
        pytest.fail("the third call must leave the block")
    assert tool.ran == 2


def test_a_result_too_big_that_changed_is_no_repeat() -> None:
    """It is compared by its digest, to the last character."""
    tool = Tool(lambda: "x" * 5_000 + str(tool.ran))
    with Run([tool.call], policy=Policy(max_result_bytes=1_000)) as run:
        assert len({tool.call() for _ in range(4)}) == 4
    assert run.observations() == []


def test_the_oldest_results_of_a_run_go_first() -> None:
    """Past the budget of the run the newest are kept; a call whose result went runs again."""
    tool = Tool(lambda: "x" * 1_000)
    decided = {}
    with Run([tool.call], policy=Policy(max_stored_bytes=10_000), on_stuck="flag") as run:
        for number in range(20):
            tool.call(str(number))
        for number in range(19, -1, -1):
            tool.call(str(number))
            assert run.last_decision is not None
            decided[number] = run.last_decision.decision
            if decided[number] == "execute":
                break
        assert len(run.observations()) == len(decided)
    kept = [number for number, decision in decided.items() if decision == "replay"]
    assert 4 <= len(kept) <= 10
    assert kept == list(range(19, 19 - len(kept), -1))
    assert tool.ran == 21


def test_a_budget_of_nothing_stores_nothing() -> None:
    """Every repeat of a read runs, and is counted all the same."""
    tool = Tool(lambda: [1])
    with Run([tool.call], policy=Policy(max_result_bytes=0), on_stuck="flag") as run:
        tool.call()
        tool.call()
        tool.call()
    assert tool.ran == 2
    assert run.stuck


def test_a_long_run_keeps_the_newest_within_its_budget() -> None:
    """However many results there were, the first are gone and the last is there."""
    tool = Tool(lambda: ["x" * 1_000])
    with Run([tool.call], policy=Policy(max_stored_bytes=20_000)) as run:
        for number in range(1_000):
            tool.call(str(number))
        tool.call("0")
        assert run.last_decision is not None
        assert run.last_decision.decision == "execute"
        tool.call("999")
        assert run.last_decision.decision == "replay"


def test_a_result_read_again_is_not_kept_longer() -> None:
    """Bytes are counted once, however often a result is delivered."""
    tool = Tool(lambda: ["x" * 1_000], effect="unknown")
    policy = Policy(max_stored_bytes=5_000, unknown=Ladder(2, 3, None))
    with Run([tool.call], policy=policy):
        for _ in range(200):
            assert tool.call() == ["x" * 1_000]
    assert tool.ran == 2


# -- receipts of writes --------------------------------------------------------------------------


RECEIPTS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "too big": (lambda: "x" * 5_000, {"max_result_bytes": 1_000}),
    "cannot be copied": (lambda: Uncopyable(1), {}),
    "a lock": (threading.Lock, {}),
    "a generator": (_generator, {}),
    "evicted": (lambda: "x" * 900, {"max_stored_bytes": 500}),
}


@pytest.mark.parametrize("deliver", ["queue", "result"])
@pytest.mark.parametrize("effect", ["write", "final"])
@pytest.mark.parametrize("kind", RECEIPTS)
def test_a_write_whose_receipt_is_not_kept_is_never_done_twice(
    kind: str, effect: Any, deliver: Any
) -> None:
    """It is answered with a sentence that says it was done."""
    make, limits = RECEIPTS[kind]
    tool = Tool(make, effect=effect)
    with Run([tool.call], policy=Policy(**limits), deliver=deliver) as run:
        tool.call("SO-1")
        said = tool.call("SO-1")
        assert run.last_decision is not None
        assert run.last_decision.decision == "refuse"
        assert isinstance(said, str)
        assert "already" in said
        assert "at call 1" in said
        assert "a second time" in said
        tool.call("SO-1")
        pytest.fail("the third call must leave the block")
    assert tool.ran == 1


def test_a_write_delivered_twice_by_its_id_is_not_done_twice() -> None:
    """A redelivery whose receipt is not kept says so too."""
    tool = Tool(lambda: "x" * 5_000, effect="write")
    with Run([tool.call], policy=Policy(max_result_bytes=1_000)) as run:
        run.dispatch("fetch", {"key": "a"}, "call_1")
        said = run.dispatch("fetch", {"key": "a"}, "call_1")
    assert tool.ran == 1
    assert "a second time" in said


def test_a_write_twice_in_one_turn_is_not_done_twice() -> None:
    """Nor is the twin of the same model response."""
    tool = Tool(threading.Lock, effect="write")
    with Run([tool.call]) as run:
        run.turn()
        tool.call("a")
        assert "not done a second time" in tool.call("a")
    assert tool.ran == 1


def _hostile(*_: Any, **__: Any) -> Any:
    msg = "hostile"
    raise RuntimeError(msg)


class Unclassed:
    """A result that cannot even be asked for its class."""

    __class__ = property(_hostile)  # type: ignore[assignment]


class LazyRows(list[Any]):
    """A list that loads when it is looked at, and can no more."""

    __iter__ = __len__ = __bool__ = __getitem__ = __reduce_ex__ = _hostile  # type: ignore[assignment]


class LazyRecord(dict[Any, Any]):
    """A dict of the same kind."""

    __iter__ = items = keys = values = __len__ = __getitem__ = _hostile  # type: ignore[assignment]


class OddText(str):
    """Text whose methods raise."""

    __slots__ = ()
    strip = split = lower = replace = __len__ = __getitem__ = __format__ = _hostile  # type: ignore[assignment]


class ShyText(str):
    """Text that lets itself be read and not changed."""

    __slots__ = ()
    replace = __format__ = __add__ = _hostile  # type: ignore[assignment]


HOSTILE: dict[str, Callable[[], Any]] = {
    "no class": Unclassed,
    "lazy rows": lambda: LazyRows([1]),
    "lazy record": lambda: LazyRecord(a=1),
    "odd text": lambda: OddText("a"),
    "shy text": lambda: ShyText("a"),
}


@pytest.mark.parametrize("deliver", ["queue", "result"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_result_comes_through(kind: str, deliver: Any) -> None:
    """Whatever the result does when it is looked at, the caller gets it, again and again."""
    tool = Tool(HOSTILE[kind])
    with Run([tool.call], deliver=deliver, on_stuck="flag", events=MemorySink()):
        for _ in range(2):
            assert issubclass(type(tool.call()), (type(HOSTILE[kind]()), str))


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_write_with_a_hostile_receipt_is_not_done_twice(kind: str) -> None:
    """Whatever its receipt is made of, the write was done."""
    tool = Tool(HOSTILE[kind], effect="write")
    with Run([tool.call], events=MemorySink()):
        tool.call("a")
        tool.call("a")
    assert tool.ran == 1


# -- errors --------------------------------------------------------------------------------------


class KeywordOnly(Exception):
    """Cannot be called with its own `args`."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class TwoArguments(Exception):
    """Takes two arguments and keeps one text."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what


class Slotted(Exception):
    """Keeps its state in slots."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__(f"slot {code}")
        self.code = code


@attrs.define
class AttrsError(Exception):
    """An exception made by attrs, with slots."""

    code: int
    text: str


class Unprintable(Exception):
    """Has no text."""

    def __str__(self) -> str:
        msg = "no text"
        raise RuntimeError(msg)


class NewTakesMore(Exception):
    """Its `__new__` wants what `args` does not hold."""

    def __new__(cls, one: int, two: int) -> NewTakesMore:
        return super().__new__(cls, one, two)

    def __init__(self, one: int, two: int) -> None:
        super().__init__("only this")


def _from(make: Callable[[], Any]) -> Callable[[], Exception]:
    """Return a function that gives the error of another one."""

    def made() -> Exception:
        try:
            make()
        except Exception as error:
            return error
        raise AssertionError

    return made


def _no_module() -> None:
    import no_such_module_anywhere  # type: ignore[import-not-found]  # noqa: F401


REBUILT: dict[str, tuple[Callable[[], Exception], tuple[str, ...]]] = {
    "ValueError": (lambda: ValueError("bad"), ()),
    "KeyError": (lambda: KeyError("SO-1"), ()),
    "no arguments": (RuntimeError, ()),
    "OSError": (lambda: OSError(5, "io"), ("errno", "strerror")),
    "FileNotFoundError": (_from(lambda: open("/no/such/file")), ("errno", "filename")),  # noqa: SIM115
    "PermissionError of two files": (
        lambda: PermissionError(13, "denied", "a", None, "b"),
        ("errno", "filename", "filename2"),
    ),
    "UnicodeDecodeError": (_from(lambda: b"\xff".decode()), ("reason", "start")),
    "SyntaxError": (_from(lambda: compile("a b", "f", "exec")), ("lineno", "filename")),
    "ModuleNotFoundError": (_from(_no_module), ("name",)),
    "JSONDecodeError": (_from(lambda: json.loads("{")), ("pos", "msg")),
    "CalledProcessError": (
        lambda: subprocess.CalledProcessError(2, ["ls"], b"out"),
        ("returncode", "output"),
    ),
    "keyword-only constructor": (lambda: KeywordOnly(code=3), ("code",)),
    "two-argument constructor": (lambda: TwoArguments("a", "b"), ("what",)),
    "slots": (lambda: Slotted(3), ("code",)),
    "attrs": (lambda: AttrsError(3, "text"), ("code", "text")),
}


@pytest.mark.parametrize("kind", REBUILT)
def test_a_refused_call_raises_the_stored_error_again(kind: str) -> None:
    """The third failing call does not run; it raises the same type with the same text and state."""
    make, attributes = REBUILT[kind]
    tool = Tool(make)
    with Run([tool.call]) as run:
        first, second = error_of(tool.call), error_of(tool.call)
        third = error_of(tool.call)
        assert run.last_decision is not None
        assert run.last_decision.decision == "refuse"
    assert tool.ran == 2
    assert type(first) is type(second) is type(third)
    assert str(third) == str(first)
    for name in attributes:
        assert getattr(third, name) == getattr(first, name)
    assert third is not first
    assert third is not second


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (Unprintable, "Unprintable"),
        (lambda: NewTakesMore(1, 2), "NewTakesMore: only this"),
        (_from(lambda: Order.model_validate({"order_id": []})), "ValidationError: 1 validation"),
    ],
    ids=["no text", "odd __new__", "pydantic"],
)
def test_an_error_that_cannot_be_rebuilt_keeps_its_name_and_text(
    make: Callable[[], Exception], text: str
) -> None:
    """A stand-in is raised that says which error it stands for."""
    tool = Tool(make)
    with Run([tool.call]):
        first = error_of(tool.call)
        error_of(tool.call)
        third = error_of(tool.call)
    assert tool.ran == 2
    assert not isinstance(first, RepeatedFailure)
    assert type(third) in (type(first), RepeatedFailure)
    if isinstance(third, RepeatedFailure):
        assert text in str(third)


def test_twenty_refusals_do_not_grow_a_traceback() -> None:
    """Each refusal raises an error of its own, with a traceback of its own."""
    tool = Tool(lambda: ValueError("bad"))
    policy = Policy(failing=Ladder(2, 3, None))
    depths, errors = [], []
    with Run([tool.call], policy=policy):
        for _ in range(22):
            error = error_of(tool.call)
            depths.append(len(traceback.extract_tb(error.__traceback__)))
            errors.append(error)
    assert tool.ran == 2
    assert len({id(error) for error in errors}) == 22
    assert len(set(depths[2:])) == 1
    assert all(error.__context__ is None for error in errors[2:])


def test_a_refused_error_says_nothing_of_another_call() -> None:
    """Notes a receiver adds to one error do not show in the next."""
    tool = Tool(lambda: ValueError("bad"))
    with Run([tool.call], policy=Policy(failing=Ladder(2, 3, None))):
        for _ in range(3):
            error = error_of(tool.call)
        error.args = ("changed",)
        error.__dict__["extra"] = True
        again = error_of(tool.call)
    assert str(again) == "bad"
    assert not hasattr(again, "extra")


def test_a_group_is_raised_again_as_a_group() -> None:
    """The errors inside come along."""
    group: Any = getattr(builtins, "ExceptionGroup", None)
    if group is None:
        pytest.skip("Python 3.10 has no exception groups")
    tool = Tool(lambda: group("two", [ValueError("a"), KeyError("b")]))
    with Run([tool.call]):
        for _ in range(3):
            error: Any = error_of(tool.call)
    assert tool.ran == 2
    assert [type(each) for each in error.exceptions] == [ValueError, KeyError]


def test_an_error_with_another_text_is_another_outcome() -> None:
    """Only the same failure is refused."""
    tool = Tool(lambda: ValueError(f"bad {tool.ran}"))
    with Run([tool.call]):
        assert [str(error_of(tool.call)) for _ in range(5)] == [f"bad {n}" for n in range(1, 6)]


def test_a_stored_error_is_joined_as_its_own_object() -> None:
    """Two callers in one turn get two errors, equal in type and text."""
    tool = Tool(lambda: KeyError("SO-1"))
    with Run([tool.call]) as run:
        run.turn()
        first, second = error_of(tool.call), error_of(tool.call)
    assert tool.ran == 1
    assert first is not second
    assert (type(second), str(second)) == (KeyError, str(first))


def test_copies_are_made_for_the_first_receiver_too() -> None:
    """A tool that changes the object it once returned does not change what was stored."""
    shared = {"state": "open"}
    tool = Tool(lambda: shared)
    with Run([tool.call]):
        before = copy.deepcopy(tool.call())
        shared["state"] = "closed"
        assert tool.call() == before


# -- how many calls are remembered ---------------------------------------------------------------


def test_the_oldest_calls_are_forgotten_past_a_limit() -> None:
    """A run of any length takes bounded memory; what it forgot runs again as a first call."""
    ran: list[str] = []

    @guarded_tool(registry=Registry())
    def look(key: str) -> str:
        ran.append(key)
        return f"seen {key}"

    with Run([look], policy=Policy(max_entries=1_000)) as run:
        for number in range(5_000):
            look(f"k{number}")
        state = run._engine.ledger.tools["look"]
        assert len(state.once) + len(state.entries) <= 2_024
        look("k4999")
        assert len(ran) == 5_000
        look("k1")
    assert ran[-1] == "k1"


@pytest.mark.parametrize(
    "result",
    ["in transit", "x" * 1_000, 7, {"status": "new"}, ["a", {"b": 1}], ("a", 1), Parcel("P-1")],
    ids=["text", "long text", "number", "dict", "list", "tuple", "instance"],
)
def test_a_first_result_takes_the_short_way(result: Any) -> None:
    """Were it not for this, a fault there would not show: the full way does the same, only slower."""
    tool = Tool(lambda: result)
    with Run([tool.call]) as run:
        tool.call("a")
        assert isinstance(run._path.last, tuple)
        state = run._engine.ledger.tools["fetch"]
        assert [("a",)] == list(state.once)


def test_what_is_forgotten_is_no_longer_charged() -> None:
    """The bytes of forgotten results are free for new ones."""

    @guarded_tool(registry=Registry())
    def look(key: str) -> str:
        return f"seen {key}"

    with Run([look], policy=Policy(max_entries=1_000)) as run:
        for number in range(20_000):
            look(f"k{number}")
        ledger = run._engine.ledger
        state = ledger.tools["look"]
        kept = [once.kept for once in state.once.values()]
        kept += [entry.stored.value for entry in state.entries.values() if entry.stored]
        assert ledger.stored_bytes == sum(map(plain_size, kept))


@pytest.mark.parametrize("size", [1, 11, 100, 255])
def test_a_short_text_beyond_the_limit_is_not_kept(size: int) -> None:
    """However short a text is: where the policy has no room for it, its repeat runs."""
    ran: list[int] = []

    @guarded_tool(registry=Registry())
    def look(key: str) -> str:
        ran.append(1)
        return "x" * size

    with Run([look], policy=Policy(max_result_bytes=size + 20)):
        look("a")
        look("a")
    assert 2 == len(ran)
    with Run([look], policy=Policy(max_result_bytes=4 * size + 100)):
        look("a")
        look("a")
    assert 3 == len(ran)
