"""What `guarded_tool` makes of a function and its options, and what it refuses."""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)

import pytest

from repeatguard_sdk._registry import Registry
from repeatguard_sdk._spec import declare
from repeatguard_sdk._tool import guarded_tool, spec_of
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.exceptions import RepeatGuardError, ToolDeclarationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import some_framework  # type: ignore[import-not-found]

Deps = TypeVar("Deps")


class RunContext(Generic[Deps]):
    """Stands for pydantic-ai's: hidden by its name."""


@dataclasses.dataclass
class RunContextWrapper(Generic[Deps]):
    """Stands for the one of openai-agents, which is a dataclass."""

    context: Deps


class ToolContext(RunContextWrapper[Any]):
    """A context by its own name and by its base's."""


class MyContext(RunContext[str]):
    """A user's own subclass."""


class InjectedState:
    """Stands for LangGraph's mark."""

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class Context:
    """Stands for a framework's: nothing a model could fill in."""


class CallContext(TypedDict):
    """A record of the caller's own: a model can fill it in."""

    caller: str


class State(str, enum.Enum):
    """A value of the caller's own."""

    texas = "TX"


def get_order(order_id: str, amount: float = 0.0, note: str = "") -> str:
    """Look up one order, e.g. A1.

    Args:
        order_id: which.
    """
    return order_id


def refusal(fn: Any, **options: Any) -> str:
    """Return the text of the error that a declaration meets."""
    with pytest.raises(ToolDeclarationError) as caught:
        declare(fn, **options)
    return str(caught.value)


# -- what is kept --------------------------------------------------------------------------------


def test_defaults() -> None:
    """A bare declaration is a read with the function's own name and no rules."""
    spec = declare(get_order)
    assert "get_order" == spec.name
    assert "read" == spec.effect
    assert {} == spec.rules
    assert ("order_id", "amount", "note") == spec.parameters
    assert (TimeoutError, ConnectionError) == spec.transient
    assert spec.empty is MISSING
    assert f"{__name__}:get_order" == spec.origin
    assert spec.withheld
    assert spec.receiver is None
    assert frozenset() == spec.hidden


def test_three_ways_to_a_rule_become_one_mapping() -> None:
    """case_fold and money_fields are short for rules of fields."""
    spec = declare(
        get_order, case_fold=["order_id"], money_fields=("amount",), fields={"note": str.lower}
    )
    assert {"order_id": "id", "amount": "money", "note": str.lower} == spec.rules


def test_the_same_rule_twice_is_no_conflict() -> None:
    """Saying one thing in two ways is harmless."""
    spec = declare(get_order, case_fold=["order_id", "order_id"], fields={"order_id": "id"})
    assert {"order_id": "id"} == spec.rules


def test_other_options_are_kept() -> None:
    """What is valid arrives in the declaration as given."""
    spec = declare(
        get_order,
        effect="write",
        repeatable=True,
        transient=[OSError],
        volatile=["meta.time"],
        empty=None,
        max_calls=3,
        name="order",
        mode="observe",
        option="Look at\n  an order",
    )
    assert ("write", True, (OSError,)) == (spec.effect, spec.repeatable, spec.transient)
    assert (("meta.time",), None, 3) == (spec.volatile, spec.empty, spec.max_calls)
    assert ("order", "observe", "Look at an order") == (spec.name, spec.mode, spec.option)
    assert not spec.withheld


def test_a_live_tool_is_never_withheld() -> None:
    """A status may change between two equal calls."""
    assert not declare(get_order, effect="live").withheld


def test_volatile_may_be_a_callable() -> None:
    """A callable takes the parts out of a result that a path cannot name."""
    assert len is declare(get_order, volatile=len).volatile


def test_slot_of_a_question() -> None:
    """The slot names the parameter that says which fact is asked for."""

    def ask(fact: str) -> str:
        return fact

    assert "fact" == declare(ask, effect="ask", slot="fact").slot


