"""A model's tool call by name: its arguments parsed and checked before anything runs."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from repeatguard_sdk._registry import Tool
from repeatguard_sdk._text import first_line, quote


class Ready(NamedTuple):
    """A call that may be made."""

    tool: Tool
    function: Callable[..., Any]
    arguments: dict[str, Any]


class Unfit(NamedTuple):
    """A call that never reaches a tool, and why, as a sentence for the model."""

    tool: Tool | None
    arguments: Mapping[str, Any]
    reason: str


def prepare(
    name: str,
    arguments: Mapping[str, Any] | str | None,
    tools: Mapping[str, tuple[Tool, Callable[..., Any]]],
) -> Ready | Unfit:
    """Parse and check a call.

    Args:
        name: the tool's name as the model wrote it.
        arguments: a mapping, or JSON text of one; blank text and `None` are no arguments.
        tools: the tools of the run by name.
    """
    found = tools.get(name)
    if found is None:
        return Unfit(None, as_mapping(arguments), _unknown(name, tools))
    tool, function = found
    parsed = parse_arguments(arguments)
    if isinstance(parsed, str):
        return Unfit(tool, {"arguments": arguments}, parsed)
    misfit = _misfit(tool, function, parsed)
    if misfit:
        return Unfit(tool, parsed, misfit)
    return _by_position(tool, function, parsed)


def _by_position(tool: Tool, function: Callable[..., Any], arguments: dict[str, Any]) -> Ready:
    """Give by position what a tool takes so: a model names every argument."""
    signature = tool.spec.signature or inspect.signature(function)
    given: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is not parameter.POSITIONAL_ONLY or name in tool.spec.hidden:
            break
        given[name] = arguments.get(name, parameter.default)
    if given:
        function = functools.partial(function, *given.values())
        arguments = {name: value for name, value in arguments.items() if name not in given}
    return Ready(tool, function, arguments)


def _unknown(name: object, tools: Mapping[str, Any]) -> str:
    if not isinstance(name, str) or not name.strip():
        # A blank name gets no catalogue: it is a slip of the format, not of the choice.
        return "The tool call names no tool."
    names = ", ".join(first_line(known, 64) for known in list(tools)[:20])
    return f"There is no tool {quote(name, 64)}. The tools are: {names}."


def as_mapping(arguments: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """Return the arguments a call is counted by, whatever the model wrote in their place."""
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, Mapping) else {"arguments": arguments}


def parse_arguments(arguments: Mapping[str, Any] | str | None) -> dict[str, Any] | str:
    """Return the arguments, or a sentence that says what is wrong with them."""
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        if not arguments.strip():
            return {}
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            return f"The arguments are no valid JSON: {first_line(str(error), 120)}."
    if not isinstance(arguments, Mapping):
        return f"The arguments must be a JSON object, not {quote(arguments, 60)}."
    if not all(isinstance(key, str) for key in arguments):
        return "The arguments must be a JSON object whose names are text."
    return dict(arguments)


def _misfit(tool: Tool, function: Callable[..., Any], arguments: dict[str, Any]) -> str:
    """Return a sentence that says why the arguments do not fit, or an empty one."""
    signature = tool.spec.signature or inspect.signature(function)
    parameters = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if name not in tool.spec.hidden
    }
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {
        name: p for name, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    missing = [name for name, p in named.items() if p.default is p.empty and name not in arguments]
    unknown = [] if open_ended else [name for name in arguments if name not in named]
    problems: list[str] = []
    if missing:
        problems.append(f"missing: {', '.join(missing)}")
    if unknown:
        problems.append(f"unknown: {', '.join(first_line(name, 64) for name in unknown[:8])}")
    if not problems:
        return ""
    expected = ", ".join(named) or "none"
    return (
        f"The arguments do not fit {first_line(tool.spec.name, 64)} "
        f"({'; '.join(problems)}). It takes: {expected}."
    )
