"""Whether a guarded call stays as quick, and how much memory it takes, as a run grows.

    python tests/benchmarks/growth.py [CALLS]

First calls with three keyword arguments in one run, timed in stretches; then the bytes a distinct
call takes beside its arguments and its result; then a thousand runs open at once.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
import tracemalloc
from typing import Any

from repeatguard_sdk import Registry, Run, guarded_tool

TOOLS = Registry()
STRETCH = 1_000


@guarded_tool(registry=TOOLS)
def track(order_id: str, carrier: str, limit: int) -> str:
    """Track a parcel."""
    return order_id


def stretch(ids: list[str]) -> float:
    """Return the microseconds of one call over some calls."""
    began = time.perf_counter()
    for order_id in ids:
        track(order_id=order_id, carrier="DHL", limit=5)
    return (time.perf_counter() - began) / len(ids) * 1e6


def pace(calls: int) -> None:
    """Print the time of a call at 1,000, 10,000, ... calls, three stretches around each."""
    marks = {mark for mark in (1_000, 10_000, 100_000, 1_000_000) if mark <= calls}
    seen: dict[int, list[float]] = {}
    gc.collect()
    with Run(registry=TOOLS):
        for begin in range(0, calls + 3 * STRETCH, STRETCH):
            took = stretch([f"SO-{number}" for number in range(begin, begin + STRETCH)])
            for mark in marks:
                if mark <= begin < mark + 3 * STRETCH:
                    seen.setdefault(mark, []).append(took)
    base = min(seen[min(seen)])
    print("calls so far   us a call   x the pace at 1,000")
    for mark, values in sorted(seen.items()):
        print(f"{mark:>12,}   {min(values):9.2f}   {min(values) / base:9.2f}")


def memory(calls: int = 100_000) -> None:
    """Print the bytes a distinct call takes, arguments and results not counted."""
    ids = [f"SO-{number}" for number in range(calls)]
    with Run(registry=TOOLS):
        track(order_id="warm", carrier="DHL", limit=5)
        gc.collect()
        tracemalloc.start()
        stretch(ids)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    print(f"\n{taken / calls:.0f} bytes a distinct call ({calls:,} of them)")


def many_runs(runs: int = 1_000) -> None:
    """Print the time of a call, and the memory of a run, with a thousand runs open at once."""
    ids = [f"SO-{number}" for number in range(10)]
    gc.collect()
    tracemalloc.start()
    with contextlib.ExitStack() as stack:
        opened: list[Any] = [stack.enter_context(Run(registry=TOOLS)) for _ in range(runs)]
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        calls = [run.bind(lambda: stretch(ids)) for run in opened]
        took = sorted(call() for call in calls)
    print(
        f"\n{runs:,} runs at once: {taken / runs / 1024:.1f} KB a run, "
        f"{took[len(took) // 2]:.2f} us a call"
    )


def main() -> None:
    """Print all three."""
    pace(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    memory()
    many_runs()


if __name__ == "__main__":
    main()
