"""Measure one guard in its own environment: the part of `peers.py` that is started in it.

    python tests/benchmarks/peers/worker.py NAME CALLS

A driver is one run of a guard: given a tool, what an agent's loop calls instead, as the guard's README
has it. Prints what was measured as JSON.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

REPEATED = 60
Tool = Callable[..., Any]


class Noted:
    """A guarded tool whose guard says things that the host has to fetch."""

    def __init__(self, tool: Tool, notes: Callable[[], Any]) -> None:
        self.tool, self.notes = tool, notes


@contextlib.contextmanager
def repeatguard(tool: Tool) -> Iterator[Noted]:
    from repeatguard_sdk import Run, guarded_tool

    guarded = guarded_tool(case_fold=["order_id"])(tool)
    with Run([guarded]) as run:
        yield Noted(guarded, run.observations)


@contextlib.contextmanager
def floor(tool: Tool) -> Iterator[Tool]:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import overhead

    overhead._counts.set({})
    yield overhead.wrapt.FunctionWrapper(tool, overhead._count)


@contextlib.contextmanager
def agent_watchdog(tool: Tool) -> Iterator[Tool]:
    from agent_watchdog import AgentWatchdog

    watchdog = AgentWatchdog()

    def call(**args: Any) -> Any:
        result = tool(**args)
        watchdog.record_tool_call("track", args=args, output=result)
        return result

    with watchdog.watch(run_id="run"):
        yield call


@contextlib.contextmanager
def agentguard47(tool: Tool) -> Iterator[Tool]:
    from agentguard import LoopGuard

    guard = LoopGuard()

    def call(**args: Any) -> Any:
        guard.check("track", args)
        return tool(**args)

    yield call


@contextlib.contextmanager
def agentcap_guard(tool: Tool) -> Iterator[Tool]:
    import agentcap

    with agentcap.budget(5.00) as cap:

        def call(**args: Any) -> Any:
            cap.check(model="gpt-4o", step_signature={"tool": "track", "args": args})
            return tool(**args)

        yield call


@contextlib.contextmanager
def magicrails(tool: Tool) -> Iterator[Tool]:
    from magicrails import Magicrails

    with Magicrails(max_repeats=3) as session:

        def call(**args: Any) -> Any:
            session.record_call("track", args)
            return tool(**args)

        yield call


@contextlib.contextmanager
def loopguard(tool: Tool) -> Iterator[Tool]:
    from loopguard import loopguard as guard

    yield guard(max_repeats=3, window=60)(tool)


@contextlib.contextmanager
def runbound(tool: Tool) -> Iterator[Tool]:
    import runbound as guard

    guard.init(on_anomaly="raise")
    with guard.session("run"):
        yield guard.tool(tool)


@contextlib.contextmanager
def aura_guard(tool: Tool) -> Iterator[Tool]:
    from aura_guard import AgentGuard

    yield AgentGuard(secret_key=b"your-secret-key").protect(tool)


@contextlib.contextmanager
def trajectory_fuse(tool: Tool) -> Iterator[Tool]:
    from trajectory_fuse import AgentFuse, fuse_namespace

    yield fuse_namespace(AgentFuse())(tool)


@contextlib.contextmanager
def hermes_agent(tool: Tool) -> Iterator[Tool]:
    from agent import tool_guardrails as of

    config = of.ToolCallGuardrailConfig(idempotent_tools=frozenset({"track"}))
    guard = of.ToolCallGuardrailController(config)

    def call(**args: Any) -> Any:
        before = guard.before_call("track", args)
        if not before.allows_execution:
            return of.toolguard_synthetic_result(before)
        result = tool(**args)
        after = guard.after_call("track", args, result, failed=False)
        return of.append_toolguard_guidance(result, after)

    yield call


DRIVERS = {
    "floor": floor,
    "repeatguard-sdk": repeatguard,
    "agent-watchdog": agent_watchdog,
    "agentguard47": agentguard47,
    "agentcap-guard": agentcap_guard,
    "magicrails": magicrails,
    "loopguard": loopguard,
    "runbound": runbound,
    "aura-guard": aura_guard,
    "trajectory-fuse": trajectory_fuse,
    "hermes-agent": hermes_agent,
}
# No decorator: an agent's loop calls the tool, and before or after it the guard.
BESIDE = {"agent-watchdog", "agentguard47", "agentcap-guard", "magicrails", "hermes-agent"}


def track(order_id: str, carrier: str, limit: int) -> str:
    """Track a parcel."""
    return "in transit since " + order_id


def passed_on(**args: Any) -> Any:
    """Call the tool as a loop without a guard does that has the arguments by name."""
    return track(**args)


class Log(logging.Handler):
    """Keeps the warnings that a guard logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


