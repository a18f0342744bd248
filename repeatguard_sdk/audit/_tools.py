"""The tools of a transcript as the guard would have them: declared, recorded, or guessed."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from repeatguard_sdk._key import compile_key
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._spec import declare
from repeatguard_sdk._types import Effect
from repeatguard_sdk.audit._guess import guess_effect
from repeatguard_sdk.exceptions import ToolDeclarationError

# Beyond so many different sets of arguments a tool is compared by whatever keywords it gets: the
# same verdicts, more slowly.
_MAX_COMPILED = 4_096
# Stands for an argument that was not given, where giving null is something else.
_ABSENT = "\x00absent"
# Of these effects null and nothing ask the same, as they do of a tool that takes **kwargs.
_NULL_IS_ABSENT = frozenset({"read", "live", "ask", "final"})

Declaration = Mapping[str, Any]


class AuditTools:
    """Finds the declaration of each tool that a transcript names.

    Args:
        declared: by name the keyword arguments of `guarded_tool`, or the tool itself as a program
            declares it (its record, as `spec_of` finds it). Any other tool has the effect that the
            transcript tells, else the one that its name suggests.

    Raises:
        ToolDeclarationError: a declaration that cannot work, with the tool's name.
    """

    def __init__(self, declared: Mapping[str, Declaration | Tool] | None = None) -> None:
        self._declared: dict[str, Declaration] = {}
        self._given: dict[str, Tool] = {}
        self._made: dict[tuple[str, str, frozenset[str] | None], Tool] = {}
        self._stand_ins: dict[tuple[str, str], Tool] = {}
        for name, declaration in (declared or {}).items():
            if isinstance(declaration, Tool):
                self._given[name] = declaration
            else:
                self._declared[name] = dict(declaration)
                self._make(name, "", None)

    def effect_of(self, name: str, recorded: Effect | None) -> tuple[Effect, str]:
        """Return the effect of a tool, and where it is from: "declared", "recorded" or "guessed"."""
        given = self._given.get(name)
        if given is not None:
            return given.spec.effect, "declared"
        declaration = self._declared.get(name)
        if declaration is not None:
            return declaration.get("effect", "read"), "declared"
        if recorded is not None:
            return recorded, "recorded"
        return guess_effect(name), "guessed"

    def find(self, name: str, recorded: Effect | None, arguments: frozenset[str]) -> Tool:
        """Return the tool of one run.

        Args:
            recorded: the effect that the transcript tells.
            arguments: the names of all arguments it is given in that run.
        """
        given = self._given.get(name)
        if given is not None:
            return given
        effect = "" if name in self._declared else self.effect_of(name, recorded)[0]
        key: tuple[str, str, frozenset[str] | None] = (name, effect, arguments)
        made = self._made.get(key) or self._made.get((name, effect, None))
        if made is None:
            if len(self._made) >= _MAX_COMPILED or not _spellable(arguments):
                key = (name, effect, None)
            made = self._made[key] = self._make(*key)
        return made

    def is_plain(self, name: str) -> bool:
        """Tell whether the declaration of a tool looks at no argument and no result of its own."""
        if name in self._given:
            return False
        looks: Any = (
            "case_fold",
            "money_fields",
            "fields",
            "volatile",
            "empty",
            "slot",
            "max_calls",
        )
        declaration = self._declared.get(name)
        return not declaration or not any(each in declaration for each in looks)

    def any_binds(self, names: Iterable[str]) -> bool:
        """Tell whether something of a tool outlives what a person says: a budget, a known fact."""
        return bool(self._given or self._declared) and any(map(self._binds, names))

    def _binds(self, name: str) -> bool:
        given = self._given.get(name)
        if given is not None:
            return given.spec.max_calls is not None or given.spec.slot is not None
        declaration = self._declared.get(name)
        return declaration is not None and ("max_calls" in declaration or "slot" in declaration)

    def stand_in(self, name: str, effect: str) -> Tool:
        """Return what stands for a plain tool: of its name and effect, with one argument, "call"."""
        made = self._stand_ins.get((name, effect))
        if made is None:
            made = self._make(name, effect, frozenset({"call"}))
            if len(self._stand_ins) < _MAX_COMPILED:
                self._stand_ins[name, effect] = made
        return made

    def _make(self, name: str, effect: str, arguments: frozenset[str] | None) -> Tool:
        declaration: Any = self._declared.get(name) or {"effect": effect}

        def body(**arguments: Any) -> Any:
            raise NotImplementedError

        if arguments is not None:
            body.__signature__ = _signature(arguments, declaration)  # type: ignore[attr-defined]
        try:
            # One origin for all that stand for this name: they share its counts.
            spec = attrs.evolve(declare(body, name=name, **declaration), origin=f"audit:{name}")
        except (TypeError, ToolDeclarationError) as error:
            msg = f"tools[{name!r}]: {error}"
            raise ToolDeclarationError(msg) from error
        return Tool(spec=spec, keys=compile_key(spec), is_async=False)


def _spellable(arguments: frozenset[str]) -> bool:
    return all(name.isidentifier() and not keyword.iskeyword(name) for name in arguments)


def _signature(arguments: frozenset[str], declaration: Declaration) -> inspect.Signature:
    """Return the parameters a tool seems to have: those it was given, and those it has rules for."""
    named = {*arguments, *_ruled(declaration)}
    effect = declaration.get("effect", "read")
    default = None if effect in _NULL_IS_ABSENT else _ABSENT
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name in sorted(named)
        ]
    )


def _ruled(declaration: Declaration) -> set[str]:
    names = {*declaration.get("case_fold", ()), *declaration.get("money_fields", ())}
    names |= set(declaration.get("fields") or ())
    slot = declaration.get("slot")
    return names if slot is None else names | {slot}