def test_a_tool_with_open_names_may_name_any() -> None:
    """What goes into **kwargs cannot be checked against the signature."""

    def search(query: str, **filters: str) -> str:
        return query

    assert {"region": "id"} == declare(search, case_fold=["region"]).rules


# -- the text of an option -----------------------------------------------------------------------


def test_option_is_the_first_sentence_of_the_docstring() -> None:
    """An abbreviation inside does not end the sentence."""
    assert "Look up one order, e.g. A1." == declare(get_order).option


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ("Find it. Then stop.", "Find it."),
        ("Find\n    it quickly\n\n    More.", "Find it quickly"),
        ("Version 1.2 of it! Next", "Version 1.2 of it!"),
        ("  ", "Get order status"),
        (None, "Get order status"),
    ],
)
def test_option_from_other_docstrings(doc: str | None, expected: str) -> None:
    """It is one line; without a docstring it is the name made readable."""

    def get_order_status() -> None: ...

    get_order_status.__doc__ = doc
    assert expected == declare(get_order_status).option


@pytest.mark.parametrize("name", ["getOrderStatus", "get-order-status", "get_order.status"])
def test_option_from_a_name(name: str) -> None:
    """All the usual spellings of a name read alike."""

    def undocumented() -> None: ...

    assert "Get order status" == declare(undocumented, name=name).option


def test_a_long_option_is_clamped() -> None:
    """A list of options is no place for an essay."""
    option = declare(get_order, option="word " * 60).option
    assert 120 >= len(option)
    assert option.endswith("word…")


def test_a_partial_reads_as_its_function() -> None:
    """The docstring of functools.partial itself says nothing about the tool."""
    bound = functools.partial(get_order, amount=1.0)
    spec = declare(bound, name="free_order")
    assert ("free_order", "Look up one order, e.g. A1.") == (spec.name, spec.option)
    assert f"{__name__}:get_order" == spec.origin


# -- self, cls, and context parameters ------------------------------------------------------------


class Shop:
    """Methods of every kind, as functions and as descriptors."""

    def method(self, item: str) -> str:
        return item

    def odd(this, item: str) -> str:
        return item

    def inner_class(cls, item: str) -> str:
        return item

    def inner_static(item: str) -> str:
        return item

    outer_class = classmethod(inner_class)
    outer_static = staticmethod(inner_static)


@pytest.mark.parametrize(
    ("fn", "receiver"),
    [
        (Shop.method, "self"),
        (Shop().method, "self"),
        (Shop.odd, "this"),
        (Shop.inner_class, "cls"),
        (Shop.__dict__["outer_class"], "cls"),
        (Shop.outer_class, "cls"),
        (Shop.inner_static, None),
        (Shop.__dict__["outer_static"], None),
    ],
)
def test_the_receiver_is_no_parameter(fn: Any, receiver: str | None) -> None:
    """The model cannot see self or cls, so they are no part of a call's identity."""
    spec = declare(fn)
    assert ("item",) == spec.parameters
    assert ["item"] == list(spec.signature.parameters if spec.signature else [])
    assert receiver == spec.receiver


def test_a_method_without_a_receiver() -> None:
    """Names that cannot be given by position are no receivers."""

    class Odd:
        def keywords(*, self: str) -> str:  # type: ignore[misc]
            return self

        def nothing() -> None: ...  # type: ignore[misc]

    assert ("self",) == declare(Odd.keywords).parameters
    assert () == declare(Odd.nothing).parameters


def test_cls_of_a_plain_function_is_an_argument() -> None:
    """Outside of a class it is a label like any other, and hiding it would merge calls."""

    def classify(cls: str, text: str) -> str:
        return cls + text

    def attached(self, text: str) -> str:  # type: ignore[no-untyped-def]
        return text

    assert ("cls", "text") == declare(classify).parameters
    assert ("text",) == declare(attached).parameters


