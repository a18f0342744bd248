"""The tools of one run by the names the model sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from repeatguard_sdk._key import compile_key
from repeatguard_sdk._registry import Registry, Tool
from repeatguard_sdk._spec import ToolSpec, find_record
from repeatguard_sdk.exceptions import DuplicateToolError, ToolDeclarationError


class Toolset:
    """What a run was told of its tools; without that, whatever its registry holds.

    Args:
        tools: decorated functions or methods.
        registry: where tools are looked up otherwise.

    Raises:
        ToolDeclarationError: one of them is not decorated.
    """

    def __init__(self, tools: Iterable[Any] | None, registry: Registry) -> None:
        self._registry = registry
        self._given = None if tools is None else _by_name(tools)

    def by_name(self) -> Mapping[str, tuple[Tool, Callable[..., Any]]]:
        """Return each tool and what to call for it."""
        if self._given is not None:
            return self._given
        return {
            tool.spec.name: (tool, tool.function)
            for tool in self._registry
            if tool.function is not None
        }

    def specs(self) -> list[ToolSpec]:
        """Return the declarations in the order the model was given them."""
        if self._given is not None:
            return [tool.spec for tool, _ in self._given.values()]
        return [tool.spec for tool in self._registry]

    def find(self, name: str) -> Tool | None:
        """Return a tool by name."""
        if self._given is not None:
            found = self._given.get(name)
            return found[0] if found is not None else None
        return self._registry.get(name)


def _by_name(tools: Iterable[Any]) -> dict[str, tuple[Tool, Callable[..., Any]]]:
    given: dict[str, tuple[Tool, Callable[..., Any]]] = {}
    for function in tools:
        name, found = _named(function)
        other = given.get(name)
        if other is not None and other[1] is not function:
            msg = (
                f"Run(tools=...) was given two tools named {name!r}, {other[0].spec.origin} and "
                f"{found[0].spec.origin}; the model could call only one: write guarded_tool(name=...)"
            )
            raise DuplicateToolError(msg)
        given[name] = found
    return given


def _named(function: Any) -> tuple[str, tuple[Tool, Callable[..., Any]]]:
    tool = find_record(function)
    if tool is None:
        advice = "which is not decorated; put @guarded_tool directly above its def"
        if isinstance(function, str):
            advice = "a name, which does not tell the function; give the decorated function itself"
        msg = f"Run(tools=...) was given {function!r}, {advice}"
        raise ToolDeclarationError(msg)
    return tool.spec.name, (tool, function)


def undeclared(name: str) -> Tool:
    """Return a stand-in for a tool that nobody declared: it may change anything."""
    spec = ToolSpec(name=name, effect="unknown")
    return Tool(spec=spec, keys=compile_key(spec), is_async=False)


# What a finding is about that is about no tool: a state, a draft, names that nobody has.
NO_TOOL = undeclared("")
