"""Changes that no count sees: a stored read must not be served across them either."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from builds import interpreted_only
from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk._firsts import FirstCalls
from repeatguard_sdk.events import MemorySink


class Shelf:
    """A world of one value, and tools that read and change it."""

    def __init__(self, effect: str = "write", mode: str | None = None) -> None:
        tools = self.tools = Registry()
        self.value = 0
        decorate: Callable[..., Any] = guarded_tool

        def read() -> int:
            """Read the value."""
            return self.value

        def change(by: Any = None) -> str:
            """Change the value."""
            self.value += 1
            return "done"

        async def achange(by: Any = None) -> str:
            """Change the value."""
            self.value += 1
            return "done"

        self.read = decorate(registry=tools)(read)
        self.change = decorate(registry=tools, effect=effect, mode=mode)(change)
        self.achange = decorate(registry=tools, effect=effect, mode=mode)(achange)

        def helper() -> int:
            """Say that it only reads, and change the value all the same."""
            self.change(by="helper")
            return self.read()

        async def ahelper() -> int:
            """Do the same awaiting."""
            await self.achange(by="helper")
            return self.read()

        self.helper = decorate(registry=tools)(helper)
        self.ahelper = decorate(registry=tools)(ahelper)


EFFECTS = pytest.mark.parametrize("effect", ["write", "unknown", "final"])


@EFFECTS
def test_a_change_whose_arguments_cannot_be_compared(effect: str) -> None:
    """A call without identity is not counted, but what it did was done."""
    shelf = Shelf(effect)
    with Run(registry=shelf.tools, events=MemorySink()):
        assert shelf.read() == 0
        shelf.change(threading.Lock())
        assert shelf.read() == 1


@EFFECTS
def test_a_change_of_a_tool_whose_mode_is_off(effect: str) -> None:
    """To leave a tool out of the guard does not leave it out of the world."""
    shelf = Shelf(effect, mode="off")
    with Run(registry=shelf.tools):
        assert shelf.read() == 0
        shelf.change()
        assert shelf.read() == 1
        asyncio.run(shelf.achange())
        assert shelf.read() == 2


@EFFECTS
def test_a_change_of_a_tool_that_another_tool_calls(effect: str) -> None:
    """The outer tool was declared a read; the inner one was not."""
    shelf = Shelf(effect)
    with Run(registry=shelf.tools):
        assert shelf.read() == 0
        assert shelf.helper() == 1
        assert shelf.read() == 1
        assert asyncio.run(shelf.ahelper()) == 2
        assert shelf.read() == 2


@EFFECTS
def test_a_change_that_is_only_observed(effect: str) -> None:
    """Twins of one turn that run twice change the world twice."""
    shelf = Shelf(effect, mode="observe")
    with Run(registry=shelf.tools) as run:
        run.turn()
        assert shelf.read() == 0
        shelf.change()
        assert shelf.read() == 1
        shelf.change()
        assert shelf.read() == 2


@interpreted_only
@EFFECTS
def test_a_change_the_guard_itself_failed_on(effect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was let through for a fault of the guard may have changed anything."""
    shelf = Shelf(effect)
    with Run(registry=shelf.tools, events=MemorySink()) as run:
        assert shelf.read() == 0

        def fault(*_: Any) -> Any:
            raise RuntimeError

        with monkeypatch.context() as patch:
            patch.setattr(run._engine, "admit", fault)
            patch.setattr(FirstCalls, "begin", lambda *_: None)
            shelf.change()
        assert shelf.read() == 1


def test_the_end_of_a_run_leaves_its_tools_alone() -> None:
    """A run that leaked into a context and has ended is told of calls, and minds them no more."""
    shelf = Shelf()
    run = Run(registry=shelf.tools)
    with run:
        shelf.change()
    assert run.bind(shelf.change)() == "done"
    assert run.calls == 1