def plain(ctx: RunContext[int], q: str) -> None: ...
def bare_class(ctx: RunContext, q: str) -> None: ...  # type: ignore[type-arg]
def by_base(ctx: MyContext, q: str) -> None: ...
def wrapper(ctx: RunContextWrapper[int] | None, q: str) -> None: ...
def optional(ctx: Optional[ToolContext], q: str) -> None: ...  # noqa: UP045
def union(ctx: Union["ToolContext", None], q: str) -> None: ...  # noqa: UP007
def annotated(ctx: Annotated[RunContext[str], "text"], q: str) -> None: ...
def injected(ctx: Annotated[dict[str, str], InjectedState], q: str) -> None: ...
def injected_field(ctx: Annotated[str, InjectedState("user")], q: str) -> None: ...
def unknown(ctx: some_framework.RunContext[str], q: str) -> None: ...
def unknown_ordinary(ctx: some_framework.Context, q: str) -> None: ...
def ordinary(ctx: Context, q: str) -> None: ...


PLAIN_HINTS: dict[str, Any] = {
    "plain": RunContext[int],
    "bare_class": RunContext,
    "by_base": MyContext,
    "wrapper": RunContextWrapper[int] | None,
    "optional": Optional[ToolContext],  # noqa: UP045
    "union": Union[None, "ToolContext"],
    "annotated": Annotated[RunContext[str], "text"],
    "injected": Annotated[dict[str, str], InjectedState],
    "injected_field": Annotated[str, InjectedState("user")],
    "ordinary": Context,
}
CONTEXT_TOOLS = [
    plain,
    bare_class,
    by_base,
    wrapper,
    optional,
    union,
    annotated,
    injected,
    injected_field,
    unknown,
    ordinary,
]


def test_an_ordinary_name_that_cannot_be_looked_up_is_an_argument() -> None:
    """A model may fill a `State` of the host's own: to drop it would make two calls one."""
    assert frozenset() == declare(unknown_ordinary).hidden
    assert ("ctx", "q") == declare(unknown_ordinary).parameters


@pytest.mark.parametrize("fn", CONTEXT_TOOLS, ids=lambda fn: fn.__name__)
def test_a_context_parameter_is_hidden_by_its_text(fn: Any) -> None:
    """Annotations of this module are text, and some of their names exist for type checkers only."""
    spec = declare(fn)
    assert frozenset({"ctx"}) == spec.hidden
    assert ("q",) == spec.parameters
    assert ["ctx", "q"] == list(spec.signature.parameters if spec.signature else [])


@pytest.mark.parametrize("hint", PLAIN_HINTS.values(), ids=PLAIN_HINTS.keys())
def test_a_context_parameter_is_hidden_by_its_type(hint: Any) -> None:
    """Annotations that are types are recognised by the names of the types."""

    def tool(q: str, ctx: Any) -> None: ...

    tool.__annotations__["ctx"] = hint
    assert frozenset({"ctx"}) == declare(tool).hidden


@pytest.mark.parametrize(
    "hint",
    [
        "dict[str, RunContext]",
        "list[Context]",
        "CallContext",
        "State",
        "Literal['Context']",
        "not python !",
        CallContext,
        State,
        Literal["Context"],
        list[Context],
        int,
        None,
    ],
    ids=str,
)
def test_an_argument_of_the_model_is_not_hidden(hint: Any) -> None:
    """A record that is called like a context, or holds one, would make different calls equal."""

    def tool(q: Any) -> None: ...

    tool.__annotations__["q"] = hint
    assert ("q",) == declare(tool).parameters


def test_a_context_of_a_framework_may_be_a_model() -> None:
    """MCP's is a pydantic model: known by the package it comes from."""
    fields: dict[str, Any] = {"__module__": "mcp.server.fastmcp", "model_fields": {}}
    theirs = type("Context", (), fields)
    ours = type("Context", (), {**fields, "__module__": "shop.records"})

    def tool(q: Any) -> None: ...

    tool.__annotations__["q"] = theirs
    assert frozenset({"q"}) == declare(tool).hidden
    tool.__annotations__["q"] = ours
    assert ("q",) == declare(tool).parameters


