"""One tool call that a framework makes: what the guard decided for it, and what it has to say."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

from repeatguard_sdk._scope import active, call_ids, leave, standing_for

# The framework's call that is being made here, if an adapter announced it.
hosted_calls: ContextVar[HostedCall | None] = ContextVar("repeatguard_hosted_call", default=None)


class HostedCall:
    """The place where a run leaves word about one call, for the adapter that makes it.

    It is shared with the thread or task the tool runs in, which sees it through its context.

    Attributes:
        run: the run that guards the call.
        call_id: the provider's id of the call.
        tool: the record under the name the model sees, where that is not the declared one.
        reached: whether a guard was asked about it.
        admission: what was decided; `None` where no guard was reached, or its mode is off.
        observations: the text for the model about this call; it waits nowhere else. `None` where
            it is to wait in the run's queue.
        spoken: what the call was answered with, if that is the guard's own sentence and no result.
    """

    __slots__ = ("admission", "call_id", "observations", "reached", "run", "spoken", "tool")

    def __init__(self, run: Any, call_id: str, *, queued: bool) -> None:
        self.run = run
        self.call_id = call_id
        self.tool: Any = None
        self.reached = False
        self.admission: Any = None
        self.observations: list[Any] | None = None if queued else []
        self.spoken: str | None = None

    def reach(self, tool: Any) -> Any:
        """Note that the guard of a tool is asked, and return the record to count it by."""
        self.reached = True
        same = self.tool is not None and self.tool.keys is tool.keys
        return self.tool if same else tool

    @contextlib.contextmanager
    def open(self) -> Generator[None, None, None]:
        """Make the run the active one, and this the call it is asked about."""
        run_token, id_token = active.set(standing_for(self.run)), call_ids.set(self.call_id)
        call_token = hosted_calls.set(self)
        try:
            yield
        finally:
            leave(hosted_calls, call_token)
            leave(call_ids, id_token)
            leave(active, run_token)
