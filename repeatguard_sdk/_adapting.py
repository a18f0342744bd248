"""What an adapter of a framework asks of a run, besides what any host does."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from repeatguard_sdk._awaiting import call_awaited
from repeatguard_sdk._hosted import HostedCall
from repeatguard_sdk._named_calls import NamedCalls
from repeatguard_sdk._observation import Observation
from repeatguard_sdk._registry import Tool

if TYPE_CHECKING:
    from repeatguard_sdk._recalling import PastCall


class AdaptedCalls(NamedCalls):
    """The part of a run that lets a framework make the calls and end the loop."""

    def call(
        self,
        tool: Tool,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Guard one call of a tool; the arguments reach `function` as given."""
        return self._path.call(tool, function, args, kwargs)

    def acall(
        self,
        tool: Tool,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Awaitable[Any]:
        """Guard one call of a coroutine tool; as `call`."""
        return call_awaited(self._path, tool, function, args, kwargs)

    def passed_by(self, tool: Tool) -> None:
        """Take note of a call that was let through: another tool made it, or the run has ended."""
        self._path.passed_by(tool)

    def world_moved(self) -> None:
        """Take note of changes that a run inside of this one saw."""
        self._path.world_moved()

    def govern(self, *, control_flow: Iterable[type[BaseException]] = ()) -> None:
        """Hand the end of the loop to an adapter: from here on no call leaves the block by a signal.

        Every call is answered, as under ``on_stuck="flag"``, and the adapter ends its framework's
        loop when `over` is true. The outcome, and the `StuckError` at the end of the block under
        ``"raise"``, stay.

        Args:
            control_flow: exception types by which the framework leaves a tool without an outcome,
                such as a wait for an approval; a call that ends so counts for nothing.
        """
        self._check_open("govern")
        self._teller.signals = False
        new = [kind for kind in control_flow if kind not in self._path.control_flow]
        self._path.control_flow = (*self._path.control_flow, *new)

    def offer(self, tools: Iterable[Tool]) -> None:
        """Tell which tools the model is given at present; the options are made of them.

        Args:
            tools: records of declared tools, and stand-ins for the others.
        """
        self._toolset.offer(tools)

    def find_tool(self, name: str) -> Tool | None:
        """Return a tool of this run by the name the model sees; `None` if it has none of that name."""
        return self._toolset.find(name)

    def guard_on(self, function: Any) -> Tool | None:
        """Return the tool of this run that guards a function, given the function without its guard."""
        return self._toolset.find_by_function(function)

    def hosted_call(self, call_id: str | None, *, queued: bool = False) -> HostedCall:
        """Return the record of a call that a framework is about to make.

        Args:
            call_id: the provider's id; without one the call gets an id of its own.
            queued: whether observations about it wait in `observations` and not with it.
        """
        return HostedCall(self, call_id or f"repeatguard-{uuid.uuid4().hex}", queued=queued)

    def recall(self, calls: Iterable[PastCall]) -> None:
        """Take up a conversation in progress: count its calls as if this run had seen them.

        Nothing is executed, said or reported again. The results are stored for replays.

        Args:
            calls: what came of each call since the user last spoke, oldest first.
        """
        self._check_open("recall")
        from repeatguard_sdk._recalling import recall  # For adapters only.

        self._teller.recalling = True
        try:
            recall(self, calls)
        finally:
            self._teller.recalling = False

    def bypassed(self, tool: str, fix: str) -> None:
        """Warn, once a tool, that its calls do not go through its guard.

        Args:
            tool: the name the model sees.
            fix: what to write instead.
        """
        self._reporter.warn_bypassed(tool, fix)

    def requeue(self, observations: Iterable[Observation]) -> None:
        """Let observations wait in `observations` after all: they had no place beside their call."""
        self._teller.requeue(observations)
