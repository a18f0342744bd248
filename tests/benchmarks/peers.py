"""What other guards of tool calls cost, beside this one: one stream of calls, one environment each.

    python tests/benchmarks/peers.py [--folder FOLDER] [--rounds N] [--calls N] [--only NAME ...]

Every guard is installed in a virtual environment of its own and used as its README says a tool call is
guarded. Each round starts one process a guard, in turn, so that a busy moment of the machine falls on
all alike. A process makes distinct calls with three keyword arguments and results that differ, then
calls that are repeated three times, each of these in a run of its own. Figures are medians over the
rounds, in brackets the lowest and the highest; compare rows of one table, never two tables.
The environments take a minute to make; FOLDER keeps them (else they are made and removed).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
OURS = "repeatguard-sdk"
FLOOR = "floor"
REPEATED = 60
Tool = Callable[..., Any]


class Peer(NamedTuple):
    """A guard: what is installed, what is called, and how one run of it is begun."""

    name: str
    version: str
    api: str
    run: Callable[[Tool], AbstractContextManager[Any]]
    adapted: bool = False  # no decorator of its own: the loop calls the tool, then the guard


class Noted:
    """A guarded tool whose guard says things that the host has to fetch."""

    def __init__(self, tool: Tool, notes: Callable[[], Any]) -> None:
        self.tool, self.notes = tool, notes


# --- one run of each guard: given a tool, what to call instead ------------------------------------


@contextlib.contextmanager
def repeatguard(tool: Tool) -> Iterator[Noted]:
    from repeatguard_sdk import Run, guarded_tool

    guarded = guarded_tool(case_fold=["order_id"])(tool)
    with Run([guarded]) as run:
        yield Noted(guarded, run.observations)


@contextlib.contextmanager
def floor(tool: Tool) -> Iterator[Tool]:
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


PEERS = [
    Peer(FLOOR, "", "wrapt, a ContextVar, the compiled key, a count: no guard", floor),
    Peer(OURS, "", "`@guarded_tool(case_fold=...)` in `Run(tools)`", repeatguard),
    Peer(
        "agent-watchdog", "0.1.5", "`record_tool_call` after it, in `watch`", agent_watchdog, True
    ),
    Peer("agentguard47", "2.0.0", "`LoopGuard().check` before it", agentguard47, True),
    Peer("agentcap-guard", "0.1.0", "`cap.check` before it, in `budget`", agentcap_guard, True),
    Peer("magicrails", "0.1.1", "`record_call` before it, in `Magicrails`", magicrails, True),
    Peer("loopguard", "0.2.0", "`@loopguard(max_repeats=3, window=60)`", loopguard),
    Peer("runbound", "0.11.2", '`@tool` in `session`, `init(on_anomaly="raise")`', runbound),
    Peer("aura-guard", "0.7.1", "`@AgentGuard(...).protect`", aura_guard),
    Peer("trajectory-fuse", "0.3.0", "`@guard` of `fuse_namespace(AgentFuse())`", trajectory_fuse),
    Peer(
        "hermes-agent", "0.19.0", "`before_call`, `after_call` as its executor", hermes_agent, True
    ),
]


# --- in a guard's own process ---------------------------------------------------------------------


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
def begun(peer: Peer, tool: Tool) -> Iterator[tuple[Tool, Callable[[], Any]]]:
    """Begin a run, and give what to call and how to fetch what the guard has to say."""
    with peer.run(tool) as made:
        yield (made.tool, made.notes) if isinstance(made, Noted) else (made, lambda: ())


def spent(call: Tool, ids: list[str]) -> float:
    """Return the microseconds of one call."""
    gc.collect()
    began = time.perf_counter()
    for order_id in ids:
        call(order_id=order_id, carrier="DHL", limit=5)
    return (time.perf_counter() - began) / len(ids) * 1e6


def distinct(peer: Peer, ids: list[str]) -> tuple[float, float]:
    """Return the microseconds of a bare and of a guarded call, none of which is a repeat."""
    bare = passed_on if peer.adapted else track
    without, took = [], []
    for _ in range(3):
        without.append(spent(bare, ids))
        with begun(peer, track) as (call, _notes):
            spent(call, [f"W-{number}" for number in range(100)])
            took.append(spent(call, ids))
    return statistics.median(without), statistics.median(took)


def attempt(call: Tool, order_id: str) -> Any:
    """Make one call, and return its result or what the guard raised instead."""
    try:
        return call(order_id=order_id, carrier="DHL", limit=5)
    except BaseException as raised:  # a run of ours is left by one that is no Exception
        return raised


def repeated(peer: Peer, ids: list[str]) -> float:
    """Return the microseconds of one of three repeats, what is raised and said included."""
    took = []
    for order_id in ids:
        with contextlib.suppress(Exception), begun(peer, track) as (call, notes):
            call(order_id=order_id, carrier="DHL", limit=5)
            began = time.perf_counter()
            for _ in range(3):
                attempt(call, order_id)
                notes()
            took.append((time.perf_counter() - began) / 3 * 1e6)
    return statistics.median(took)


def behaviour(peer: Peer) -> list[str]:
    """Return in a word or two what became of the second, third and fourth equal call."""
    ran = []

    def track(order_id: str, carrier: str, limit: int) -> str:
        ran.append(order_id)
        return "in transit since " + order_id

    words = []
    with contextlib.suppress(Exception), begun(peer, track) as (call, notes):
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


def all_ran(peer: Peer, ids: list[str]) -> int:
    """Return how many distinct calls reached the tool."""
    ran = []

    def track(order_id: str, carrier: str, limit: int) -> str:
        ran.append(order_id)
        return "in transit since " + order_id

    with contextlib.suppress(Exception), begun(peer, track) as (call, _notes):
        for order_id in ids:
            attempt(call, order_id)
    return len(ran)


def work(peer: Peer, calls: int) -> dict[str, Any]:
    """Measure one guard."""
    logging.getLogger().addHandler(LOG)
    ids = [f"SO-{number}" for number in range(calls)]
    bare, first = distinct(peer, ids)
    return {
        "version": metadata.version(OURS if peer.name == FLOOR else peer.name),
        "bare": bare,
        "above": first - bare,
        "repeat": repeated(peer, ids[:REPEATED]),
        "what": behaviour(peer),
        "ran": all_ran(peer, ids),
    }


# --- in the process that starts them --------------------------------------------------------------


def python_of(folder: Path, peer: Peer) -> Path:
    """Return the interpreter of a guard's environment; the floor shares ours."""
    where = folder / (OURS if peer.name == FLOOR else peer.name)
    return where / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def installed(folder: Path, peer: Peer) -> bool:
    """Make a guard's environment, unless it is there, and say whether that could be done."""
    if peer.name == FLOOR:
        return True
    python = python_of(folder, peer)
    done = python.parent.parent / f"installed-{peer.version}"
    if done.exists() and peer.name != OURS:
        return True
    if not python.exists():
        venv.create(python.parent.parent, with_pip=True)
    what = [str(ROOT)] if peer.name == OURS else [f"{peer.name}=={peer.version}"]
    # From this tree as it is now, whatever the environment had before.
    again = ["--force-reinstall"] if peer.name == OURS else []
    command = [str(python), "-m", "pip", "install", "--quiet", *again, *what]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return False
    done.touch()
    return True


