"""What the drivers of servers have in common: the client makes the calls of a script in their order."""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from integrations._driver import Layout, Mode, Record, Step
from repeatguard_sdk.integrations._server_runs import CALL_ID, RUN_ID, TURN

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
        return text_of(result), structured_of(result)


def structured_of(result: Any) -> Any:
    """Return the structured content of a result, of either generation of the SDK."""
    return _of(result, "structured_content", "structuredContent")


def failed(result: Any) -> bool:
    """Tell whether a result is a tool error, of either generation of the SDK."""
    return bool(_of(result, "is_error", "isError"))


def text_of(result: Any) -> str:
    """Return the blocks of a result as one text."""
    return "\n\n".join(block.text for block in result.content)


def _of(result: Any, *names: str) -> Any:
    return next(getattr(result, name) for name in names if hasattr(result, name))


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def on_localhost(app: Any) -> Iterator[str]:
    """Serve an application in a thread, and yield its address."""
    uvicorn: Any = importlib.import_module("uvicorn")
    config = uvicorn.Config(app, port=0, log_level="error", ws="none", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        give_up = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < give_up, "the server does not start"
            time.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


def post(
    url: str,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    token: str = "",
    meta: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[str, bool]:
    """Call a tool of a server without sessions over HTTP; return the text and whether it failed."""
    params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
    if meta is not None:
        params["_meta"] = dict(meta)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    request = urllib.request.Request(f"{url}/mcp", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Accept", "application/json, text/event-stream")
    request.add_header("MCP-Protocol-Version", "2025-06-18")
    for name, value in (headers or {}).items():
        request.add_header(name, value)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=20) as response:
        result = json.load(response)["result"]
    text = "\n\n".join(block["text"] for block in result["content"])
    return text, bool(result.get("isError"))
