"""A server of the official SDK on stdio, for the tests to start: `python _mcp_stdio.py FILE`.

What it sends to its sink goes to the file, a line each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from integrations.drivers.mcp import new_server
from repeatguard_sdk import guarded_tool
from repeatguard_sdk.events import RunRecord
from repeatguard_sdk.integrations.mcp import guard

server = new_server()
bodies: list[str] = []


@server.tool()
@guarded_tool
def look_up(word: str) -> str:
    """Look a word up."""
    bodies.append(word)
    return f"page of {word}, execution {len(bodies)}"


@server.tool()
def leave() -> str:
    """Try to end the process."""
    sys.exit("the end")


@server.tool()
@guarded_tool
def drop() -> str:
    """Try to end the process, under guard."""
    raise BaseException("dropped")


def write(event: Any) -> None:
    if isinstance(event, RunRecord):
        with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
            print(event.reason, event.calls, file=file)


if __name__ == "__main__":
    guard(server, events=write)
    server.run()
