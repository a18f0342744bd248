"""A guarded tool keeps its type, bare and called. Read by type checkers, never executed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from typing_extensions import assert_type

from repeatguard_sdk import Registry, ToolSpec, guarded_tool, spec_of


@guarded_tool
def bare(q: str, limit: int = 5) -> list[str]:
    """Find."""
    return [q] * limit


@guarded_tool(case_fold=["order_id"], money_fields=("amount",), fields={"note": "text"})
def called(order_id: str, amount: float, note: str = "") -> bool:
    """Refund."""
    return bool(order_id and amount and note)


@guarded_tool
async def abare(q: str) -> int:
    """Count."""
    return len(q)


@guarded_tool(effect="write", volatile=len, fields={"q": str.lower}, registry=Registry())
async def acalled(q: str) -> bytes:
    """Store."""
    return q.encode()


class Shop:
    """Tools as methods."""

    @guarded_tool
    def method(self, q: str) -> str:
        return q

    @guarded_tool(effect="live")
    async def amethod(self, q: str) -> str:
        return q

    @guarded_tool
    @classmethod
    def class_method(cls, q: str) -> int:
        return len(q)

    @guarded_tool(max_calls=3)
    @classmethod
    async def aclass_method(cls, q: str) -> int:
        return len(q)

    @guarded_tool
    @staticmethod
    def static_method(q: str) -> float:
        return float(q)

    @guarded_tool(repeatable=True)
    @staticmethod
    def called_static_method(q: str) -> float:
        return float(q)

    @classmethod
    @guarded_tool
    def inner_class_method(cls, q: str) -> int:
        return len(q)

    @staticmethod
    @guarded_tool(name="inner")
    def inner_static_method(q: str) -> float:
        return float(q)


def functions() -> None:
    """Calls are checked and results are known."""
    assert_type(bare("a", limit=3), list[str])
    assert_type(called("a", 1.0), bool)
    bare(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    called("a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    passed: Callable[[str, int], list[str]] = bare
    passed("a", 1)


async def coroutines() -> None:
    """A coroutine function stays one."""
    assert_type(await abare("a"), int)
    assert_type(await acalled("a"), bytes)
    pending: Coroutine[Any, Any, int] = abare("a")
    await pending
    await abare()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def methods() -> None:
    """Bound on an instance, on the class, and taken from the class."""
    shop = Shop()
    assert_type(shop.method("a"), str)
    assert_type(Shop.method(shop, "a"), str)
    assert_type(await shop.amethod("a"), str)
    assert_type(Shop.class_method("a"), int)
    assert_type(shop.class_method("a"), int)
    assert_type(await Shop.aclass_method("a"), int)
    assert_type(Shop.static_method("1"), float)
    assert_type(shop.static_method("1"), float)
    assert_type(Shop.called_static_method("1"), float)
    assert_type(Shop.inner_class_method("a"), int)
    assert_type(Shop.inner_static_method("1"), float)
    shop.method(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def others() -> None:
    """A partial is a tool if it is given a name; a declaration may be missing."""
    near = guarded_tool(name="near")(partial(bare, limit=1))
    assert_type(near("a"), list[str])
    assert_type(spec_of(bare), ToolSpec | None)
    guarded_tool(effect="reads")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    guarded_tool(fields={"q": "txt"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType, reportCallIssue]
