"""Carry a run into a thread, a pool or a callback, where context variables do not follow."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from repeatguard_sdk._scope import active, leave, standing_for

F = TypeVar("F", bound=Callable[..., Any])


def bind(run: Any, function: F) -> F:
    """Return `function` so that `run` guards the tools it calls, wherever it is called.

    What is bound inside a tool of the run, or called there, stays unguarded: a tool that calls
    tools is one call, and one that waited for an equal call of its own would wait for ever.
    """
    carried = standing_for(run)

    def target() -> Any:
        return standing_for(run) if carried is run else carried

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def bound_async(*args: Any, **kwargs: Any) -> Any:
            return await _awaited(target(), function(*args, **kwargs))

        return bound_async  # type: ignore[return-value]

    @functools.wraps(function)
    def bound(*args: Any, **kwargs: Any) -> Any:
        here = target()
        token = active.set(here)
        try:
            result = function(*args, **kwargs)
        finally:
            leave(active, token)
        # A lambda around a coroutine function: its body has not begun yet.
        made_coroutine = issubclass(type(result), types.CoroutineType)
        return _awaited(here, result) if made_coroutine else result

    return bound  # type: ignore[return-value]


async def _awaited(target: Any, coroutine: Awaitable[Any]) -> Any:
    token = active.set(target)
    try:
        return await coroutine
    finally:
        leave(active, token)
