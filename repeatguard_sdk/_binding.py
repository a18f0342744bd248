"""Carry a run into a thread, a pool or a callback, where context variables do not follow."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from repeatguard_sdk._scope import active

F = TypeVar("F", bound=Callable[..., Any])


def bind(run: Any, function: F) -> F:
    """Return `function` so that `run` guards the tools it calls, wherever it is called."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def bound_async(*args: Any, **kwargs: Any) -> Any:
            token = active.set(run)
            try:
                return await function(*args, **kwargs)
            finally:
                active.reset(token)

        return bound_async  # type: ignore[return-value]

    @functools.wraps(function)
    def bound(*args: Any, **kwargs: Any) -> Any:
        token = active.set(run)
        try:
            return function(*args, **kwargs)
        finally:
            active.reset(token)

    return bound  # type: ignore[return-value]
