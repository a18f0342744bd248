"""A FastMCP server under guard; needs no key, for a script plays an agent that goes in circles.

    pip install "repeatguard-sdk[fastmcp]"
    python examples/fastmcp_loop.py

The agent asks for the same over and over: the second call is answered from store, with what else there is
to do in a block behind the result; after the third the server refuses. For the next task the client names
another run, and the same call is executed again.
"""

from __future__ import annotations

import asyncio

from fastmcp import Client, FastMCP

from repeatguard_sdk import guarded_tool
from repeatguard_sdk.integrations.fastmcp import RepeatGuardMiddleware

server = FastMCP("shop", middleware=[RepeatGuardMiddleware()])


@server.tool
@guarded_tool(case_fold=["order_id"])
def track_order(order_id: str) -> str:
    """Ask the carrier for the scans of an order."""
    print(f"  (the carrier is asked for {order_id})")
    return "no scans recorded"


@server.tool
@guarded_tool(effect="final")
def escalate(summary: str) -> str:
    """Hand the case over to a person."""
    return "case 4711 opened"


async def task(client: Client, run_id: str, spellings: list[str]) -> None:
    """Play the tool calls of one task; its run is named in the `_meta` of each request."""
    for turn, order_id in enumerate(spellings):
        meta = {"repeatguard/run_id": run_id, "repeatguard/turn": turn}
        arguments = {"order_id": order_id}
        result = await client.call_tool("track_order", arguments, meta=meta, raise_on_error=False)
        print(f"{run_id}, {order_id!r}: {'tool error' if result.is_error else 'result'}")
        for block in result.content:
            print("   ", block.text.replace("\n", "\n    "))


async def main() -> None:
    """Play two tasks."""
    async with Client(server) as client:
        await task(client, "run-1", ["GB-1044", "gb-1044", " GB-1044 ", "GB-1044"])
        await task(client, "run-2", ["GB-1044"])


if __name__ == "__main__":
    asyncio.run(main())
