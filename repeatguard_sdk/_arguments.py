"""The arguments of a `Run`, checked where it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from repeatguard_sdk._memory import Memory
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Registry
from repeatguard_sdk._types import is_sequence
from repeatguard_sdk.exceptions import RunStateError

_CHOICES = {"on_stuck": ("exit", "raise", "flag"), "deliver": ("queue", "result")}
_KINDS = {"policy": Policy, "memory": Memory, "registry": Registry}


def check_options(**options: Any) -> None:
    """Reject what cannot work.

    Raises:
        RunStateError: an option of the wrong kind, with what to write instead.
    """
    for name, allowed in _CHOICES.items():
        if options[name] not in allowed:
            _reject(name, options[name], f"write one of {', '.join(map(repr, allowed))}")
    for name, kind in _KINDS.items():
        value = options[name]
        if value is not None and not isinstance(value, kind):
            _reject(name, value, f"give a {kind.__name__}, such as {kind.__name__}()")
    tools, events, clock = options["tools"], options["events"], options["clock"]
    if isinstance(tools, Registry):
        _reject("tools", tools, "a registry goes to Run(registry=...)")
    if isinstance(tools, Mapping):
        _reject("tools", tools, "give a list of decorated functions, of a dict its .values()")
    if tools is not None and (isinstance(tools, str) or not isinstance(tools, Iterable)):
        _reject("tools", tools, "give a list of decorated functions")
    for sink in events if is_sequence(events) else [events]:
        if isinstance(sink, type):
            _reject("events", sink, f"give an instance: {sink.__name__}()")
        if sink is not None and not callable(getattr(sink, "emit", sink)):
            _reject("events", sink, "give a sink with an emit method, or a function of one event")
    if clock is not None and not callable(clock):
        _reject("clock", clock, "give a function that returns seconds, such as time.time")


def _reject(name: str, value: Any, advice: str) -> None:
    msg = f"Run({name}={value!r}): {advice}"
    raise RunStateError(msg)
