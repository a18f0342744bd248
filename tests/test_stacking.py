"""A guarded tool stays the tool: binding, introspection, copies, and other decorators around it."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import copy
import functools
import inspect
import math
import pickle
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from repeatguard_sdk._registry import Registry
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import active
from repeatguard_sdk._tool import guarded_tool, spec_of, tool_of

TOOLS = Registry()


class FakeRun:
    """Notes each call that reaches it as a run would key it, then lets it through."""

    def __init__(self) -> None:
        self.guard: FakeRun | None = self
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def passed_by(self, tool: Any) -> None:
        """Hear of a call that is not guarded."""

    def call(self, tool: Any, wrapped: Any, args: Any, kwargs: Any) -> Any:
        self.calls.append((tool.spec.name, tool.keys.arguments(*args, **kwargs)))
        return wrapped(*args, **kwargs)

    async def acall(self, tool: Any, wrapped: Any, args: Any, kwargs: Any) -> Any:
        self.calls.append((tool.spec.name, tool.keys.arguments(*args, **kwargs)))
        return await wrapped(*args, **kwargs)

    @contextlib.contextmanager
    def open(self) -> Iterator[FakeRun]:
        token = active.set(self)
        try:
            yield self
        finally:
            active.reset(token)


def tool(name: str) -> Callable[[Any], Any]:
    """Guard under a name of its own."""
    return guarded_tool(name=name, registry=TOOLS)


def outcome(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a tool, and wait for it if it is async."""
    result = fn(*args, **kwargs)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


# -- the tools: every way to be bound, sync and async ---------------------------------------------


def plain(q: str, limit: int = 5) -> str:
    """Search the shelves. Slowly."""
    return f"{q} {limit}"


@tool("function")
def search(q: str, limit: int = 5) -> str:
    """Search the shelves. Slowly."""
    return f"{q} {limit}"


@tool("afunction")
async def asearch(q: str, limit: int = 5) -> str:
    """Search the shelves. Slowly."""
    return f"{q} {limit}"


class Base:
    """What a subclass may call through super()."""

    @tool("base")
    def overridden(self, q: str) -> str:
        return f"base {q}"


class Shop(Base):
    """Tools as methods; the results tell which instance or class they were bound to."""

    def __init__(self, name: str = "shop") -> None:
        self.name = name

    @tool("method")
    def method(self, q: str, limit: int = 5) -> str:
        return f"{self.name} {q} {limit}"

    @tool("amethod")
    async def amethod(self, q: str, limit: int = 5) -> str:
        return f"{self.name} {q} {limit}"

    @tool("class_method")
    @classmethod
    def class_method(cls, q: str, limit: int = 5) -> str:
        return f"{cls.__name__} {q} {limit}"

    @tool("aclass_method")
    @classmethod
    async def aclass_method(cls, q: str, limit: int = 5) -> str:
        return f"{cls.__name__} {q} {limit}"

    @classmethod
    @tool("inner_class")
    def inner_class(cls, q: str, limit: int = 5) -> str:
        return f"{cls.__name__} {q} {limit}"

    @classmethod
    @tool("ainner_class")
    async def ainner_class(cls, q: str, limit: int = 5) -> str:
        return f"{cls.__name__} {q} {limit}"

    @tool("static_method")
    @staticmethod
    def static_method(q: str, limit: int = 5) -> str:
        return f"{q} {limit}"

    @tool("astatic_method")
    @staticmethod
    async def astatic_method(q: str, limit: int = 5) -> str:
        return f"{q} {limit}"

    @staticmethod
    @tool("inner_static")
    def inner_static(q: str, limit: int = 5) -> str:
        return f"{q} {limit}"

    @staticmethod
    @tool("ainner_static")
    async def ainner_static(q: str, limit: int = 5) -> str:
        return f"{q} {limit}"

    @tool("override")
    def overridden(self, q: str) -> str:
        return f"shop {super().overridden(q)}"

    def bare(self, q: str, limit: int = 5) -> str:
        return f"{self.name} {q} {limit}"

    async def abare(self, q: str, limit: int = 5) -> str:
        return f"{self.name} {q} {limit}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shop) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


