"""What only FastMCP servers have: other middleware, mounted and renamed tools, its own transports."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastmcp")

import fastmcp
from fastmcp import Client, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.middleware import Middleware
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ArgTransform
from mcp import types

from integrations._servers import (
    Clock,
    Made,
    failed,
    on_localhost,
    post,
    structured_of,
    text_of,
)
from integrations.drivers.fastmcp import as_tool
from repeatguard_sdk import Registry, guarded_tool
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.integrations._server_runs import CALL_ID, RUN_ID
from repeatguard_sdk.integrations.fastmcp import RepeatGuardMiddleware
from repeatguard_sdk.integrations.mcp import guard

TESTS = Path(__file__).parent.parent
ToolResult: Any = getattr(fastmcp.tools, "ToolResult", None)
GENERATION = int(fastmcp.__version__.split(".")[0])
ENDED = "This task has ended"
NOTE = "--- repeatguard note"


class Shop:
    """A guarded server, and what became of its tools."""

    def __init__(self, *, before: Any = (), after: Any = (), **options: Any) -> None:
        self.registry = Registry()
        self.events = MemorySink()
        self.bodies: list[str] = []
        self.clock = Clock()
        self.guard = RepeatGuardMiddleware(registry=self.registry, events=self.events)
        self.guard._guarded.runs.clock = self.clock
        middleware = [*before, self.guard, *after]
        self.server: Any = FastMCP("shop", middleware=middleware, **options)
        declared: Callable[..., Any] = guarded_tool(registry=self.registry)

        @declared
        def look_up(word: str) -> str:
            """Look a word up."""
            self.bodies.append(word)
            return f"page of {word}"

        @declared
        def count(word: str) -> dict[str, int]:
            """Count the letters of a word."""
            self.bodies.append(word)
            return {"letters": len(word)}

        @declared
        def fail(word: str) -> str:
            """Fail."""
            self.bodies.append(word)
            msg = f"{word} is broken"
            raise LookupError(msg)

        def plain(word: str) -> dict[str, str]:
            """Say what nobody declared."""
            self.bodies.append(word)
            return {"plainly": word}

        for function in (look_up, count, fail, plain):
            self.server.add_tool(as_tool(Made(function)))

    @property
    def reasons(self) -> list[str]:
        return [run.reason for run in self.events.runs]


@pytest.fixture
def shop() -> Any:
    made = Shop()
    yield made
    made.guard.close()


async def call(client: Any, tool: str = "look_up", word: Any = "loop", **meta: Any) -> Any:
    return await client.call_tool_mcp(tool, {"word": word}, meta=meta or None)


def play(server: Any, script: Callable[[Any], Any]) -> Any:
    """Run a coroutine function with a client of a server in memory."""

    async def task() -> Any:
        async with Client(server) as client:
            return await script(client)

    return asyncio.run(task())


def test_a_process_is_a_run_and_rests(shop: Shop) -> None:
    """Without a run id the process is the run, until it has rested."""

    async def script(client: Any) -> list[bool]:
        found = [NOTE in text_of(await call(client)) for _ in range(2)]
        shop.clock.now += 300
        return [*found, NOTE in text_of(await call(client))]

    assert [False, True, False] == play(shop.server, script)
    assert ["completed"] == shop.reasons


def test_the_client_reads_data_of_a_replay(shop: Shop) -> None:
    """The client's own check of structured output passes for a replay, and `data` is the result."""

    async def script(client: Any) -> list[Any]:
        results = [await client.call_tool("count", {"word": "loop"}) for _ in range(3)]
        return [result.data for result in results]

    assert [{"letters": 4}] * 3 == play(shop.server, script)
    assert ["loop"] == shop.bodies


def test_an_undeclared_tool_is_replayed_whole(shop: Shop) -> None:
    """The result of a tool that nobody declared is rebuilt with its structured content."""

    async def script(client: Any) -> list[Any]:
        return [await call(client, "plain") for _ in range(3)]

    first, second, third = play(shop.server, script)
    assert structured_of(first) == structured_of(second) == structured_of(third)
    assert {"plainly": "loop"} == structured_of(third)
    assert [1, 2] == [len(first.content), len(second.content)]
    assert ["loop", "loop"] == shop.bodies