def measured(folder: Path, peer: Peer, calls: int) -> dict[str, Any] | None:
    """Measure one guard in its environment, away from the user's files."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "REPEATGUARD", "RUNBOUND", "HERMES", "AGENT", "AURA"))
    }
    done = subprocess.run(
        [str(python_of(folder, peer)), str(Path(__file__).resolve())]
        + ["--worker", peer.name, "--calls", str(calls)],
        env={**kept, "HOME": str(home), "AGENTCAP_HOME": str(home / "agentcap")},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"{peer.name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def spread(values: list[float]) -> str:
    """Return the median, and the lowest and the highest."""
    return f"{statistics.median(values):,.2f} [{min(values):,.2f}, {max(values):,.2f}]"


def row(peer: Peer, rounds: list[dict[str, Any]], ours: float, least: float, calls: int) -> str:
    """Return a guard's row of the table."""
    above = [each["above"] for each in rounds]
    middle = statistics.median(above)
    name = peer.name if peer.name == FLOOR else f"{peer.name} {rounds[0]['version']}"
    if rounds[0]["ran"] < calls:
        name += f" (ran {rounds[0]['ran']:,} of {calls:,})"
    repeats = " / ".join(rounds[0]["what"])
    return (
        f"| {name} | {spread(above)} | {middle / ours:,.1f} | {middle / least:,.1f} "
        f"| {repeats} | {spread([each['repeat'] for each in rounds])} | {peer.api} |"
    )


def table(peers: list[Peer], took: dict[str, list[dict[str, Any]]], calls: int) -> None:
    """Print all rows, the quickest guard first, then those that could not be measured."""
    middle = {
        name: statistics.median(each["above"] for each in rounds) for name, rounds in took.items()
    }
    ours, least = (middle.get(name, float("nan")) for name in (OURS, FLOOR))
    bare = [each["bare"] for rounds in took.values() for each in rounds]
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"\nPython {python}; {calls:,} distinct calls; a bare call takes {spread(bare)} us.\n")
    print("| guard | us a call above the bare one | x ours | x floor ", end="")
    print("| the same call again: 2nd / 3rd / 4th | us a repeat, all in all | used |")
    print("|---|---|---|---|---|---|---|")
    for peer in sorted(peers, key=lambda peer: middle.get(peer.name, float("inf"))):
        if peer.name in took:
            print(row(peer, took[peer.name], ours, least, calls))
        else:
            version = python.rpartition(".")[0]
            print(f"| {peer.name} {peer.version} | not to be had on Python {version} | | | | | |")


def compare(folder: Path, peers: list[Peer], rounds: int, calls: int) -> None:
    """Install all guards, measure them in turn, and print the table."""
    with ThreadPoolExecutor(4) as pool:
        there = list(pool.map(lambda peer: installed(folder, peer), peers))
    took: dict[str, list[dict[str, Any]]] = {}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for peer, is_there in zip(peers, there, strict=True):
            result = measured(folder, peer, calls) if is_there else None
            if result is not None:
                took.setdefault(peer.name, []).append(result)
    table(peers, took, calls)


def main() -> None:
    """Compare all guards, or (as started by that) measure one."""
    parser = argparse.ArgumentParser(description="Compare guards of tool calls.")
    parser.add_argument("--folder", type=Path, help="keep the environments here")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--only", nargs="+", help="beside the floor and ours")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        peer = next(each for each in PEERS if each.name == asked.worker)
        with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
            result = work(peer, asked.calls)
        print(json.dumps(result))
        return
    peers = [each for each in PEERS if not asked.only or each.name in (FLOOR, OURS, *asked.only)]
    if asked.folder:
        asked.folder.mkdir(parents=True, exist_ok=True)
        compare(asked.folder.resolve(), peers, asked.rounds, asked.calls)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), peers, asked.rounds, asked.calls)


if __name__ == "__main__":
    main()
