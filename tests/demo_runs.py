"""Demo data for the report: some hundred real runs over small tools, with scripted agents.

    python tests/demo_runs.py page.html

Everything is drawn from one seed; only the run ids differ from time to time.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from repeatguard_sdk import Policy, Registry, Run, guarded_tool
from repeatguard_sdk.events import EventSink, MemorySink

DAY = 86_400.0
START = 1_788_220_800.0  # 2026-09-01
WEEKS = 8
POLICIES = {
    "options": Policy(),
    "bare": Policy(style="bare"),
    "advise": Policy(mode="advise"),
    "observe": Policy(mode="observe"),
}


class Clock:
    """A clock that moves when it is read."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


class Shop:
    """The tools of a small shop, one for each suspected cause, in a registry of their own."""

    def __init__(self, chance: random.Random) -> None:
        self.registry = Registry()
        self.status = 0
        tool: Callable[..., Any] = guarded_tool

        @tool(registry=self.registry, case_fold=["order_id"])
        def track_parcel(order_id: str) -> str:
            """Ask the carrier for the scans of a parcel."""
            return "no scans recorded"

        @tool(registry=self.registry, fields={"query": "text"})
        def search_policy(query: str) -> list[str]:
            """Search the shop's rules."""
            return []

        @tool(registry=self.registry)
        def get_invoice(order_id: str) -> str:
            """Fetch the invoice of an order."""
            msg = "invoice service: upstream timed out, please try again later"
            raise RuntimeError(msg)

        @tool(registry=self.registry, effect="write", money_fields=["amount"])
        def refund_order(order_id: str, amount: float) -> str:
            """Pay money back."""
            msg = "amount exceeds the refundable balance: at most 20.00 EUR"
            raise ValueError(msg)

        @tool(registry=self.registry, effect="unknown")
        def run_report(name: str) -> str:
            """Run a stored report."""
            return "Error: report type is not supported for this account"

        @tool(registry=self.registry)
        def get_stock(item: str) -> dict[str, Any]:
            """Look up how many of an item are left."""
            # Outside of what the guard can see it is sold now and then.
            return {"item": item, "left": chance.choice([3, 3, 3, 2])}

        @tool(registry=self.registry, effect="final")
        def escalate(summary: str) -> str:
            """Hand the case over to a person."""
            return "case opened"

        self.tools = {
            tool.__name__: tool
            for tool in (
                track_parcel,
                search_policy,
                get_invoice,
                refund_order,
                run_report,
                get_stock,
                escalate,
            )
        }


ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "track_parcel": [{"order_id": f"GB-10{number}"} for number in range(40, 60)],
    "search_policy": [{"query": text} for text in ("refund after opening", "gift wrap", "export")],
    "get_invoice": [{"order_id": f"GB-10{number}"} for number in range(40, 44)],
    "refund_order": [{"order_id": "GB-1044", "amount": amount} for amount in (50.0, 80.0)],
    "run_report": [{"name": name} for name in ("sales", "returns by week")],
    "get_stock": [{"item": item} for item in ("bench", "lamp")],
    "export_to_excel": [{"sheet": "orders"}],
    "escalate": [{"summary": "the customer wants to know where the parcel is"}],
}
# What the model reaches for; the one that is no tool is made up by it.
REACH = ["track_parcel"] * 9 + ["search_policy"] * 5 + ["get_invoice"] * 4 + ["refund_order"] * 4
REACH += ["run_report"] * 2 + ["get_stock"] * 4 + ["export_to_excel"] * 2
# How likely an agent is to let go of a call after a note, by policy. Made up.
LETS_GO = {"options": 0.8, "bare": 0.6, "advise": 0.75, "observe": 0.25}


def agent(chance: random.Random, lets_go: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls of an agent that finds it hard to let go of one."""
    for _ in range(chance.randint(1, 4)):
        name = chance.choice(REACH)
        arguments = chance.choice(ARGUMENTS[name])
        yield name, arguments
        if chance.random() < 0.35:
            yield name, arguments
            while chance.random() > lets_go:
                yield name, arguments
    if chance.random() < 0.3:
        yield "escalate", ARGUMENTS["escalate"][0]


def record(sink: EventSink, *, runs: int = 400, seed: int = 7) -> None:
    """Let the agents work, and give a sink what happens."""
    chance = random.Random(seed)
    shop = Shop(chance)
    for number in range(runs):
        name = chance.choice([*POLICIES, "options"])
        # Busier in some weeks than in others.
        clock = Clock(START + chance.triangular(0, WEEKS * 7, 20) * DAY)
        one_run(shop, sink, POLICIES[name], clock, agent(chance, LETS_GO[name]), number)


def one_run(
    shop: Shop,
    sink: EventSink,
    policy: Policy,
    clock: Clock,
    calls: Iterator[tuple[str, dict[str, Any]]],
    number: int,
) -> None:
    """Run one agent; every fortieth run breaks."""
    run = Run(shop.tools.values(), events=sink, policy=policy, clock=clock)
    try:
        with run:
            for name, arguments in calls:
                run.turn()
                try:
                    run.dispatch(name, arguments)
                except (RuntimeError, ValueError):
                    pass  # the model reads it
                run.observations()
            if number % 40 == 39:
                msg = "the host broke"
                raise ConnectionError(msg)
    except ConnectionError:
        pass


def sample(runs: int = 400, seed: int = 7) -> MemorySink:
    """Return the events of so many runs."""
    sink = MemorySink(100_000)
    record(sink, runs=runs, seed=seed)
    return sink


if __name__ == "__main__":
    from repeatguard_sdk.report import build_report
    from repeatguard_sdk.report.as_html import to_html

    made = sample()
    page = to_html(build_report(made.repeats, made.runs, max_turns=20))
    Path(sys.argv[1]).write_text(page, encoding="utf-8")