SHOP = Shop()
# What is called, the tool's name, and what its result begins with.
CASES: dict[str, tuple[Any, str, str]] = {
    "function": (search, "function", ""),
    "async function": (asearch, "afunction", ""),
    "method": (SHOP.method, "method", "shop "),
    "async method": (SHOP.amethod, "amethod", "shop "),
    "class method": (Shop.class_method, "class_method", "Shop "),
    "class method of an instance": (SHOP.class_method, "class_method", "Shop "),
    "async class method": (Shop.aclass_method, "aclass_method", "Shop "),
    "inner class method": (Shop.inner_class, "inner_class", "Shop "),
    "async inner class method": (Shop.ainner_class, "ainner_class", "Shop "),
    "static method": (Shop.static_method, "static_method", ""),
    "static method of an instance": (SHOP.static_method, "static_method", ""),
    "async static method": (Shop.astatic_method, "astatic_method", ""),
    "inner static method": (Shop.inner_static, "inner_static", ""),
    "async inner static method": (Shop.ainner_static, "ainner_static", ""),
    "guarded bound method": (tool("bound")(SHOP.bare), "bound", "shop "),
    "async guarded bound method": (tool("abound")(SHOP.abare), "abound", "shop "),
}
every_case = pytest.mark.parametrize("fn", [c[0] for c in CASES.values()], ids=CASES.keys())
every_result = pytest.mark.parametrize(("fn", "name", "prefix"), CASES.values(), ids=CASES.keys())
functions = pytest.mark.parametrize("fn", [search, asearch], ids=["sync", "async"])


# -- the way of a call ---------------------------------------------------------------------------


@every_result
def test_outside_a_run(fn: Any, name: str, prefix: str) -> None:
    """It is the plain tool."""
    assert f"{prefix}a 5" == outcome(fn, "a")


@every_result
def test_inside_a_run(fn: Any, name: str, prefix: str) -> None:
    """The run sees each call once, without self or cls, and the tool gets its arguments."""
    with FakeRun().open() as run:
        assert f"{prefix}a 5" == outcome(fn, "a")
        assert f"{prefix}b 7" == outcome(fn, "b", limit=7)
    assert [(name, {"q": "a", "limit": 5}), (name, {"q": "b", "limit": 7})] == run.calls


@every_result
def test_under_a_mark_that_does_not_guard(fn: Any, name: str, prefix: str) -> None:
    """Inside the body of another tool, and after the run's end, nothing is counted."""
    run = FakeRun()
    run.guard = None
    with run.open():
        assert f"{prefix}a 5" == outcome(fn, "a")
    assert [] == run.calls


@pytest.mark.parametrize("method", [Shop.method, Shop.amethod], ids=["sync", "async"])
def test_a_method_called_through_its_class(method: Any) -> None:
    """The instance is no argument of the call, whatever it is an instance of."""
    stranger = types.SimpleNamespace(name="stranger")
    with FakeRun().open() as run:
        assert "shop a 5" == outcome(method, SHOP, "a")
        assert "stranger a 5" == outcome(method, stranger, "a")
    assert [{"q": "a", "limit": 5}] * 2 == [arguments for _, arguments in run.calls]


def test_a_guard_taken_out_of_the_class() -> None:
    """A framework that looks into `vars` of a class calls the guard with the instance."""
    with FakeRun().open() as run:
        assert "shop a 5" == vars(Shop)["method"](SHOP, "a")
    assert [("method", {"q": "a", "limit": 5})] == run.calls


def test_super_and_override() -> None:
    """Each of the two guards sees its own call; which of them counts is the run's affair."""
    with FakeRun().open() as run:
        assert "shop base a" == Shop().overridden("a")
    assert ["override", "base"] == [name for name, _ in run.calls]


def test_a_partial_tool() -> None:
    """Its arguments are those that are still open, and the filled ones by name."""
    near = tool("near")(functools.partial(plain, limit=1))
    with FakeRun().open() as run:
        assert "a 1" == near("a")
    assert [("near", {"q": "a", "limit": 1})] == run.calls


def test_an_async_partial_tool() -> None:
    """It is recognised as async through the partial."""

    async def find(q: str, limit: int) -> str:
        return f"{q} {limit}"

    near = tool("anear")(functools.partial(find, limit=1))
    record = tool_of(near)
    assert record is not None
    assert record.is_async
    with FakeRun().open() as run:
        assert "a 1" == outcome(near, "a")
    assert 1 == len(run.calls)


def test_a_cached_function_and_method() -> None:
    """Another decorator below leaves no Python code to show; the guard works the same."""

    @tool("cached")
    @functools.lru_cache
    def cached(q: str) -> str:
        return q

    class Cache:
        @tool("cached_method")
        @functools.lru_cache  # noqa: B019
        def find(self, q: str) -> str:
            return q

    with FakeRun().open() as run:
        assert "a" == cached("a")
        assert "a" == Cache().find("a")
    assert [("cached", {"q": "a"}), ("cached_method", {"q": "a"})] == run.calls
    assert 1 == cached.cache_info().misses
    assert not hasattr(cached, "__code__")
    assert cached.__wrapped__.__dict__ == vars(cached)


