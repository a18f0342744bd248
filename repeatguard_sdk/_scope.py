"""Which run guards the present context, and the signal that leaves its block."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextvars import ContextVar, Token
from typing import Any

# A run whose block is open, or the mark of a guarded tool's body: only the former has a `guard`.
active: ContextVar[Any] = ContextVar("repeatguard_run", default=None)

# The id of the tool call being dispatched, where a host or an adapter knows it.
call_ids: ContextVar[str | None] = ContextVar("repeatguard_call_id", default=None)


class Inside:
    """The mark of a guarded tool's body; it leads back to its run."""

    __slots__ = ("guard", "run")

    def __init__(self, run: Any) -> None:
        self.run = run
        self.guard = None

    def passed_by(self, tool: Any) -> None:
        """Tell the run of a tool that was called by a tool: it is not counted, but may change things."""
        self.run.passed_by(tool)


def open_block(run: Any) -> Token[str | None]:
    """Make a run the active one, and note what was so before it.

    The id of a tool call is none of the calls of an agent inside that tool.
    """
    run.outer = active.get()
    active.set(run)
    return call_ids.set(None)


def close_block(run: Any, token: Token[str | None]) -> None:
    """Give back what was active before a run's block.

    The run is not the active one where blocks end crosswise, nor in another context, as an async
    generator may be closed in: what is left there is a run that has ended and guards nothing.
    """
    if active.get() is run:
        outer = run.outer
        while outer is not None and not (outer.guard is not None or isinstance(outer, Inside)):
            outer = outer.outer
        active.set(outer)
    leave(call_ids, token)


def standing_for(run: Any) -> Any:
    """Return what stands for a run here: in the body of one of its tools, the mark of that."""
    here = active.get()
    return here if isinstance(here, Inside) and here.run is run else run


@contextlib.contextmanager
def dispatching(run: Any, call_id: str | None) -> Generator[None, None, None]:
    """Make a run the active one for one tool call, wherever the call comes from."""
    run_token, id_token = active.set(standing_for(run)), call_ids.set(call_id)
    try:
        yield
    finally:
        leave(call_ids, id_token)
        leave(active, run_token)


def leave(variable: ContextVar[Any], token: Token[Any]) -> None:
    """Reset a variable, unless this is another context than the one it was set in.

    A coroutine that is dropped with its loop, and a generator that is closed elsewhere, end
    in a context of which the variable cannot be reached from here.
    """
    try:
        variable.reset(token)
    except ValueError:
        pass


class StuckSignal(BaseException):
    """Leaves the block of its own run; private, as a cancel scope's signal is.

    A `BaseException`, because most frameworks feed an `Exception` back to the model.
    """

    run: Any

    def __init__(self, *_: Any) -> None:
        msg = "this signal is raised by a run only; to end one yourself, leave its block"
        raise TypeError(msg)

    @classmethod
    def of(cls, run: Any) -> StuckSignal:
        """Make the signal of a run."""
        signal = cls.__new__(cls, "the run ended; see run.outcome")
        signal.run = run
        return signal

    def __str__(self) -> str:
        return "the run ended; see run.outcome"


# An adapter ends its framework's loop with an exception of that framework's kind; this attribute of
# it says whose stop it is.
_STOPPED_RUN = "__repeatguard_run__"


def mark_stop(error: BaseException, run: Any) -> None:
    """Say that an error is the stop of a run: its block takes it, as it takes its own signal."""
    setattr(error, _STOPPED_RUN, run)


def _is_signal_of(error: BaseException, run: Any) -> bool:
    if isinstance(error, StuckSignal):
        return error.run is run
    return getattr(error, _STOPPED_RUN, None) is run


def take_signal(error: BaseException | None, run: Any) -> tuple[bool, BaseException | None]:
    """Take the signal of `run` out of an error, also out of groups.

    Returns:
        Whether it was there, and what is left of the error.
    """
    if error is not None and _is_signal_of(error, run):
        return True, None
    # By its method and not by its class: Python 3.10 has groups from a backport only.
    split = getattr(error, "split", None)
    if split is None or not hasattr(error, "exceptions"):
        return False, error

    def ours(leaf: BaseException) -> bool:
        return _is_signal_of(leaf, run)

    found, rest = split(ours)
    return (True, rest) if found is not None else (False, error)
