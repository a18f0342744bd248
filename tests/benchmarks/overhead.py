"""What a guarded call costs above the bare one, each kind beside the others in one run.

    python tests/benchmarks/overhead.py [ROUNDS]

Microseconds of one call: the median over the rounds, and in brackets the lowest and the highest.
The rounds are interleaved, so that a busy moment of the machine falls on all rows alike; compare
rows, and ratios between them, never one run with another.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import wrapt

from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk._tool import tool_of

CALLS = 2_000
TOOLS = Registry()
NESTED = json.loads(
    json.dumps({"filters": [{"field": f"f{n}", "value": "x" * 20} for n in range(18)]})
)
MEGABYTE = "x" * 1_000_000


def track(order_id: str, carrier: str, limit: int) -> str:
    """Track a parcel."""
    return "in transit since " + order_id


def many(
    a: str,
    b: str,
    c: str,
    d: str,
    e: int,
    f: int,
    g: int,
    h: bool,
    i: float,
    j: str,
    k: str,
    m: int,
) -> str:
    """Take twelve arguments."""
    return a


def deep(order_id: str, query: dict[str, Any]) -> str:
    """Take a nested argument."""
    return order_id


def long(order_id: str, text: str) -> str:
    """Take a long text."""
    return order_id


async def atrack(order_id: str, carrier: str, limit: int) -> str:
    """Track a parcel."""
    return "in transit since " + order_id


class Shop:
    """A tool that is a method."""

    @guarded_tool(registry=TOOLS, name="method")
    def track(self, order_id: str, carrier: str, limit: int) -> str:
        """Track a parcel."""
        return "in transit since " + order_id


guard: Callable[..., Any] = guarded_tool
READ = guard(registry=TOOLS, case_fold=["order_id"])(track)
WRITE = guard(registry=TOOLS, name="write", effect="write")(track)
LIVE = guard(registry=TOOLS, name="live", effect="live")(track)
MANY, DEEP, LONG = (
    guard(registry=TOOLS)(many),
    guard(registry=TOOLS)(deep),
    guard(registry=TOOLS)(long),
)
ASYNC = guard(registry=TOOLS)(atrack)
METHOD = Shop().track

_counts: ContextVar[dict[Any, int]] = ContextVar("counts")
_key = tool_of(READ).keys.key  # type: ignore[union-attr]


def _count(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    counts = _counts.get()
    key = _key(*args, **kwargs)
    counts[key] = counts.get(key, 0) + 1
    return wrapped(*args, **kwargs)


FLOOR = wrapt.FunctionWrapper(track, _count)
IDS = [f"SO-{number}" for number in range(CALLS)]
TWELVE = dict(zip("bcdefghijkm", ("b", "c", "d", 1, 2, 3, True, 0.5, "j", "k", 4), strict=True))


def spent(call: Callable[[str], Any], ids: list[str]) -> float:
    """Return the microseconds of one call."""
    began = time.perf_counter()
    for order_id in ids:
        call(order_id)
    return (time.perf_counter() - began) / len(ids) * 1e6


def three(tool: Callable[..., Any]) -> Callable[[str], Any]:
    """Call a tool with three keyword arguments."""
    return lambda order_id: tool(order_id=order_id, carrier="DHL", limit=5)


def once(call: Callable[[str], Any], ids: list[str] = IDS) -> Callable[[], float]:
    """Measure first calls in a run of their own."""

    def measure() -> float:
        with Run(registry=TOOLS):
            call("warm")
            return spent(call, ids)
        raise AssertionError

    return measure


def again() -> float:
    """Measure second equal calls: the stored result and an observation."""
    call = three(READ)
    with Run(registry=TOOLS):
        spent(call, IDS)
        return spent(call, IDS)
    raise AssertionError


def polled() -> float:
    """Measure one live call made again and again."""
    call = three(LIVE)
    with Run(registry=TOOLS):
        return spent(lambda _: call("SO-1"), IDS)
    raise AssertionError


def awaited() -> float:
    """Measure first calls of a coroutine tool, its loop included."""

    async def main() -> float:
        with Run(registry=TOOLS):
            began = time.perf_counter()
            for order_id in IDS:
                await ASYNC(order_id=order_id, carrier="DHL", limit=5)
            return (time.perf_counter() - began) / CALLS * 1e6
        raise AssertionError

    return asyncio.run(main())


def bare_awaited() -> float:
    """Measure the same without the guard."""

    async def main() -> float:
        began = time.perf_counter()
        for order_id in IDS:
            await atrack(order_id=order_id, carrier="DHL", limit=5)
        return (time.perf_counter() - began) / CALLS * 1e6

    return asyncio.run(main())


def counted() -> float:
    """Measure the floor: wrapt, a context variable, the compiled key, a count."""
    _counts.set({})
    return spent(three(FLOOR), IDS)


ROWS: dict[str, Callable[[], float]] = {
    "bare": lambda: spent(three(track), IDS),
    "floor (wrapt, ContextVar, key, count)": counted,
    "outside a run": lambda: spent(three(READ), IDS),
    "first call": once(three(READ)),
    "first call, positional": once(lambda order_id: READ(order_id, "DHL", 5)),
    "first call of a method": once(three(METHOD)),
    "write": once(three(WRITE)),
    "replay": again,
    "live, again and again": polled,
    "12 arguments": once(lambda order_id: MANY(a=order_id, **TWELVE)),
    "1 KB nested": once(lambda order_id: DEEP(order_id=order_id, query=NESTED)),
    "1 MB text": once(lambda order_id: LONG(order_id=order_id, text=MEGABYTE), IDS[:20]),
    "bare, awaited": bare_awaited,
    "first call, awaited": awaited,
}


def main() -> None:
    """Print a table of all rows, and the ratios that matter."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    took: dict[str, list[float]] = {name: [] for name in ROWS}
    for _ in range(rounds):
        for name, measure in ROWS.items():
            gc.collect()
            took[name].append(measure())
    middle = {name: statistics.median(values) for name, values in took.items()}
    print(f"{'microseconds a call':<40} median    [low, high]   above bare   x floor")
    floor = middle["floor (wrapt, ContextVar, key, count)"]
    for name, values in took.items():
        bare = middle["bare, awaited" if "awaited" in name else "bare"]
        print(
            f"{name:<40} {middle[name]:8.2f}  [{min(values):.2f}, {max(values):.2f}]"
            f"   {middle[name] - bare:8.2f}   {middle[name] / floor:6.2f}"
        )
    print(f"\nreplay / first call: {middle['replay'] / middle['first call']:.2f}")


if __name__ == "__main__":
    main()
