"""Joined calls under trio, whose tasks no future of the standard library can wake."""

from __future__ import annotations

import pytest

from repeatguard_sdk import Registry, Run, guarded_tool

trio = pytest.importorskip("trio")
pytest.importorskip("trio.testing")

TOOLS = Registry()
RAN: list[str] = []


@guarded_tool(registry=TOOLS)
async def look(what: str) -> dict[str, str]:
    """Look something up."""
    RAN.append(what)
    await trio.sleep(0.02)
    return {"what": what}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()


def test_equal_calls_in_one_nursery_run_once() -> None:
    """Each waiter gets a copy of its own, and none of them counts."""
    results: list[dict[str, str]] = []

    async def ask() -> None:
        results.append(await look("a"))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)

    with Run(registry=TOOLS) as run:
        trio.run(main)
        assert not run.stuck
    assert RAN == ["a"]
    assert results == [{"what": "a"}] * 5
    assert len({id(result) for result in results}) == 5


def test_a_waiter_takes_over_from_a_cancelled_owner() -> None:
    """The owner's cancellation is its own; the call is made all the same."""
    results: list[dict[str, str]] = []

    async def owner(scope: trio.CancelScope) -> None:
        with scope:
            await look("a")

    async def waiter() -> None:
        results.append(await look("a"))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()
            nursery.start_soon(owner, scope)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(waiter)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    with Run(registry=TOOLS):
        trio.run(main)
    assert results == [{"what": "a"}]
    assert RAN == ["a", "a"]
