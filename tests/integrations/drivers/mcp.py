"""Servers of the official SDK, in memory; its client makes the calls of a script in their order."""

from __future__ import annotations

import asyncio
import threading
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import attrs
import mcp
from mcp import types

from integrations._driver import Driver, Layout, Mode, Record, Step
from repeatguard_sdk.integrations._server_runs import CALL_ID, RUN_ID, TURN
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
# What no server can have, whoever made it.
NO_SERVER = {
    "sync": "a server runs in an event loop",
    "stream": "the result of a tool call comes in one piece",
    "loop": "the loop is the client's; a server can only refuse",
    "history": "the history is the client's",
    "resume": "the history is the client's",
    "messages": "a server sends results only",
    "bad_arguments": "what is no JSON stays in the client; what does not fit: see the server's own tests",
    "denied": "it is the client who asks a person",
}


@attrs.define
class Made:
    """A tool to be registered with the server of a run."""

    function: Callable[..., Any]
    name: str | None = None
    annotations: Mapping[str, Any] | None = None


class Pause(Exception):
    """Stands for what a host raises to leave a tool without an outcome."""


@asynccontextmanager
async def connected(server: Any) -> AsyncIterator[Any]:
    """Yield a client of a server in this process."""
    if hasattr(mcp, "Client"):
        async with mcp.Client(server) as client:
            yield client
    else:
        async with create_connected_server_and_client_session(server) as session:
            yield session


def layout_of(script: Sequence[Step]) -> Layout:
    """Return the layout a client's history has: all calls of a response, then all their results."""
    found: Layout = [("user", "")]
    for step in script:
        if isinstance(step, str):
            continue
        found += [("call", ask.call_id) for ask in step]
        found += [("result", ask.call_id) for ask in step]
    return found


class ServerDriver:
    """What the drivers of servers have in common."""

    def __init__(self) -> None:
        self.run_id = uuid.uuid4().hex

    def typed_tool(self, guard: Callable[..., Any], body: Callable[[str], dict[str, int]]) -> Any:
        @guard
        def typed(word: str) -> dict[str, int]:
            """Count the letters of a word."""
            return body(word)

        return self.tool(typed)

    def tool(self, function: Callable[..., Any], *, name: str | None = None) -> Any:
        return Made(function, name)

    def wrong_order(self, guard: Callable[..., Any], function: Callable[..., Any]) -> Any:
        made = self.tool(function)
        guard(function)  # the server's decorator has returned the function as it is
        return made

    def annotated_tool(self, function: Callable[..., Any], annotations: Mapping[str, Any]) -> Any:
        return Made(function, None, annotations)

    def pausing(self) -> type[Exception]:
        return Pause

    def run(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        mode: Mode = "async",
        user: str | None = "hello",
        history: Any = None,
        guard: Mapping[str, Any] | None = None,
    ) -> Record:
        return asyncio.run(self.play(tools, script, guard or {}))

    def retried(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        times: int,
        guard: Mapping[str, Any] | None = None,
    ) -> Record:
        return asyncio.run(self.play(tools, script, guard or {}, times))

    async def play(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        guard: Mapping[str, Any],
        times: int = 1,
    ) -> Record:
        record = Record(layout=layout_of(script), text="done")
        async with self.serving(tools, guard) as client:
            for turn, step in enumerate(script):
                if isinstance(step, str):
                    record.text = step
                    continue
                for _ in range(times):
                    asked = [self.ask(client, ask, turn) for ask in step]
                    for ask, (text, typed) in zip(step, await asyncio.gather(*asked), strict=True):
                        record.results[ask.call_id] = text
                        if typed is not None:
                            record.typed[ask.call_id] = typed
        return record

    async def ask(self, client: Any, ask: Any, turn: int) -> tuple[str, Any]:
        meta = {RUN_ID: self.run_id, TURN: turn, CALL_ID: ask.call_id}
        return await self.call(client, ask.tool, dict(ask.arguments), meta)

    def serving(self, tools: Sequence[Any], guard: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    async def call(
        self, client: Any, tool: str, arguments: dict[str, Any], meta: dict[str, Any]
    ) -> tuple[str, Any]:
        result = await client.call_tool(tool, arguments, meta=meta)
        texts = [block.text for block in result.content]
        return "\n\n".join(texts), structured_of(result)


def structured_of(result: Any) -> Any:
    """Return the structured content of a result, of either generation of the SDK."""
    names = ("structured_content", "structuredContent")
    return next((getattr(result, name) for name in names if hasattr(result, name)), None)


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