def test_ignoring_a_context_parameter_is_said_twice_only() -> None:
    """It is ignored anyway; any other rule for it is a mistake."""
    assert {} == declare(plain, fields={"ctx": "ignore"}).rules
    assert "the model does not fill" in refusal(plain, fields={"ctx": "text"})
    assert "leave it out" in refusal(Shop.method, case_fold=["self"])


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            {"case_fold": ["oder_id"]},
            ["case_fold", "'oder_id'", "amount", "Did you mean 'order_id'"],
        ),
        ({"money_fields": ["x"]}, ["money_fields", "'x'", "order_id, amount, note"]),
        ({"fields": {"x": "text"}}, ["fields names 'x'"]),
        ({"case_fold": "order_id"}, ["case_fold=['order_id']"]),
        ({"money_fields": [1]}, ["money_fields", "not 1", '["..."]']),
        ({"case_fold": 5}, ["case_fold", "not 5"]),
        ({"fields": ["note"]}, ["fields maps", '{"note": "text"}']),
        ({"fields": {"note": "txt"}}, ["fields['note']", "'txt'", "or a callable", "'text'?"]),
        ({"fields": {"note": None}}, ["fields['note']", "None"]),
        (
            {"case_fold": ["order_id"], "money_fields": ["order_id"]},
            ["'order_id' has two rules", "'id'", "'money'", "keep one"],
        ),
        ({"case_fold": ["note"], "fields": {"note": "text"}}, ["two rules"]),
        ({"effect": "reads"}, ["effect", "'reads'", "'write'", "Did you mean 'read'?"]),
        ({"effect": None}, ["effect", "None"]),
        ({"mode": "Advice"}, ["mode", "'advise'?"]),
        ({"slot": "order_id"}, ["slot='order_id'", "'read'", 'effect="ask"']),
        ({"effect": "ask", "slot": "ordr_id"}, ["slot names 'ordr_id'", "'order_id'?"]),
        ({"max_calls": 0}, ["max_calls", "at least 1", "not 0"]),
        ({"max_calls": True}, ["max_calls", "not True"]),
        ({"max_calls": "3"}, ["max_calls", "'3'"]),
        ({"transient": TimeoutError}, ["transient", "TimeoutError", "transient=("]),
        ({"transient": ["timeout"]}, ["transient", "'timeout'"]),
        ({"transient": [int]}, ["transient", "int"]),
        ({"transient": "abc"}, ["transient", "'abc'"]),
        ({"volatile": "meta.time"}, ["volatile=['meta.time']"]),
        ({"volatile": 5}, ["volatile", "not 5"]),
        ({"repeatable": "yes"}, ["repeatable", "True or False", "'yes'"]),
        ({"repeatable": True, "effect": "final"}, ["repeatable=True", "effect='final'"]),
        ({"repeatable": True, "effect": "bookkeeping"}, ["effect='bookkeeping'"]),
        ({"repeatable": True, "effect": "ask", "slot": "note"}, ["slot='note'"]),
        ({"option": 5}, ["option", "not 5"]),
        ({"option": " "}, ["option", "blank"]),
        ({"name": ""}, ["name", "blank"]),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_an_option_that_cannot_work(options: dict[str, Any], parts: list[str]) -> None:
    """The text names the function, what was given, and what to write."""
    text = refusal(get_order, **options)
    assert text.startswith(f"guarded_tool on {__name__}:get_order: ")
    assert [] == [part for part in parts if part not in text]


def test_a_declaration_error_is_a_type_error() -> None:
    """A caller may catch what the standard library would have raised."""
    assert issubclass(ToolDeclarationError, TypeError)
    assert issubclass(ToolDeclarationError, RepeatGuardError)


