"""What a driver is: the neutral way in which the contract's cases are played in every framework."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import attrs

from repeatguard_sdk._text import DELIMITER
from repeatguard_sdk.integrations._history import is_note

Mode = Literal["sync", "async", "stream"]
MODES: tuple[Mode, ...] = ("sync", "async", "stream")

# What a driver may be unable to do, each with the reason why, in `cannot`.
CAPABILITIES = {
    "sync": "runs without an event loop",
    "async": "runs in an event loop",
    "stream": "streams the model's response",
    "loop": "asks the model itself, so that there is a boundary where it can be stopped",
    "history": "has a history that the next turn of the user goes on with",
    "resume": "takes up a conversation from its history, in a run that has not seen it",
    "messages": "can send observations as messages behind all results",
    "unknown_tool": "lets a call of an unknown tool pass to the next turn",
    "bad_arguments": "lets a call with arguments that do not fit pass to the next turn",
    "denied": "lets a person or a rule deny a call",
    "retry": "may deliver one call twice, under one id",
    "control_flow": "has exceptions that leave a tool without an outcome",
    "undeclared": "guards tools that nobody decorated",
    "annotations": "knows the MCP annotations of a tool",
    "context": "fills a parameter of a tool itself",
    "method": "takes bound methods as tools",
    "names": "shows a tool under another name than its function's",
    "typed": "checks or serializes results by their type",
    "wrong_order": "takes a function that has its decorators in the wrong order",
    "cache": "takes a function with a cache in front of its guard",
    "users_run": "is used inside a run of the host",
}


@attrs.frozen
class Ask:
    """One tool call of a scripted response; `arguments` may be text that is no JSON."""

    tool: str
    arguments: Mapping[str, Any] | str
    call_id: str


# One response of the model: tool calls, or the final text.
Step = Sequence[Ask] | str
# What a history holds: kind ("user", "assistant", "call", "result", "note", "system") and call id.
Layout = list[tuple[str, str]]


@attrs.define(kw_only=True)
class Record:
    """What came of one turn of the user.

    Attributes:
        results: call id to the text the model gets (or would get) for it.
        requests: how often the model was asked.
        stopped: whether the adapter ended the loop, by the framework's native stop.
        text: the model's final text.
        layout: the history at its end, neutrally.
        sent: the newest request to the model, likewise.
        history: the history as the framework keeps it, for the next turn.
        typed: call id to the result as the framework holds it, where it holds more than text.
        error: what was raised to the caller, the native stop aside.
    """

    results: dict[str, str] = attrs.field(factory=dict[str, str])
    requests: int = 0
    stopped: bool = False
    text: str | None = None
    layout: Layout = attrs.field(factory=list[tuple[str, str]])
    sent: Layout = attrs.field(factory=list[tuple[str, str]])
    history: Any = None
    typed: dict[str, Any] = attrs.field(factory=dict[str, Any])
    error: BaseException | None = None

    @property
    def noted(self) -> list[str]:
        """The ids of the calls with an observation in their result."""
        return [call_id for call_id, text in self.results.items() if DELIMITER in text]

    def plain(self, call_id: str) -> str:
        """Return a result without the observation behind it."""
        return self.results[call_id].partition(f"\n\n{DELIMITER}")[0]


class Driver(Protocol):
    """Plays scripted conversations in one framework, through its own model double or real client.

    Attributes:
        name: what the table calls it.
        adapter: the module under `repeatguard_sdk.integrations`.
        distribution: whose version is printed.
        cannot: capability to the reason why this framework has no such thing.
    """

    name: ClassVar[str]
    adapter: ClassVar[str]
    distribution: ClassVar[str]
    cannot: ClassVar[Mapping[str, str]]

    def tool(self, function: Callable[..., Any], *, name: str | None = None) -> Any:
        """Return the framework's tool around a function, decorated by the guard or not."""
        ...

    def run(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        mode: Mode = "sync",
        user: str | None = "hello",
        history: Any = None,
        guard: Mapping[str, Any] | None = None,
    ) -> Record:
        """Play one turn of the user: the script's responses one by one, then the text "done".

        Args:
            tools: what `tool` returned.
            user: what the user says; `None` goes on with the history as it is.
            history: of the record before.
            guard: the settings of the adapter.
        """
        ...

    # The rest only where `cannot` does not name it.

    def context_tool(self, guard: Callable[..., Any], body: Callable[[str], str]) -> Any:
        """Return a tool "with_context" of one text `word` whose function gets the context too.

        Args:
            guard: the guard's decorator.
            body: to be called with the word, after a check that the context is there.
        """
        ...

    def typed_tool(self, guard: Callable[..., Any], body: Callable[[str], dict[str, int]]) -> Any:
        """Return a tool "typed" of one text `word` whose result is checked or serialized by type."""
        ...

    def wrong_order(self, guard: Callable[..., Any], function: Callable[..., Any]) -> Any:
        """Return a tool whose function has the guard above the framework's decorator.

        Raises:
            ToolDeclarationError: the guard sees that at decoration.
        """
        ...

    def annotated_tool(self, function: Callable[..., Any], annotations: Mapping[str, Any]) -> Any:
        """Return an undeclared tool with MCP annotations, in the protocol's spelling."""
        ...

    def denying(self, tool: Any) -> Any:
        """Return the tool so that each call of it is denied by a person or a rule."""
        ...

    def pausing(self) -> type[Exception]:
        """Return an exception type that the adapter takes for control flow."""
        ...

    def retried(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        times: int,
        guard: Mapping[str, Any] | None = None,
    ) -> Record:
        """Play a script so that each call is delivered several times under one id."""
        ...


def faults(layout: Layout) -> list[str]:
    """Return what a provider would refuse: calls without result, and what stands between them."""
    found: list[str] = []
    waiting: list[str] = []
    for kind, call_id in layout:
        if kind == "call":
            waiting.append(call_id)
        elif kind == "result":
            if call_id not in waiting:
                found.append(f"a result for {call_id}, which nobody waits for")
            else:
                waiting.remove(call_id)
        elif waiting:
            found.append(f"{kind} stands between calls and their results: {waiting}")
            waiting = []
    if waiting:
        found.append(f"no result for {waiting}")
    return found


def items_layout(items: Any) -> Layout:
    """Return the layout of items of the Responses API."""
    found: Layout = []
    for item in items:
        kind = item.get("type", "message")
        if kind.endswith("_output"):
            found.append(("result", item["call_id"]))
        elif kind.endswith("_call"):
            found.append(("call", item["call_id"]))
        else:
            content = item["content"]
            text = content if isinstance(content, str) else content[0].get("text", "")
            found.append(("note" if is_note(text) else item["role"], ""))
    return found


def only() -> str | None:
    """Return the one driver module that is asked for and must be there, in a session of its own."""
    return os.environ.get("REPEATGUARD_FRAMEWORK") or None


def modules() -> Iterator[tuple[str, Any]]:
    """Yield each driver module's name and the module, or why it cannot be used.

    Raises:
        ModuleNotFoundError: the framework that is asked for is not installed.
    """
    for path in sorted((Path(__file__).parent / "drivers").glob("[a-z]*.py")):
        if only() not in (None, path.stem):
            continue
        try:
            yield path.stem, importlib.import_module(f"integrations.drivers.{path.stem}")
        except ModuleNotFoundError as missing:
            if only() is not None or (missing.name or "").startswith(
                ("integrations", "repeatguard")
            ):
                raise
            yield path.stem, f"{missing.name} is not installed"


def version_of(driver: Driver) -> str:
    """Return the version of the framework that is installed."""
    return version(driver.distribution)