def test_a_builtin_function() -> None:
    """It is a tool if Python can read its signature."""
    root = tool("root")(math.sqrt)
    with FakeRun().open() as run:
        assert 3.0 == root(9)
    assert [("root", {"x": 9})] == run.calls
    assert "Return the square root of x." == getattr(spec_of(root), "option", None)


def test_parameters_called_like_ours() -> None:
    """No name is taken: arguments travel as a tuple and a dict."""

    @tool("names")
    def names(tool: int, wrapped: int, instance: int, args: int, kwargs: int, self: int) -> int:
        return tool + wrapped + instance + args + kwargs + self

    given = {"tool": 1, "wrapped": 2, "instance": 3, "args": 4, "kwargs": 5, "self": 6}
    record = tool_of(names)
    assert record is not None
    assert tuple(given.values()) == record.keys.key(**given)
    assert 21 == names(**given)
    with Run() as run:
        assert 21 == names(**given)
    assert run.last_decision is not None
    assert run.last_decision.executed


def test_an_error_passes() -> None:
    """The guard adds nothing to what the tool raises."""

    @tool("fails")
    def fails() -> None:
        msg = "no"
        raise KeyError(msg)

    with pytest.raises(KeyError, match="no"):
        fails()
    with FakeRun().open(), pytest.raises(KeyError, match="no"):
        fails()


def test_an_abstract_tool_stays_abstract() -> None:
    """The mark of abc goes to the function and is read from it."""

    class Abstract(abc.ABC):
        @abc.abstractmethod
        @tool("abstract")
        def search(self, q: str) -> str: ...

    assert inspect.isabstract(Abstract)


def test_a_real_run_ends_at_the_third_equal_call() -> None:
    """The whole way, from the decorator to the outcome, for a function and a method."""
    for fn in (search, SHOP.method):
        results = []
        with Run() as run:
            for _ in range(4):
                results.append(fn("a"))
        assert 2 == len(results)
        assert run.outcome is not None
        assert "stuck" == run.outcome.reason


# -- what it looks like ---------------------------------------------------------------------------


@every_case
def test_introspection(fn: Any) -> None:
    """What frameworks make schemas of is what the tool itself says."""
    tool_itself = fn.__wrapped__
    assert ["q", "limit"] == list(inspect.signature(fn).parameters)
    assert inspect.signature(tool_itself).return_annotation == "str"
    hints = {"q": str, "limit": int, "return": str}
    assert hints == typing.get_type_hints(fn)
    assert tool_itself.__name__ == fn.__name__
    assert tool_itself.__qualname__ == fn.__qualname__
    assert __name__ == fn.__module__
    assert tool_itself.__doc__ == fn.__doc__
    assert tool_itself.__annotations__ == fn.__annotations__


@every_case
def test_detection(fn: Any) -> None:
    """Async is seen as async, a function as a function, a method as a method."""
    is_async = "async def" in inspect.getsource(fn)
    assert is_async == inspect.iscoroutinefunction(fn)
    assert is_async == inspect.iscoroutinefunction(functools.partial(fn, "a"))
    assert inspect.isfunction(fn) != inspect.ismethod(fn)
    assert inspect.isroutine(fn)
    assert not inspect.isgeneratorfunction(fn)
    assert callable(fn)


def test_kinds_of_methods() -> None:
    """Bound ones are methods, unbound and static ones are functions."""
    assert inspect.ismethod(SHOP.method)
    assert inspect.ismethod(Shop.class_method)
    assert inspect.isfunction(Shop.method)
    assert inspect.isfunction(Shop.static_method)
    assert isinstance(vars(Shop)["class_method"], classmethod)
    assert isinstance(vars(Shop)["static_method"], staticmethod)
    assert SHOP is SHOP.method.__self__
    assert Shop is Shop.class_method.__self__
    assert not hasattr(Shop.static_method, "__self__")
    assert not hasattr(search, "__func__")


@functions
def test_globals_are_the_tools_own(fn: Any) -> None:
    """Names in annotations are looked up there, by whoever looks them up."""
    assert globals() is fn.__globals__


def test_attributes_land_on_the_tool() -> None:
    """They are seen through the guard, in its `vars`, and by functools.wraps."""

    @tool("attributes")
    def noted(q: str) -> str:
        return q

    before = set(vars(noted))
    noted.note = 1

    @functools.wraps(noted)
    def layer(q: str) -> Any:
        return noted(q)

    assert {"__wrapped__"} == before
    assert 1 == noted.__wrapped__.note
    assert 1 == vars(noted)["note"]
    assert 1 == layer.note  # type: ignore[attr-defined]
    assert noted is layer.__wrapped__


