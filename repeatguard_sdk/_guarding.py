"""Where each call of a guarded tool comes in, and asks the active run."""

from __future__ import annotations

import functools
from typing import Any, Final

from repeatguard_sdk._calling import CallPath
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._scope import active

_run_here: Final = active.get


def guarded_call(tool: Tool, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Call a tool through the run that is active here, if there is one."""
    run = _run_here()
    if run is None:
        return wrapped(*args, **kwargs)
    guard = run.guard
    if guard is None:
        try:
            return wrapped(*args, **kwargs)
        finally:
            run.passed_by(tool)
    if instance is None and args and tool.spec.receiver is not None:
        wrapped, args = without_receiver(wrapped, args)
    # Both say the same: where the class is known, compiled code calls the method without a look-up.
    if isinstance(guard, CallPath):
        return guard.call(tool, wrapped, args, kwargs)
    return guard.call(tool, wrapped, args, kwargs)


def without_receiver(wrapped: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Take the receiver out of the arguments, for it is no part of the key.

    It comes as an argument when `classmethod` is the outer decorator on Python 3.13, when a
    framework calls the function of a method, and from code rebuilt out of one.
    """
    return functools.partial(wrapped, args[0]), args[1:]
