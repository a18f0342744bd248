"""What other guards of tool calls cost, beside this one: one stream of calls, one environment each.

    python tests/benchmarks/peers.py [--folder FOLDER] [--rounds N] [--calls N] [--only NAME ...]

Every guard is installed in a virtual environment of its own and used as its README says a tool call is
guarded. Each round starts one process a guard, in turn, so that a busy moment of the machine falls on
all alike. A process makes distinct calls with three keyword arguments and results that differ, then
calls that are repeated three times, each of these in a run of its own; what a repeat costs includes
what is raised and said. The bare call of a guard without a decorator is one by a dict of arguments.
Figures are medians over the rounds, in brackets the lowest and the highest; compare rows of one table,
never two tables.
The environments take a minute to make; FOLDER keeps them (else they are made and removed).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
OURS = "repeatguard-sdk"
INTERPRETED = "repeatguard-sdk-interpreted"
FLOOR = "floor"
WORKER = Path(__file__).with_name("peers") / "worker.py"


class Peer(NamedTuple):
    """A guard: its distribution, the version the driver is written for, the part of it that is used."""

    name: str
    version: str
    api: str


PEERS = [
    Peer(FLOOR, "", "wrapt, a ContextVar, the compiled key, a count: no guard"),
    Peer(OURS, "", "`@guarded_tool(case_fold=...)` in `Run(tools)`, compiled"),
    Peer(INTERPRETED, "", "the same, without a compiler"),
    Peer("agent-watchdog", "0.1.5", "`record_tool_call` after it, in `watch`"),
    Peer("agentguard47", "2.0.0", "`LoopGuard().check` before it"),
    Peer("agentcap-guard", "0.1.0", "`cap.check` before it, in `budget`"),
    Peer("magicrails", "0.1.1", "`record_call` before it, in `Magicrails`"),
    Peer("loopguard", "0.2.0", "`@loopguard(max_repeats=3, window=60)`"),
    Peer("runbound", "0.11.2", '`@tool` in `session`, `init(on_anomaly="raise")`'),
    Peer("aura-guard", "0.7.1", "`@AgentGuard(...).protect`"),
    Peer("trajectory-fuse", "0.3.0", "`@guard` of `fuse_namespace(AgentFuse())`"),
    Peer("hermes-agent", "0.19.0", "`before_call` and `after_call`, as its executor does"),
]


def python_of(folder: Path, peer: Peer) -> Path:
    """Return the interpreter of a guard's environment; the floor shares ours."""
    where = folder / (OURS if peer.name == FLOOR else peer.name)
    return where / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def copy_of_ours(folder: Path) -> str:
    """Copy what the package is built from: the compiler leaves its libraries beside the sources."""
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    without = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT / "repeatguard_sdk", folder / "repeatguard_sdk", ignore=without)
    return str(folder)


def why_not(folder: Path, peer: Peer) -> str:
    """Make a guard's environment, unless it is there, and say why that could not be done."""
    if peer.name == FLOOR:
        return ""
    python = python_of(folder, peer)
    done = python.parent.parent / f"installed-{peer.version}"
    ours = peer.name in (OURS, INTERPRETED)
    if done.exists() and not ours:
        return ""
    if not python.exists():
        venv.create(python.parent.parent, with_pip=True)
    with tempfile.TemporaryDirectory() as copied:
        what = [copy_of_ours(Path(copied))] if ours else [f"{peer.name}=={peer.version}"]
        # From this tree as it is now, whatever the environment had before.
        again = ["--force-reinstall"] if ours else []
        compiled = {"HATCH_BUILD_HOOK_ENABLE_MYPYC": "1"} if peer.name == OURS else {}
        command = [str(python), "-m", "pip", "install", "--quiet", *again, *what]
        env = {**os.environ, **compiled}
        pip = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if pip.returncode:
        return "needs another Python" if "Requires-Python" in pip.stderr else "pip fails on it"
    done.touch()
    return ""


def measured(folder: Path, peer: Peer, calls: int) -> dict[str, Any] | None:
    """Measure one guard in its environment, away from the user's files."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "REPEATGUARD", "RUNBOUND", "HERMES", "AGENT", "AURA"))
    }
    command = [str(python_of(folder, peer)), str(WORKER.resolve())]
    with tempfile.TemporaryDirectory(dir=folder) as home:
        done = subprocess.run(
            [*command, OURS if peer.name == INTERPRETED else peer.name, str(calls)],
            env={**kept, "PYTHONDONTWRITEBYTECODE": "1", "HOME": home},
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


def table(peers: dict[Peer, str], took: dict[str, list[dict[str, Any]]], calls: int) -> None:
    """Print all rows, the quickest guard first, then those that could not be measured."""
    middle = {
        name: statistics.median(each["above"] for each in rounds) for name, rounds in took.items()
    }
    ours, least = middle[OURS], middle[FLOOR]
    bare = [each["bare"] for each in took[OURS]]
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"Python {python}, {calls:,} distinct calls; a bare call takes {spread(bare)} us.")
    print("The ratios are those of the microseconds above the bare call.\n")
    print("| guard | us a call above the bare one | x ours | x floor ", end="")
    print("| the same call again: 2nd / 3rd / 4th | us a repeat, all in all | used |")
    print("|---|---|---|---|---|---|---|")
    for peer in sorted(peers, key=lambda peer: middle.get(peer.name, float("inf"))):
        if peer.name in took:
            print(row(peer, took[peer.name], ours, least, calls))
        else:
            print(f"| {peer.name} {peer.version} | {peers[peer] or 'fails here'} | | | | | |")


def compare(folder: Path, peers: list[Peer], rounds: int, calls: int) -> None:
    """Install all guards, measure them in turn, and print the table."""
    with ThreadPoolExecutor(4) as pool:
        reasons = dict(zip(peers, pool.map(lambda peer: why_not(folder, peer), peers), strict=True))
    took: dict[str, list[dict[str, Any]]] = {}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for peer, reason in reasons.items():
            result = None if reason else measured(folder, peer, calls)
            if result is not None:
                took.setdefault(peer.name, []).append(result)
    table(reasons, took, calls)


def main() -> None:
    """Compare all guards, or those that were asked for."""
    parser = argparse.ArgumentParser(description="Compare guards of tool calls.")
    parser.add_argument("--folder", type=Path, help="keep the environments here")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--only", nargs="+", help="beside the floor and ours")
    asked = parser.parse_args()
    peers = [
        each
        for each in PEERS
        if not asked.only or each.name in (FLOOR, OURS, INTERPRETED, *asked.only)
    ]
    if asked.folder:
        asked.folder.mkdir(parents=True, exist_ok=True)
        compare(asked.folder.resolve(), peers, asked.rounds, asked.calls)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), peers, asked.rounds, asked.calls)


if __name__ == "__main__":
    main()