def generates() -> Iterator[int]:
    """Yield."""
    yield 1


async def generates_async() -> AsyncIterator[int]:
    """Yield later."""
    yield 1


class Caller:
    """An object that can be called."""

    def __call__(self, q: str) -> str:
        return q


@pytest.mark.parametrize(
    ("fn", "parts"),
    [
        (generates, ["generates", "generator", "return a list"]),
        (generates_async, ["generates_async", "generator"]),
        (functools.partial(generates), ["generator"]),
        (staticmethod(generates), ["generator"]),
        (Shop, ["the class Shop", "not a function"]),
        (Caller(), ["Caller", "not a function", "directly above"]),
        (["order_id"], ["a list", "by keyword"]),
        ("name", ["a str"]),
        (None, ["a NoneType"]),
        (classmethod(Caller()), ["classmethod"]),
        (functools.partial(get_order), ["functools.partial", "get_order", 'name="..."']),
        (lambda q: q, ["lambda", 'name="..."']),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_function_to_guard(fn: Any, parts: list[str]) -> None:
    """Each of them would fail later, and with a worse text."""
    text = refusal(fn)
    assert [] == [part for part in parts if part not in text]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("agents.tool", "FunctionTool"),
        ("langchain_core.tools.structured", "StructuredTool"),
        ("langchain_core.tools.base", "BaseTool"),
        ("pydantic_ai.tools", "Tool"),
        ("smolagents.tools", "Tool"),
        ("anthropic.lib.tools", "BetaFunctionTool"),
    ],
)
@pytest.mark.parametrize("derived", [False, True])
def test_a_tool_object_of_a_framework(module: str, name: str, derived: bool) -> None:
    """The decorators are in the wrong order: the guard would see no call at all."""
    kind = type(name, (), {"__module__": module, "__call__": lambda self: None})
    if derived:
        kind = type("Search", (kind,), {})
    text = refusal(kind())
    assert "put @guarded_tool directly above def, below the framework's decorator" in text


def test_a_tool_is_guarded_once() -> None:
    """A second guard would count each call twice; layers between do not hide the first."""
    once = guarded_tool(registry=Registry())(get_order)

    @functools.wraps(once)
    def logged(*args: Any, **kwargs: Any) -> Any:
        return once(*args, **kwargs)

    for twice in (once, logged, staticmethod(once)):
        assert "guarded already; remove one" in refusal(twice)


def test_a_partial_of_a_guarded_tool_is_a_tool_of_its_own() -> None:
    """With another name it is what the model knows as another tool."""
    registry = Registry()
    once = guarded_tool(registry=registry)(get_order)
    other = guarded_tool(name="free", registry=registry)(functools.partial(once, amount=0.0))
    assert "A1" == other("A1")
    assert ("get_order", "free") == registry.names()


def test_a_builtin_without_a_signature() -> None:
    """What Python cannot read cannot be compared."""
    assert "no signature" in refusal(iter)


def test_another_registry_must_be_one() -> None:
    """A mistake here would be noticed only when the run finds no tools."""
    with pytest.raises(ToolDeclarationError, match="must be a Registry"):
        guarded_tool(registry={})(get_order)  # type: ignore[arg-type]


def test_bare_called_and_empty_parentheses() -> None:
    """All three spellings declare the same."""
    registry = Registry()
    called = guarded_tool(registry=registry)(get_order)
    assert declare(get_order) == spec_of(called)
    assert spec_of(guarded_tool(get_order)) == spec_of(called)
    assert spec_of(guarded_tool()(get_order)) == spec_of(called)


def test_none_is_no_bare_use() -> None:
    """A name that turned out to be None is a mistake, not empty parentheses."""
    with pytest.raises(ToolDeclarationError, match="NoneType"):
        guarded_tool(None)  # type: ignore[type-var]