def test_an_ended_run_is_refused_with_tool_errors(shop: Shop) -> None:
    """After the end each answer is a tool error, which the client raises."""

    async def script(client: Any) -> str:
        for _ in range(3):
            await call(client, **{RUN_ID: "one"})
        with pytest.raises(ToolError, match=ENDED):
            await client.call_tool("look_up", {"word": "loop"}, meta={RUN_ID: "one"})
        return text_of(await call(client, "count", **{RUN_ID: "one"}))

    assert ENDED in play(shop.server, script)
    assert ["loop"] == shop.bodies


def test_an_unnamed_run_makes_place_for_the_next_task(shop: Shop) -> None:
    """After the end of an unnamed run another call begins a new run."""

    async def script(client: Any) -> list[bool]:
        looping = [failed(await call(client)) for _ in range(4)]
        return [*looping, failed(await call(client, word="other"))]

    assert [False, False, False, True, False] == play(shop.server, script)
    assert ["stuck"] == shop.reasons


def test_a_call_that_is_sent_again(shop: Shop) -> None:
    """Under one call id a call is no repeat."""

    async def script(client: Any) -> list[bool]:
        return [NOTE in text_of(await call(client, **{CALL_ID: "a"})) for _ in range(3)]

    assert [False] * 3 == play(shop.server, script)


