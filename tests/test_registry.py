"""Tools by name: which may take another's place, and which may not."""

from __future__ import annotations

import threading
from typing import Any

import attrs
import pytest

from repeatguard_sdk._key import compile_key
from repeatguard_sdk._registry import Registry, Tool, default_registry
from repeatguard_sdk._spec import ToolSpec
from repeatguard_sdk._tool import guarded_tool, tool_of
from repeatguard_sdk.exceptions import DuplicateToolError, ToolDeclarationError


def tool(name: str = "search", origin: str = "shop.tools:search") -> Tool:
    """Make a record without a function."""
    spec = ToolSpec(name=name, origin=origin)
    return Tool(spec=spec, keys=compile_key(spec), is_async=False)


def test_an_empty_registry() -> None:
    """Nothing is in it, and asking is no error."""
    registry = Registry()
    assert 0 == len(registry)
    assert [] == list(registry)
    assert registry.get("search") is None
    assert "search" not in registry
    assert "<Registry of nothing>" == repr(registry)


def test_what_was_added_is_found() -> None:
    """By name, in the order of adding."""
    registry = Registry()
    search, order = tool(), tool("order", "shop.tools:order")
    registry.add(search)
    registry.add(order)
    assert search is registry.get("search")
    assert ("search", "order") == registry.names()
    assert [search, order] == list(registry)
    assert "order" in registry
    assert 2 == len(registry)
    assert "<Registry of search, order>" == repr(registry)


def test_remove() -> None:
    """Removing what is not there is no error: it is not there afterwards either way."""
    registry = Registry()
    registry.add(tool())
    registry.remove("search")
    registry.remove("search")
    assert 0 == len(registry)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shop:search", "shop:search"),
        ("shop:make.<locals>.search", "shop:search"),
        ("shop:search", "shop:make.<locals>.search"),
        ("shop:make.<locals>.search", "other:make.<locals>.search"),
    ],
)
def test_an_earlier_version_is_replaced(old: str, new: str) -> None:
    """A reloaded module and a function that makes tools bring the same tool anew."""
    registry = Registry()
    registry.add(tool(origin=old))
    newer = tool(origin=new)
    registry.add(newer)
    assert [newer] == list(registry)


def test_two_functions_of_one_name() -> None:
    """The text names both places and both ways out, and the first one stays."""
    registry = Registry()
    first = tool(origin="shop:search")
    registry.add(first)
    with pytest.raises(DuplicateToolError) as caught:
        registry.add(tool(origin="stock:search"))
    text = str(caught.value)
    parts = ["'search'", "shop:search", "stock:search", 'name="..."', "registry=Registry()"]
    assert [] == [part for part in parts if part not in text]
    assert [first] == list(registry)
    assert issubclass(DuplicateToolError, ToolDeclarationError)


def test_adding_while_iterating() -> None:
    """An iteration is over the tools of its beginning."""
    registry = Registry()
    registry.add(tool())
    for each in registry:
        registry.add(tool(each.spec.name + "x", "shop:" + each.spec.name + "x"))
    assert 2 == len(registry)


def test_many_threads() -> None:
    """Of all claims to one name exactly one succeeds."""
    registry = Registry()
    start = threading.Barrier(8)
    refused: list[int] = []

    def claim(number: int) -> None:
        start.wait()
        for index in range(50):
            try:
                registry.add(tool(f"tool_{index}", f"module_{number}:tool"))
            except DuplicateToolError:
                refused.append(index)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 50 == len(registry)
    assert 7 * 50 == len(refused)


def test_the_decorator_registers() -> None:
    """In the registry it is told, else in the default one."""
    registry = Registry()

    @guarded_tool(registry=registry, name="here")
    def here(q: str) -> str:
        return q

    @guarded_tool(name="test_registry_there")
    def there(q: str) -> str:
        return q

    try:
        assert tool_of(here) is registry.get("here")
        assert tool_of(there) is default_registry.get("test_registry_there")
        assert "here" not in default_registry
        record = registry.get("here")
        assert record is not None
        assert here is record.function
        assert not record.is_async
        assert {"q": "a"} == record.keys.arguments("a")
    finally:
        default_registry.remove("test_registry_there")


def test_a_record_is_frozen() -> None:
    """Two runs share it, so nothing in it may change; its function is set once."""
    record: Any = tool()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        record.is_async = True
    record.attach(len)
    with pytest.raises(ValueError, match="has its function already"):
        record.attach(len)
    assert record != tool()
    assert record == record
