"""What is still open to the model, in the order in which a weak model should try it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import attrs

from repeatguard_sdk._text import first_line

OptionKind = Literal["answer", "ends", "new", "other"]

MAX_OPTIONS = 8
HONEST = "answer the user with what is known, and say what could not be found out"
_NAME_CHARS = 64
_TEXT_CHARS = 70
_SOURCES = 2


class OptionTool(Protocol):
    """The part of a tool's declaration that its place in the list depends on."""

    @property
    def name(self) -> str: ...
    @property
    def effect(self) -> str: ...
    @property
    def option(self) -> str: ...
    @property
    def parameters(self) -> tuple[str, ...]: ...


@attrs.frozen
class Option:
    """One step the model can still take.

    Attributes:
        tool: the tool to call; `None` to answer without one.
        kind: why it stands where it stands.
        text: how it reads in the list.
    """

    tool: str | None
    kind: OptionKind
    text: str

    def __str__(self) -> str:
        return self.text


@attrs.frozen(kw_only=True)
class OptionsView:
    """What the order of the options depends on, as the run sees it at one moment.

    Attributes:
        repeated_tool: the tool of the repeated call; further tools of a cycle go to `exhausted`.
        repeated_failed: the repeated call failed.
        variants: whether the repeated tool may help with other arguments (not: budget spent,
            denied, or its outcomes are alike whatever the arguments).
        answers: (tool, call number) of the results in context that found something, newest last.
        tools: the tools the model was given, in their order.
        called: names of the tools called in this run.
        exhausted: names replayed or refused in this epoch, over budget or denied.
        failed: names that were tried and failed alike.
        known_slots: names of the facts the run knows.
    """

    repeated_tool: str
    repeated_failed: bool = False
    variants: bool = True
    answers: tuple[tuple[str, int], ...] = ()
    tools: tuple[OptionTool, ...] = ()
    called: frozenset[str] = frozenset()
    exhausted: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    known_slots: tuple[str, ...] = ()


def build_options(view: OptionsView) -> tuple[Option, ...]:
    """Return what is still open, at most `MAX_OPTIONS`: answering, ending, new tools, the others.

    Weak models take the first entry more often than not, so the order decides where the run goes.
    The repeated tool is left out as long as anything else is open, for they copy its name too.

    Args:
        view: the run at this moment.
    """
    options = [*_answer(view), *_tools(view, failed=False)]
    last_resort = _tools(view, failed=True)
    if not options:
        # What failed alike must not be the first thing the model reads.
        options.append(Option(None, "answer", HONEST))
        options += last_resort or _variant(view)
    else:
        options += last_resort
    return tuple(options[:MAX_OPTIONS])


def _answer(view: OptionsView) -> list[Option]:
    # One entry a tool, the newest: an older result of the same tool is rarely the better source.
    newest = dict(view.answers)
    sources = [pair for pair in view.answers if newest[pair[0]] == pair[1]][-_SOURCES:]
    if sources:
        named = " and ".join(f"{_name(tool)}, call {call}" for tool, call in sources)
        return [Option(None, "answer", f"answer the user now, from {named}")]
    if view.known_slots:
        named = ", ".join(_name(slot) for slot in view.known_slots[:4])
        return [Option(None, "answer", f"go on with what is already known: {named}")]
    return []


def _tools(view: OptionsView, *, failed: bool) -> list[Option]:
    """Return the open tools in their three groups, each in the order the model was given."""
    groups: dict[OptionKind, list[Option]] = {"ends": [], "new": [], "other": []}
    seen = {view.repeated_tool, *view.exhausted}
    for tool in view.tools:
        if tool.name in seen or tool.effect == "bookkeeping":
            continue
        if (tool.name in view.failed) is not failed:
            continue
        seen.add(tool.name)
        kind = _kind(tool, view)
        groups[kind].append(Option(tool.name, kind, _line(tool)))
    return [option for group in groups.values() for option in group]


def _kind(tool: OptionTool, view: OptionsView) -> OptionKind:
    if tool.effect in {"final", "ask"}:
        return "ends"
    return "other" if tool.name in view.called else "new"


def _variant(view: OptionsView) -> list[Option]:
    """Return the repeated tool with other arguments: only where nothing else is open."""
    if view.repeated_failed or not view.variants:
        return []
    takes: Sequence[OptionTool] = [
        tool for tool in view.tools if tool.name == view.repeated_tool and tool.parameters
    ]
    name = view.repeated_tool
    return [Option(name, "other", f"{_name(name)} with other arguments") for _ in takes[:1]]


def _name(name: str) -> str:
    return first_line(name, _NAME_CHARS)


def _line(tool: OptionTool) -> str:
    about = first_line(tool.option, _TEXT_CHARS)
    # Without a docstring the text is the name again.
    says_more = _letters(about) not in ("", _letters(tool.name))
    return f"{_name(tool.name)}: {about}" if says_more else _name(tool.name)


def _letters(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalnum())