# -- identity and copies --------------------------------------------------------------------------


@functions
def test_a_guard_is_not_its_tool(fn: Any) -> None:
    """A cache keyed by function must not hand out the unguarded one."""
    unguarded = fn.__wrapped__
    assert fn == fn
    assert fn != unguarded
    assert unguarded != fn
    assert 2 == len({fn, unguarded})
    assert hash(fn) != hash(unguarded)


def test_bound_guards_compare_as_methods_do() -> None:
    """Two bound guards are equal if guard and instance are the same, not if the instances are equal."""
    twin = Shop()
    assert twin == SHOP
    assert SHOP.method == SHOP.method
    assert hash(SHOP.method) == hash(SHOP.method)
    assert SHOP.method != twin.method
    assert SHOP.method != SHOP.amethod
    assert SHOP.method != SHOP.method.__wrapped__
    assert SHOP.method.__wrapped__ != SHOP.method
    assert Shop.class_method == SHOP.class_method
    assert Shop.static_method == SHOP.static_method
    assert Shop.method != SHOP.method
    assert Shop.method == Shop.method
    assert vars(Shop)["method"] != Shop.method


def test_bound_deeply() -> None:
    """Binding what is bound already changes nothing."""
    assert "shop a 5" == SHOP.method.__get__(Shop("other"), Shop)("a")
    assert "other a 5" == Shop.method.__get__(Shop("other"), Shop)("a")


@functions
def test_copies_of_a_function(fn: Any) -> None:
    """A function is copied as itself."""
    assert fn is copy.copy(fn)
    assert fn is copy.deepcopy({"tool": fn})["tool"]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert fn is pickle.loads(pickle.dumps(fn, protocol))


@every_result
def test_copies_are_guarded(fn: Any, name: str, prefix: str) -> None:
    """Whatever kind of tool it is, a copy of it is guarded and does the same."""
    for copied in (copy.copy(fn), copy.deepcopy(fn)):
        with FakeRun().open() as run:
            assert f"{prefix}a 5" == outcome(copied, "a")
        assert [name] == [called for called, _ in run.calls]


@every_result
def test_pickles_are_guarded(fn: Any, name: str, prefix: str) -> None:
    """A tool that has a name to be found by comes back guarded."""
    if "bound" in name:
        with pytest.raises(TypeError, match="guard the def itself"):
            pickle.dumps(fn)
        return
    copied = pickle.loads(pickle.dumps(fn))
    with FakeRun().open() as run:
        assert f"{prefix}a 5" == outcome(copied, "a")
    assert [name] == [called for called, _ in run.calls]


def test_a_deep_copy_of_a_method_takes_its_instance_along() -> None:
    """As Python's own bound methods do, of either making."""
    for bound in (SHOP.method, tool("bound")(SHOP.bare)):
        copied = copy.deepcopy(bound)
        assert SHOP is not copied.__self__
        assert SHOP == copied.__self__
    assert Shop is copy.deepcopy(Shop.class_method).__self__


def test_a_pickled_unbound_method() -> None:
    """It is found through the class."""
    loaded = pickle.loads(pickle.dumps(Shop.method))
    assert loaded == Shop.method


def test_a_partial_tool_cannot_be_pickled() -> None:
    """It has no name to be found by, and says so."""
    near = tool("near")(functools.partial(plain, limit=1))
    with pytest.raises(TypeError, match="guard the def itself"):
        pickle.dumps(near)
    assert near is copy.deepcopy(near)


@functions
def test_cloudpickle_by_reference(fn: Any) -> None:
    """A tool of an importable module is sent as its name."""
    cloudpickle = pytest.importorskip("cloudpickle")
    assert fn is pickle.loads(cloudpickle.dumps(fn))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_cloudpickle_by_value(is_async: bool) -> None:
    """A local tool is sent as code, and the code is the guard's."""
    cloudpickle = pytest.importorskip("cloudpickle")

    @tool("local")
    def local(q: str) -> str:
        return f"local {q}"

    @tool("alocal")
    async def alocal(q: str) -> str:
        return f"local {q}"

    loaded = pickle.loads(cloudpickle.dumps(alocal if is_async else local))
    with FakeRun().open() as run:
        assert "local a" == outcome(loaded, "a")
    assert [{"q": "a"}] == [arguments for _, arguments in run.calls]


# -- rebuilt from its code ------------------------------------------------------------------------


