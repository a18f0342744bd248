"""How many instructions Python executes for a guarded call: a cost that no machine changes.

    python tests/benchmarks/instructions.py [--check | --write]

Counted are the instructions, and the functions entered, of repeatguard_sdk and of the code generated
for it (key functions, attrs, named tuples), in a fixed script after a warm-up; work done in C (hashing,
`str.strip`, wrapt) is not. `--check` compares them with `instructions.json`, kept by minor version of
Python, and exits with 1 if one grew by more than 5 %; `--write` keeps them. Counting under callgrind
was considered: opcodes need neither valgrind nor a build of it for each machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import repeatguard_sdk
from repeatguard_sdk import Registry, Run, guarded_tool

KEPT = Path(__file__).with_suffix(".json")
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
TOLERANCE = 0.05
PACKAGE = str(Path(repeatguard_sdk.__file__).parent) + os.sep
WARM = [f"SO-{number}" for number in range(64)]
CALLS = [f"SO-{number}" for number in range(1_000, 1_020)]
TOOLS = Registry()

Counts = dict[str, dict[str, float]]


def track(order_id: str, carrier: str, limit: int) -> str:
    """Track a parcel."""
    return "in transit since " + order_id


guard: Callable[..., Any] = guarded_tool
READ = guard(registry=TOOLS, case_fold=["order_id"])(track)
WRITE = guard(registry=TOOLS, name="write", effect="write")(track)
LIVE = guard(registry=TOOLS, name="live", effect="live")(track)


def is_ours(code: CodeType) -> bool:
    """Whether some code belongs to the package, or was generated for it."""
    name = code.co_filename
    return name.startswith(PACKAGE) or (name.startswith("<") and not name.startswith("<frozen"))


class Tracing:
    """Counts by `sys.settrace`, as Python 3.10 and 3.11 can."""

    opcodes = functions = 0

    def __enter__(self) -> None:
        sys.settrace(self._entered)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or not is_ours(frame.f_code):
            return None
        self.functions += 1
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._inside

    def _inside(self, _frame: FrameType, event: str, _: Any) -> Any:
        self.opcodes += event == "opcode"
        return self._inside


class Monitoring:
    """Counts by `sys.monitoring`, as Python 3.12 can; its `settrace` misses opcodes at first."""

    opcodes = functions = 0

    def __init__(self) -> None:
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]

    def __enter__(self) -> None:
        of, tool = self._monitoring, self._monitoring.PROFILER_ID
        of.use_tool_id(tool, "instructions")
        of.register_callback(tool, of.events.INSTRUCTION, self._executed)
        of.register_callback(tool, of.events.PY_START, self._entered)
        of.register_callback(tool, of.events.PY_RESUME, self._entered)
        of.set_events(tool, of.events.INSTRUCTION | of.events.PY_START | of.events.PY_RESUME)

    def __exit__(self, *_: object) -> None:
        self._monitoring.set_events(self._monitoring.PROFILER_ID, 0)
        self._monitoring.free_tool_id(self._monitoring.PROFILER_ID)

    def _executed(self, code: CodeType, _offset: int) -> None:
        self.opcodes += is_ours(code)

    def _entered(self, code: CodeType, _offset: int) -> None:
        self.functions += is_ours(code)


def call(tool: Any, ids: list[str]) -> None:
    """Call a tool with each of some arguments."""
    for order_id in ids:
        tool(order_id=order_id, carrier="DHL", limit=5)


def counted(tool: Any, ids: list[str]) -> dict[str, float]:
    """Return what one of these calls takes."""
    counter = Monitoring() if sys.version_info >= (3, 12) else Tracing()
    with counter:
        call(tool, ids)
    return {
        "opcodes": round(counter.opcodes / len(ids), 2),
        "functions": round(counter.functions / len(ids), 2),
    }


def script() -> Counts:
    """Make each kind of call: some to warm up, then the counted ones."""
    counts: Counts = {}
    call(READ, WARM)
    counts["outside a run"] = counted(READ, CALLS)
    with Run(registry=TOOLS):
        call(READ, WARM)
        counts["first call"] = counted(READ, CALLS)
    with Run(registry=TOOLS):
        call(READ, WARM + CALLS + WARM)
        counts["replay"] = counted(READ, CALLS)
    with Run(registry=TOOLS):
        call(LIVE, ["SO-1"] * len(WARM))
        counts["live, again and again"] = counted(LIVE, ["SO-1"] * len(CALLS))
    with Run(registry=TOOLS):
        call(WRITE, WARM)
        counts["write"] = counted(WRITE, CALLS)
    return counts


def measure() -> Counts:
    """Return the counts of the script's second time, which a third has to confirm."""
    gc.disable()
    script()
    counts, again = script(), script()
    if counts != again:
        sys.exit(f"not repeatable: {counts} and then {again}")
    return counts


def table(counts: Counts, kept: Counts) -> None:
    """Print the counts of one call, beside those kept if there are any."""
    print(f"Python {VERSION}, one call          opcodes  functions   kept: opcodes  functions")
    for name, of in counts.items():
        line = f"{name:<30}  {of['opcodes']:9.2f}  {of['functions']:9.2f}"
        before = kept.get(name)
        if before:
            line += f"       {before['opcodes']:9.2f}  {before['functions']:9.2f}"
        print(line)


def grown(counts: Counts, kept: Counts) -> list[str]:
    """Return a line for each count above the one kept, by more than the tolerance."""
    return [
        f"{name:<24} {what:<10} {kept[name][what]:9.2f} -> {now:9.2f}  {now - kept[name][what]:+.2f}"
        for name, of in counts.items()
        for what, now in of.items()
        if now > kept[name][what] * (1 + TOLERANCE)
    ]


def check(counts: Counts, kept: Counts) -> int:
    """Say what grew, and return the exit status."""
    if set(kept) != set(counts):
        print(f"\nnot kept for Python {VERSION}, or not this script: run with --write")
        return 1
    lines = grown(counts, kept)
    print("\n" + "\n".join(lines or [f"nothing grew by more than {TOLERANCE:.0%}"]))
    return 1 if lines else 0


def main() -> int:
    """Print the counts; compare or keep them."""
    parser = argparse.ArgumentParser(description="Count the instructions of guarded calls.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="exit with 1 if a count grew")
    what.add_argument("--write", action="store_true", help="keep the counts of this Python")
    asked = parser.parse_args()
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    counts = measure()
    table(counts, kept.get(VERSION, {}))
    if asked.write:
        kept[VERSION] = counts
        KEPT.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", "utf-8")
    return check(counts, kept.get(VERSION, {})) if asked.check else 0


def settled() -> dict[str, str]:
    """Return the environment without what could change the counts: hash seeds, the mode."""
    kept = {name: value for name, value in os.environ.items() if name != "REPEATGUARD_MODE"}
    return {**kept, "PYTHONHASHSEED": "0"}


if __name__ == "__main__":
    if os.environ != settled():
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=settled(), check=False).returncode)
    sys.exit(main())