LOG = Log()


@contextlib.contextmanager
def begun(name: str, tool: Tool) -> Iterator[tuple[Tool, Callable[[], Any]]]:
    """Begin a run, and give what to call and how to fetch what the guard has to say."""
    with DRIVERS[name](tool) as made:
        yield (made.tool, made.notes) if isinstance(made, Noted) else (made, lambda: ())


def spent(call: Tool, ids: list[str]) -> float:
    """Return the microseconds of one call."""
    gc.collect()
    began = time.perf_counter()
    for order_id in ids:
        call(order_id=order_id, carrier="DHL", limit=5)
    return (time.perf_counter() - began) / len(ids) * 1e6


def distinct(name: str, ids: list[str]) -> tuple[float, float]:
    """Return the microseconds of a bare and of a guarded call, none of which is a repeat."""
    bare = passed_on if name in BESIDE else track
    without, took = [], []
    for _ in range(3):
        without.append(spent(bare, ids))
        with begun(name, track) as (call, _notes):
            spent(call, [f"W-{number}" for number in range(100)])
            took.append(spent(call, ids))
    return statistics.median(without), statistics.median(took)


def attempt(call: Tool, order_id: str) -> Any:
    """Make one call, and return its result or what the guard raised instead."""
    try:
        return call(order_id=order_id, carrier="DHL", limit=5)
    except BaseException as raised:  # a run of ours is left by one that is no Exception
        return raised


def repeated(name: str, ids: list[str]) -> float:
    """Return the microseconds of one of three repeats, what is raised and said included."""
    took = []
    for order_id in ids:
        with begun(name, track) as (call, notes):
            call(order_id=order_id, carrier="DHL", limit=5)
            began = time.perf_counter()
            for _ in range(3):
                attempt(call, order_id)
                notes()
            took.append((time.perf_counter() - began) / 3 * 1e6)
    return statistics.median(took)


def counting() -> tuple[Tool, list[str]]:
    """Return a tool that keeps what it was called with."""
    ran: list[str] = []

    def track(order_id: str, carrier: str, limit: int) -> str:
        ran.append(order_id)
        return "in transit since " + order_id

    return track, ran


def behaviour(name: str) -> list[str]:
    """Return in a word or two what became of the second, third and fourth equal call."""
    tool, ran = counting()
    words = []
    with begun(name, tool) as (call, notes):
        expected = attempt(call, "SO-1")
        for _ in range(3):
            ran.clear()
            LOG.seen.clear()
            result = attempt(call, "SO-1")
            said = bool(notes() or LOG.seen)
            words.append(word(result, expected, ran=bool(ran), said=said))
    return words


def word(result: Any, expected: Any, *, ran: bool, said: bool) -> str:
    """Say what became of a call."""
    if isinstance(result, BaseException):
        what = "blocks" if isinstance(result, Exception) else "ends the run"
        return f"{what}, after it ran" if ran else what
    says = said or result != expected
    return ("runs" if ran else "replays") + (", warns" if says else "")


def all_ran(name: str, ids: list[str]) -> int:
    """Return how many distinct calls reached the tool."""
    tool, ran = counting()
    with begun(name, tool) as (call, _notes):
        for order_id in ids:
            attempt(call, order_id)
    return len(ran)


def work(name: str, calls: int) -> dict[str, Any]:
    """Measure one guard."""
    logging.getLogger().addHandler(LOG)
    ids = [f"SO-{number}" for number in range(calls)]
    bare, first = distinct(name, ids)
    return {
        "version": metadata.version("repeatguard-sdk" if name == "floor" else name),
        "bare": bare,
        "above": first - bare,
        "repeat": repeated(name, ids[:REPEATED]),
        "what": behaviour(name),
        "ran": all_ran(name, ids),
    }


def main() -> None:
    """Measure the guard that was asked for; what it prints itself is not shown."""
    name, calls = sys.argv[1], int(sys.argv[2])
    with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
        result = work(name, calls)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
