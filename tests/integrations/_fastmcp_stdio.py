"""A FastMCP server on stdio, for the tests to start."""

from __future__ import annotations

import sys

from fastmcp import FastMCP

from repeatguard_sdk import guarded_tool
from repeatguard_sdk.integrations.fastmcp import RepeatGuardMiddleware

server = FastMCP("shop", middleware=[RepeatGuardMiddleware()])


@server.tool
@guarded_tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"page of {word}"


@server.tool
def leave(word: str) -> str:
    """Try to end the process."""
    sys.exit(word)


if __name__ == "__main__":
    server.run(show_banner=False)
