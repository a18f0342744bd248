"""Servers of the official SDK, in memory."""

from __future__ import annotations

import threading
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import mcp
from mcp import types

from integrations._driver import Driver
from integrations._servers import NO_SERVER, ServerDriver
from repeatguard_sdk.integrations.mcp import guard as guard_server

try:
    from mcp.server import MCPServer as ServerOfFunctions
    from mcp.server.mcpserver import Context
except ImportError:  # mcp 1
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as ServerOfFunctions
    from mcp.shared.memory import create_connected_server_and_client_session

# Protects the filters of warnings, which all threads share.
_quietly = threading.Lock()


@asynccontextmanager
async def connected(server: Any) -> AsyncIterator[Any]:
    """Yield a client of a server in this process."""
    if hasattr(mcp, "Client"):
        async with mcp.Client(server) as client:
            yield client
    else:
        async with create_connected_server_and_client_session(server) as session:
            yield session


def new_server(**options: Any) -> Any:
    """Return a server of functions, of either generation of the SDK."""
    with _quietly, warnings.catch_warnings():
        # The settings of mcp 1, beside a newer pydantic-settings.
        warnings.simplefilter("ignore")
        return ServerOfFunctions("shop", **options)


class McpDriver(ServerDriver):
    """A server of functions, `MCPServer` or, in mcp 1, `FastMCP`."""

    name: ClassVar[str] = "mcp"
    adapter: ClassVar[str] = "mcp"
    distribution: ClassVar[str] = "mcp"
    cannot: ClassVar[Mapping[str, str]] = NO_SERVER

    def context_tool(self, guard: Callable[..., Any], body: Callable[[str], str]) -> Any:
        @guard
        def with_context(word: str, context: Context) -> str:  # type: ignore[type-arg]
            """Look at the context."""
            assert isinstance(context, Context)
            return body(word)

        # The SDK reads the hint in the module it stands in.
        with_context.__annotations__["context"] = Context
        return self.tool(with_context)

    @asynccontextmanager
    async def serving(self, tools: Sequence[Any], guard: Mapping[str, Any]) -> AsyncIterator[Any]:
        server = new_server()
        for made in tools:
            hints = made.annotations and types.ToolAnnotations.model_validate(made.annotations)
            server.add_tool(made.function, name=made.name, annotations=hints)
        guarded = guard_server(server, **guard)
        try:
            async with connected(server) as client:
                yield client
        finally:
            guarded.close()


DRIVERS: list[type[Driver]] = [McpDriver]