def rebuilt(fn: Any) -> Any:
    """Make a function of a function's parts, as frameworks do to change its annotations."""
    made = types.FunctionType(
        fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__dict__.update(fn.__dict__)
    made.__annotations__ = dict(fn.__annotations__)
    return made


@functions
def test_a_rebuilt_function_is_guarded(fn: Any) -> None:
    """A clone of the code is a clone of the guard, with the same signature."""
    clone = rebuilt(fn)
    with FakeRun().open() as run:
        assert "a 5" == outcome(clone, "a")
        assert "a 3" == outcome(clone, limit=3, q="a")
    assert [{"q": "a", "limit": 5}, {"q": "a", "limit": 3}] == [a for _, a in run.calls]
    assert inspect.signature(fn) == inspect.signature(clone)
    assert inspect.iscoroutinefunction(fn) == inspect.iscoroutinefunction(clone)
    assert tool_of(fn) is tool_of(clone)


@pytest.mark.parametrize(
    "bound",
    [SHOP.method, SHOP.amethod, CASES["guarded bound method"][0], Shop.class_method],
    ids=["method", "async method", "guarded bound method", "class method"],
)
def test_a_rebuilt_method_is_guarded(bound: Any) -> None:
    """Its function takes the instance first, which is no argument of the call."""
    for clone in (rebuilt(bound.__func__), rebuilt(bound)):
        with FakeRun().open() as run:
            assert outcome(clone, bound.__self__, "a").endswith("hop a 5")
        assert [{"q": "a", "limit": 5}] == [arguments for _, arguments in run.calls]
        # A call that does not fit fails as the tool itself would.
        with FakeRun().open() as run, pytest.raises(TypeError, match="missing"):
            outcome(clone)


@pytest.mark.parametrize("static", [Shop.static_method, Shop.inner_static], ids=["outer", "inner"])
def test_a_rebuilt_static_method_is_guarded(static: Any) -> None:
    """It takes no instance."""
    with FakeRun().open() as run:
        assert "a 5" == rebuilt(static)("a")
    assert [{"q": "a", "limit": 5}] == [arguments for _, arguments in run.calls]


def test_rebuilt_with_keyword_only_defaults_and_a_closure() -> None:
    """Defaults are the tool's own affair, and so are the variables it encloses."""
    shelf = "left"

    @tool("enclosing")
    def find(q: Annotated[str, "what"], *, limit: int = 5) -> str:
        return f"{shelf} {q} {limit}"

    with FakeRun().open() as run:
        assert "left a 5" == rebuilt(find)("a")
    assert [{"q": "a", "limit": 5}] == [arguments for _, arguments in run.calls]


def test_the_code_of_a_class_method_object() -> None:
    """It has a function, and that one is guarded too."""
    for name, args in (("class_method", (Shop, "a")), ("static_method", ("a",))):
        with FakeRun().open() as run:
            assert vars(Shop)[name].__func__(*args).endswith("a 5")
        assert [(name, {"q": "a", "limit": 5})] == run.calls
    assert not hasattr(vars(Shop)["class_method"], "__code__")


# -- finding the record ---------------------------------------------------------------------------


@every_result
def test_the_record_is_found(fn: Any, name: str, prefix: str) -> None:
    """On the tool, under layers of functools.wraps, partials and further binding."""

    @functools.wraps(fn)
    def layer(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    @functools.wraps(layer)
    def second(*args: Any, **kwargs: Any) -> Any:
        return layer(*args, **kwargs)

    for obj in (fn, layer, second, functools.partial(second, "a"), staticmethod(layer)):
        spec = spec_of(obj)
        assert spec is not None
        assert name == spec.name
    record = tool_of(fn)
    assert record is not None
    assert inspect.iscoroutinefunction(fn) == record.is_async
    if "bound" not in name:
        assert TOOLS.get(name) is record


def test_the_record_of_what_a_class_holds() -> None:
    """Class and static method objects lead to their tool, in either order of decorators."""
    for name in ("method", "class_method", "inner_class", "static_method", "inner_static"):
        spec = spec_of(vars(Shop)[name])
        assert spec is not None
        assert name == spec.name


class Answers:
    """Has every attribute one asks for."""

    def __getattr__(self, name: str) -> Any:
        return self


class Refuses:
    """Fails whenever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_nothing_is_found_and_nothing_raised() -> None:
    """Any object may be asked, even one that never stops answering."""
    endless: Any = functools.wraps(plain)(lambda: None)
    endless.__wrapped__ = endless
    for obj in (plain, Shop, SHOP, SHOP.bare, None, 3, "a", Answers(), Refuses(), endless, len):
        assert spec_of(obj) is None
        assert tool_of(obj) is None
