"""FastMCP servers with the guard among their middleware, in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from fastmcp import Client, Context, FastMCP
from fastmcp.tools import Tool
from mcp import types

from integrations._driver import Driver
from integrations._servers import NO_SERVER, Made, ServerDriver, structured_of, text_of
from repeatguard_sdk.integrations.fastmcp import RepeatGuardMiddleware


class FastMcpDriver(ServerDriver):
    """A server of functions."""

    name: ClassVar[str] = "fastmcp"
    adapter: ClassVar[str] = "fastmcp"
    distribution: ClassVar[str] = "fastmcp"
    cannot: ClassVar[Mapping[str, str]] = NO_SERVER

    def context_tool(self, guard: Callable[..., Any], body: Callable[[str], str]) -> Any:
        def with_context(word: str, context) -> str:
            """Look at the context."""
            assert isinstance(context, Context)
            return body(word)

        # The framework reads the hint in the module it stands in.
        with_context.__annotations__["context"] = Context
        return self.tool(guard(with_context))

    @asynccontextmanager
    async def serving(self, tools: Sequence[Any], guard: Mapping[str, Any]) -> AsyncIterator[Any]:
        middleware = RepeatGuardMiddleware(**guard)
        server: Any = FastMCP("shop", middleware=[middleware])
        for made in tools:
            server.add_tool(as_tool(made))
        try:
            async with Client(server) as client:
                yield client
        finally:
            middleware.close()

    async def call(
        self, client: Any, tool: str, arguments: dict[str, Any], meta: dict[str, Any]
    ) -> tuple[str, Any]:
        result = await client.call_tool_mcp(tool, arguments, meta=meta)
        return text_of(result), structured_of(result)


def as_tool(made: Made) -> Any:
    """Return the framework's tool."""
    hints = made.annotations and types.ToolAnnotations.model_validate(made.annotations)
    return Tool.from_function(made.function, name=made.name, annotations=hints)


DRIVERS: list[type[Driver]] = [FastMcpDriver]
