"""An MCP server under guard; needs no key, for a script plays an agent that goes in circles.

    pip install "repeatguard-sdk[mcp]"
    python examples/mcp_loop.py

The server runs in a process of its own, on stdio. The agent asks for the same over and over: the second
call is answered from store, with what else there is to do in a block behind the result; after the third
the server refuses. For the next task the client names another run, and the same call is executed again.
"""

from __future__ import annotations

import asyncio
import os
import sys
import warnings

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from repeatguard_sdk import guarded_tool
from repeatguard_sdk.integrations.mcp import guard

try:
    from mcp.server import MCPServer
except ImportError:  # mcp 1
    from mcp.server.fastmcp import FastMCP as MCPServer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # mcp 1, beside a newer pydantic-settings
    server = MCPServer("shop")


@server.tool()
@guarded_tool(case_fold=["order_id"])
def track_order(order_id: str) -> str:
    """Ask the carrier for the scans of an order."""
    print(f"  (the carrier is asked for {order_id})", file=sys.stderr)
    return "no scans recorded"


@server.tool()
@guarded_tool(effect="final")
def escalate(summary: str) -> str:
    """Hand the case over to a person."""
    return "case 4711 opened"


guard(server)


async def task(session: ClientSession, run_id: str, spellings: list[str]) -> None:
    """Play the tool calls of one task; its run is named in the `_meta` of each request."""
    for turn, order_id in enumerate(spellings):
        meta = {"repeatguard/run_id": run_id, "repeatguard/turn": turn}
        result = await session.call_tool("track_order", {"order_id": order_id}, meta=meta)
        failed = getattr(result, "is_error", None) or getattr(result, "isError", None)
        print(f"{run_id}, {order_id!r}: {'tool error' if failed else 'result'}")
        for block in result.content:
            print("   ", block.text.replace("\n", "\n    "))


async def main() -> None:
    """Start the server, and play two tasks."""
    parameters = StdioServerParameters(
        command=sys.executable, args=[__file__, "serve"], env=dict(os.environ)
    )
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        await task(session, "run-1", ["GB-1044", "gb-1044", " GB-1044 ", "GB-1044"])
        await task(session, "run-2", ["GB-1044"])


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        server.run()
    else:
        asyncio.run(main())
