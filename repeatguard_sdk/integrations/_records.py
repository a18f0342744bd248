"""Which declaration holds for a tool of a framework: its own, or a cautious stand-in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import attrs

from repeatguard_sdk._registry import Tool
from repeatguard_sdk._run import Run
from repeatguard_sdk._spec import find_record
from repeatguard_sdk._toolset import undeclared
from repeatguard_sdk._types import EFFECTS, Effect, is_mapping

_WRONG_ORDER = (
    "the framework was given the function without its guard; put @guarded_tool directly above def, "
    "below the framework's decorator"
)


class Known(NamedTuple):
    """What is known of a tool.

    Attributes:
        tool: its record, or a stand-in.
        guards_itself: whether a call of it reaches its own guard, which then counts it.
        fix: what to write instead, where it is declared and its guard is not in the way of a call.
    """

    tool: Tool
    guards_itself: bool
    fix: str = ""


def effect_of(annotations: Any) -> Effect | None:
    """Return the effect that the MCP annotations of a tool suggest, `None` if they suggest none.

    They come from a server and say nothing of results, so that only two of them are worth anything: a
    tool that reads from a closed world is a read, and for one that changes nothing when it is called
    again the first receipt is as good. Whoever knows better says so: ``effects={"name": "read"}``.

    Args:
        annotations: the object or mapping of the protocol, with its names in either spelling.
    """
    if annotations is None:
        return None
    if _hint(annotations, "read_only_hint", "readOnlyHint"):
        closed = _hint(annotations, "open_world_hint", "openWorldHint") is False
        return "read" if closed else None
    return "write" if _hint(annotations, "idempotent_hint", "idempotentHint") else None


def _hint(annotations: Any, *names: str) -> Any:
    """Return a hint under the first name that it has: asking a model for the older one may warn."""
    if is_mapping(annotations):
        return next((annotations[name] for name in names if name in annotations), None)
    return next((getattr(annotations, name) for name in names if hasattr(annotations, name)), None)


def check_effects(effects: Mapping[str, Effect]) -> None:
    """Reject what a host gave for tools that it cannot decorate, if it is no effect.

    Raises:
        ValueError: one of them is none.
    """
    for name, effect in effects.items():
        if effect not in EFFECTS:
            msg = f"effects[{name!r}] cannot be {effect!r}; write one of {', '.join(EFFECTS)}"
            raise ValueError(msg)


class Records:
    """The records of one conversation's tools, each looked up once.

    Args:
        run: knows the declared tools.
        effects: name to effect, for tools that nobody can decorate.
    """

    def __init__(self, run: Run, effects: Mapping[str, Effect]) -> None:
        self._run = run
        self._effects = effects
        self._stand_ins: dict[tuple[str, Effect], Tool] = {}
        self._renamed: dict[tuple[str, Tool], Tool] = {}

    def of(
        self,
        name: str,
        function: Callable[..., Any] | None = None,
        *,
        annotations: Any = None,
        description: str = "",
        by_name: bool = False,
    ) -> Known:
        """Return what is known of a tool.

        Args:
            name: the name the model sees.
            function: what the framework calls for it, if that is known.
            annotations: its MCP annotations.
            description: what the model reads about it.
            by_name: whether a function that is no tool itself, such as a lambda, may be taken for one
                that calls the declared tool of that name.
        """
        record = None if function is None else find_record(function)
        if isinstance(record, Tool):
            return Known(record, guards_itself=True)
        if function is not None:
            beside = self._run.guard_on(function)
            if beside is not None:
                return Known(beside, guards_itself=False, fix=_WRONG_ORDER)
            named = self._run.find_tool(name) if by_name else None
            if named is not None and named.function is not None:
                return Known(named, guards_itself=True)
        effect = self._effects.get(name) or effect_of(annotations) or "unknown"
        stand_in = self._stand_ins.get((name, effect))
        if stand_in is None:
            option = " ".join(description.split())[:120] or name
            stand_in = self._stand_ins[name, effect] = undeclared(name, effect, option)
        return Known(stand_in, guards_itself=False)

    def shown(self, known: Known, name: str) -> Tool:
        """Return the record under the name the model sees, for the list of options."""
        tool = known.tool
        if tool.spec.name == name:
            return tool
        renamed = self._renamed.get((name, tool))
        if renamed is None:
            spec = attrs.evolve(tool.spec, name=name)
            renamed = self._renamed[name, tool] = attrs.evolve(tool, spec=spec)
        return renamed