def test_errors_are_raised_for_the_middleware_around() -> None:
    """What counts errors sees those of tools, and the text for the model stands behind them."""
    seen: list[str] = []

    class Counting(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            try:
                return await call_next(context)
            except ToolError as error:
                seen.append(str(error))
                raise

    shop = Shop(before=[Counting()])

    async def script(client: Any) -> list[str]:
        return [text_of(await call(client, "fail")) for _ in range(4)]

    texts = play(shop.server, script)
    assert texts == seen
    assert [False, True] == [NOTE in text for text in texts[:2]]
    assert ["loop"] * 2 == shop.bodies
    shop.guard.close()


def test_masked_errors_stay_masked() -> None:
    """Where the server keeps the text of errors back, the note holds none of it either."""
    shop = Shop(mask_error_details=True)

    async def script(client: Any) -> list[str]:
        return [text_of(await call(client, "fail")) for _ in range(3)]

    texts = play(shop.server, script)
    assert NOTE in texts[1]
    assert all(text.startswith("Error calling tool 'fail'") for text in texts)
    assert "is broken" not in texts[0]
    shop.guard.close()


def test_a_cache_behind_the_guard_is_noticed() -> None:
    """A middleware that answers from a cache goes past the tool's guard: told once, and counted."""
    kept: dict[str, Any] = {}

    class Caching(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            name = context.message.name
            if name not in kept:
                kept[name] = await call_next(context)
            return kept[name]

    shop = Shop(after=[Caching()])

    async def script(client: Any) -> list[bool]:
        return [NOTE in text_of(await call(client)) for _ in range(3)]

    assert [False, True, True] == play(shop.server, script)
    assert 1 == len(shop.events.warnings)
    assert "cache" in shop.events.warnings[0].what
    shop.guard.close()


def test_unknown_tools_and_bad_arguments_are_counted(shop: Shop) -> None:
    """Calls that reach no tool are counted as refused, and noted behind the server's own words."""

    async def script(client: Any) -> list[str]:
        texts = [text_of(await call(client, "look_down")) for _ in range(2)]
        bad = [await client.call_tool_mcp("look_up", {"wort": "x"}) for _ in range(2)]
        return [*texts, *map(text_of, bad)]

    texts = play(shop.server, script)
    assert [False, True, False, True] == [NOTE in text for text in texts]
    assert "Unknown tool" in texts[1]
    assert {"look_down", "look_up"} == {event.tool for event in shop.events.repeats}
    assert [] == shop.bodies


@pytest.mark.parametrize("prefixed", [True, False])
def test_tools_of_a_mounted_server(shop: Shop, prefixed: bool) -> None:
    """A declared tool of a mounted server is counted once, by its own rules and visible name."""
    inner, outer = shop.server, FastMCP("outer")
    around = RepeatGuardMiddleware(registry=shop.registry, events=shop.events)
    outer.add_middleware(around)
    inner.middleware.remove(shop.guard)
    outer.mount(inner, "inner") if prefixed else outer.mount(inner)
    name = "inner_look_up" if prefixed else "look_up"

    async def script(client: Any) -> list[str]:
        return [text_of(await call(client, name)) for _ in range(2)]

    assert f'{name}(word="loop") was already answered' in play(outer, script)[1]
    assert ["loop"] == shop.bodies
    assert not shop.events.warnings
    around.close()
    assert [2] == [run.calls for run in shop.events.runs]


def test_two_servers_that_are_both_guarded(shop: Shop) -> None:
    """A guard in the mounted server and one around it count a call once."""
    outer: Any = FastMCP("outer")
    around = RepeatGuardMiddleware(registry=shop.registry, events=shop.events)
    outer.add_middleware(around)
    outer.mount(shop.server)

    async def script(client: Any) -> list[str]:
        return [text_of(await call(client, tool)) for tool in ("look_up", "plain") for _ in "12"]

    texts = play(outer, script)
    assert [False, True] * 2 == [NOTE in text for text in texts]
    assert [1, 1] == [text.count(NOTE) for text in texts[1::2]]
    around.close()
    shop.guard.close()
    assert [4] == [run.calls for run in shop.events.runs if run.calls]


def test_a_tool_that_is_transformed(shop: Shop) -> None:
    """A declared tool under other names for itself and its parameter reaches its own guard."""

    async def prepare() -> None:
        tool = await shop.server.get_tool("look_up")

        renamed = {"word": ArgTransform(name="term")}
        shop.server.add_tool(Tool.from_tool(tool, name="search", transform_args=renamed))

    asyncio.run(prepare())

    async def script(client: Any) -> list[str]:
        results = [await client.call_tool_mcp("search", {"term": "loop"}) for _ in range(2)]
        return list(map(text_of, results))

    assert NOTE in play(shop.server, script)[1]
    assert ["loop"] == shop.bodies
    assert not shop.events.warnings


def test_no_tool_ends_the_server(shop: Shop) -> None:
    """Whatever a tool raises becomes a tool error, and the server goes on."""

    def leave(word: str) -> str:
        """Leave."""
        raise SystemExit(word)

    @guarded_tool(registry=shop.registry)
    async def drop(word: str) -> str:
        """Drop."""
        raise BaseException(word)

    for function in (leave, drop):
        shop.server.add_tool(as_tool(Made(function)))

    async def script(client: Any) -> list[bool]:
        tools = ("drop", "leave") * 3
        return [failed(await asyncio.wait_for(call(client, tool), 10)) for tool in tools]

    assert [True] * 6 == play(shop.server, script)


def test_a_call_from_the_server_itself(shop: Shop) -> None:
    """A call that no client has made is in the run of the process."""

    async def task() -> list[Any]:
        return [await shop.server.call_tool("look_up", {"word": "loop"}) for _ in range(2)]

    if GENERATION == 2:
        pytest.skip("fastmcp 2 has no such call")
    assert NOTE in text_of(asyncio.run(task())[1])
    assert ["loop"] == shop.bodies


@pytest.mark.skipif(GENERATION < 4, reason="before fastmcp 4 a result was an error by being raised")
def test_results_that_are_errors(shop: Shop) -> None:
    """A result that says its tool failed climbs the ladder of failures."""

    def broken(word: str) -> Any:
        """Break."""
        shop.bodies.append(word)
        return ToolResult(content="it is broken", is_error=True)

    shop.server.add_tool(as_tool(Made(broken)))

    async def script(client: Any) -> list[Any]:
        return [await call(client, "broken") for _ in range(4)]

    results = play(shop.server, script)
    assert all(map(failed, results))
    assert [False, True] == [NOTE in text_of(result) for result in results[:2]]
    assert ["loop", "loop"] == shop.bodies


@pytest.mark.skipif(GENERATION < 4, reason="before fastmcp 4 a tool asked in the middle of a call")
@pytest.mark.parametrize("declared", [True, False])
def test_a_tool_that_asks_its_client_first(shop: Shop, declared: bool) -> None:
    """A question to the client is no result: the answer comes, and then counts as the result."""
    form = {"type": "object", "properties": {"size": {"type": "string"}}}

    def order(word: str, context: Any) -> Any:
        """Order, once the size is known."""
        shop.bodies.append(word)
        if not context.input_responses:
            ask = types.ElicitRequest(
                params=types.ElicitRequestFormParams(message="Which size?", requested_schema=form)
            )
            return types.InputRequiredResult(input_requests={"size": ask}, request_state="1")
        return f"ordered {context.input_responses['size'].content['size']}"

    order.__annotations__.update(context=fastmcp.Context, word=str)
    tool = guarded_tool(registry=shop.registry)(order) if declared else order
    shop.server.add_tool(as_tool(Made(tool)))

    async def answer(*_: Any) -> Any:
        return ElicitResult(action="accept", content={"size": "L"})

    async def task() -> list[str]:
        async with Client(shop.server, elicitation_handler=answer) as client:
            return [text_of(await call(client, "order")) for _ in range(2)]

    texts = asyncio.run(task())
    assert ["ordered L", "ordered L"] == [text.partition("\n\n")[0] for text in texts]
    # Declared, the second is answered from store; otherwise it asks its client once more.
    assert declared is (NOTE in texts[1])
    assert (2 if declared else 4) == len(shop.bodies)
    assert not shop.events.warnings


def test_the_other_adapter_says_where_to_go() -> None:
    """A FastMCP of this package is no server for the adapter of the official SDK, nor is its subclass."""

    class Mine(FastMCP):
        pass

    for server in (FastMCP("shop"), Mine("shop")):
        with pytest.raises(TypeError, match=r"integrations\.fastmcp"):
            guard(server)


# -- real transports -------------------------------------------------------------------------------


class Tokens(TokenVerifier):
    """Takes any token for its holder's name."""

    async def verify_token(self, token: str) -> Any:
        return AccessToken(token=token, client_id=token, scopes=[])


def app_of(server: Any) -> Any:
    return server.http_app(path="/mcp", stateless_http=True, json_response=True)


def test_two_principals_over_http() -> None:
    """Each authenticated principal is in a run of its own, and no run id leads to another's."""
    shop = Shop(auth=Tokens())
    with on_localhost(app_of(shop.server)) as url:
        found = [
            NOTE in post(url, "look_up", {"word": "loop"}, token=token, meta=named)[0]
            for named in ({}, {RUN_ID: "one"})
            for token in ("ann", "bob", "ann", "bob")
        ]
    assert [False, False, True, True] * 2 == found
    assert 4 == len(shop.bodies)
    shop.guard.close()


def test_anonymous_clients_over_http(caplog: pytest.LogCaptureFixture) -> None:
    """Without authentication nothing is guarded but named runs, and the log says so once."""
    shop = Shop()
    with on_localhost(app_of(shop.server)) as url:
        caplog.set_level(logging.WARNING, "repeatguard_sdk")
        anonymous = [post(url, "look_up", {"word": "loop"}) for _ in range(4)]
        named = [post(url, "look_up", {"word": "x"}, meta={RUN_ID: "one"}) for _ in range(4)]
    assert [("page of loop", False)] * 4 == anonymous
    assert [False, True, True, True] == [NOTE in text for text, _ in named]
    assert [False, False, False, True] == [is_error for _, is_error in named]
    assert 1 == sum("not guarded" in record.message for record in caplog.records)
    shop.guard.close()


def test_the_real_client_over_http() -> None:
    """The framework's own client over HTTP names its run, and keeps it from call to call."""
    shop = Shop()

    async def task(url: str) -> list[bool]:
        async with Client(f"{url}/mcp") as client:
            texts = [text_of(await call(client, **{RUN_ID: "one"})) for _ in range(2)]
            return [NOTE in text for text in [*texts, text_of(await call(client))]]

    with on_localhost(shop.server.http_app(path="/mcp")) as url:
        assert [False, True, False] == asyncio.run(task(url))
    shop.guard.close()


def test_a_server_on_stdio() -> None:
    """A process is a run, and lives on whatever its tools raise."""
    places = [str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]
    transport = StdioTransport(
        command=sys.executable,
        args=["-W", "ignore", str(TESTS / "integrations" / "_fastmcp_stdio.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        keep_alive=False,
    )

    async def task() -> list[Any]:
        async with Client(transport) as client:
            results = [await call(client) for _ in range(2)]
            results += [await asyncio.wait_for(call(client, "leave"), 20) for _ in range(2)]
            return [*results, await call(client, word="new")]

    first, second, *ended, new = asyncio.run(task())
    assert "page of loop" == text_of(first)
    assert NOTE in text_of(second)
    assert all(map(failed, ended))
    assert "page of new" == text_of(new)
