"""The way of a call of a coroutine tool, and how it waits for another one.

Not among the compiled modules: a coroutine that mypyc made does not take a cancellation as asyncio
throws it, on Python 3.13.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._calling import CallPath
from repeatguard_sdk._flight import Landing
from repeatguard_sdk._identity import Identity
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._scope import active, leave


async def call_awaited(
    path: CallPath,
    tool: Tool,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Guard one call of a coroutine tool, as `CallPath.call` does of any other."""
    first = path.firsts.begin(tool, args, kwargs)
    if not isinstance(first, tuple):
        if isinstance(first, Admission):
            return path.answer_at_once(first)
        return await _call_in_full(path, tool, function, args, kwargs, first)
    path.last = first
    token = active.set(path.inside)
    try:
        result = await function(*args, **kwargs)
    except BaseException as error:
        leave(active, token)
        path.raised(first, tool, args, kwargs, error)
        raise
    leave(active, token)
    if path.firsts.settle(first, tool, result):
        return result
    return path.returned(first, tool, args, kwargs, result)


async def _call_in_full(
    path: CallPath,
    tool: Tool,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    identity: Identity | None,
) -> Any:
    admitted: Admission | None = None
    while True:
        admitted = path.admit(tool, args, kwargs, admitted, identity)
        if admitted is None:
            try:
                return await function(*args, **kwargs)
            finally:
                path.passed_by(tool)
        if admitted.executed:
            break
        if admitted.waiter is None:
            return path.answer(admitted)
        landing = await _wait_for(admitted.waiter)
        if landing.how != "abandoned":
            return path.share(landing)
    token = active.set(path.inside)
    try:
        result = await function(*args, **kwargs)
    except BaseException as error:
        leave(active, token)
        path.raised(admitted, tool, args, kwargs, error)
        raise
    leave(active, token)
    return path.returned(admitted, tool, args, kwargs, result)


async def _wait_for(waiter: Future[Landing]) -> Landing:
    """Wait for a landing without blocking the event loop, under asyncio or trio.

    The waiter's future is its own: cancelling the wait leaves the owner and the others alone.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        # A thread waits, for a future of the standard library wakes no task of trio's.
        landing: Landing = await trio.to_thread.run_sync(waiter.result, abandon_on_cancel=True)
        return landing
    # Imported here, for it costs as much as the rest of the package, and is there when it is needed.
    import asyncio

    return await asyncio.wrap_future(waiter)
