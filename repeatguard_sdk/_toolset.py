"""The tools of one run by the names the model sees."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from repeatguard_sdk._key import compile_key
from repeatguard_sdk._portable import raw_function
from repeatguard_sdk._registry import Registry, Tool
from repeatguard_sdk._spec import ToolSpec, find_record
from repeatguard_sdk._types import Effect
from repeatguard_sdk.exceptions import DuplicateToolError, ToolDeclarationError

# What a model gives to a tool that nobody declared: any arguments, each by name.
_BY_NAME = inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)])


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
        self._offered: dict[str, Tool] | None = None

    def offer(self, tools: Iterable[Tool]) -> None:
        """Take the tools an adapter sees the model is given, declared or not.

        From here on the options are made of them: what the host said of its tools may be more than
        one agent of several has, and knows no tool that comes from a server.
        """
        self._offered = {tool.spec.name: tool for tool in tools}

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
        if self._offered is not None:
            return [tool.spec for tool in self._offered.values()]
        if self._given is not None:
            return [tool.spec for tool, _ in self._given.values()]
        return [tool.spec for tool in self._registry]

    def find(self, name: str) -> Tool | None:
        """Return a tool by name."""
        if self._offered is not None and name in self._offered:
            return self._offered[name]
        if self._given is not None:
            found = self._given.get(name)
            return found[0] if found is not None else None
        return self._registry.get(name)

    def find_by_function(self, function: Any) -> Tool | None:
        """Return the tool whose function this is, without its guard."""
        raw = raw_function(function)
        for tool, guard in self.by_name().values():
            if raw_function(getattr(guard, "__wrapped__", None)) is raw:
                return tool
        return None


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


def undeclared(name: str, effect: Effect = "unknown", option: str = "") -> Tool:
    """Return a stand-in for a tool that nobody declared.

    Args:
        name: the name the model sees.
        effect: it may change anything, unless somebody knows better.
        option: how it reads in a list of options.
    """
    spec = ToolSpec(name=name, effect=effect, option=option, signature=_BY_NAME)
    return Tool(spec=spec, keys=compile_key(spec), is_async=False)


# What a finding is about that is about no tool: a state, a draft, names that nobody has.
NO_TOOL = undeclared("")
