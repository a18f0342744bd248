"""An agent of openai-agents under guard; needs no key, for the framework's own scripted model plays.

    pip install "repeatguard-sdk[openai-agents]"
    python examples/openai_agents_loop.py

The model asks for the same over and over. The second call is answered from store, with the options that
are still open; after the third the agent's loop ends, before the model is asked again.
"""

from __future__ import annotations

import asyncio
import json

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from repeatguard_sdk import Run, guarded_tool
from repeatguard_sdk.integrations.openai_agents import RepeatGuard


@function_tool
@guarded_tool(case_fold=["order_id"])
def track_order(order_id: str) -> str:
    """Ask the carrier for the scans of an order."""
    print(f"  (the carrier is asked for {order_id})")
    return "no scans recorded"


@function_tool
@guarded_tool(effect="final")
def escalate(summary: str) -> str:
    """Hand the case over to a person."""
    return "case 4711 opened"


def spelled(order_id: str, number: int) -> list[object]:
    """Return a response that asks for an order."""
    arguments = json.dumps({"order_id": order_id})
    return [function_call("track_order", arguments, call_id=f"call_{number}")]


async def main() -> None:
    """Play two turns of the user in one session."""
    spellings = ("GB-1044", "gb-1044", " GB-1044 ")
    looping = [spelled(order_id, number) for number, order_id in enumerate(spellings)]
    model = ScriptedModel([*looping, [assistant_message("It has not been scanned yet.")]])
    agent = Agent(name="shop", model=model, tools=[track_order, escalate])
    session = SQLiteSession("shopper")
    quiet = RunConfig(tracing_disabled=True)
    guard = RepeatGuard()

    with Run() as run:
        await Runner.run(
            agent, "Where is my bench?", session=session, hooks=guard, run_config=quiet
        )
    for item in await session.get_items():
        print("  ", item.get("arguments") or item.get("output") or item.get("content"))
    assert run.outcome is not None
    print(f"\n{run.outcome.summary}\n")

    result = await Runner.run(
        agent, "Then tell me what you know.", session=session, hooks=guard, run_config=quiet
    )
    print("  ", result.final_output)
    session.close()


if __name__ == "__main__":
    asyncio.run(main())
