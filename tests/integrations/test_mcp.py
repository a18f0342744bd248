"""What only servers of the official MCP SDK have: whose run a call is in, its end, real transports."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import mcp
from mcp import types
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server import Server

from integrations._servers import Clock, failed, on_localhost, post, structured_of, text_of
from integrations.drivers.mcp import Context, connected, new_server
from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.integrations._server_runs import CALL_ID, RUN_ID, TURN
from repeatguard_sdk.integrations.mcp import guard

TESTS = Path(__file__).parent.parent
TWO = not hasattr(Server, "call_tool")
ENDED = "This task has ended"
NOTE = "--- repeatguard note"


class Shop:
    """A guarded server, and what became of its tools."""

    def __init__(self, server: Any = None, **options: Any) -> None:
        self.registry = Registry()
        self.events = MemorySink()
        self.bodies: list[str] = []
        self.server = new_server() if server is None else server
        declared: Callable[..., Any] = guarded_tool(registry=self.registry)

        @self.server.tool()
        @declared
        def look_up(word: str) -> str:
            """Look a word up."""
            self.bodies.append(word)
            return f"page of {word}"

        @self.server.tool()
        @declared
        def count(word: str) -> dict[str, int]:
            """Count the letters of a word."""
            self.bodies.append(word)
            return {"letters": len(word)}

        @self.server.tool()
        def plain(word: str) -> str:
            """Say what nobody declared."""
            self.bodies.append(word)
            return f"plainly {word}"

        self.clock = Clock()
        self.guard = guard(self.server, registry=self.registry, events=self.events, **options)
        self.guard._guarded.runs.clock = self.clock

    @property
    def reasons(self) -> list[str]:
        return [run.reason for run in self.events.runs]


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    yield made
    made.guard.close()


async def call(client: Any, tool: str = "look_up", word: Any = "loop", **meta: Any) -> Any:
    return await client.call_tool(tool, {"word": word}, meta=meta or None)


def play(server: Any, script: Callable[[Any], Any]) -> Any:
    """Run a coroutine function with a client of a server in memory."""

    async def task() -> Any:
        async with connected(server) as client:
            return await script(client)

    return asyncio.run(task())


# -- whose run it is -------------------------------------------------------------------------------


def test_without_http_the_run_is_the_process(shop: Shop) -> None:
    """Two clients of a process that say nothing of a run are in one."""

    async def script(client: Any) -> str:
        return text_of(await call(client))

    assert "page of loop" == play(shop.server, script)
    assert NOTE in play(shop.server, script)
    assert ["loop"] == shop.bodies


def test_runs_that_are_named_do_not_meet(shop: Shop) -> None:
    """Two run ids of one client count apart."""

    async def script(client: Any) -> list[str]:
        return [
            text_of(await call(client, **{RUN_ID: run_id}))
            for run_id in ("one", "two", "one", "two")
        ]

    texts = play(shop.server, script)
    assert ["loop", "loop"] == shop.bodies
    assert [False, False, True, True] == [NOTE in text for text in texts]


@pytest.mark.parametrize("run_id", ["", "x" * 201, True, ["one"], {"a": 1}])
def test_a_run_id_that_can_be_none_is_ignored(shop: Shop, run_id: Any) -> None:
    """What is no short text names no run, and the call is in the run of the process."""

    async def script(client: Any) -> str:
        await call(client)
        return text_of(await call(client, **{RUN_ID: run_id}))

    assert NOTE in play(shop.server, script)


def test_an_ended_run_that_was_named_stays_ended(shop: Shop) -> None:
    """Once stuck, a named run executes nothing more, and each answer is a tool error with its outcome."""

    async def script(client: Any) -> list[Any]:
        meta = {RUN_ID: "one"}
        looping = [await call(client, **meta) for _ in range(4)]
        return [*looping, await call(client, word="other", **meta)]

    *_, third, fourth, other = play(shop.server, script)
    assert not failed(third)
    assert failed(fourth)
    assert text_of(fourth).startswith("page of loop\n\n" + NOTE)
    assert ENDED in text_of(fourth)
    assert failed(other)
    assert ENDED in text_of(other)
    assert ["loop"] == shop.bodies


def test_an_unnamed_run_makes_place_for_the_next_task(shop: Shop) -> None:
    """After the end of an unnamed run the same call is refused, and another one begins a new run."""

    async def script(client: Any) -> list[Any]:
        looping = [await call(client) for _ in range(5)]
        return [*looping, await call(client, word="other"), await call(client)]

    *_, fifth, other, again = play(shop.server, script)
    assert failed(fifth)
    assert "page of other" == text_of(other)
    assert "page of loop" == text_of(again)
    assert ["loop", "other", "loop"] == shop.bodies
    assert ["stuck"] == shop.reasons


def test_a_repeat_in_other_spelling_makes_no_place() -> None:
    """What counts as the same call by the tool's rules does not begin a new run."""
    server = new_server()
    registry, bodies = Registry(), []

    @server.tool()
    @guarded_tool(case_fold=["order_id"], registry=registry)
    def track(order_id: str) -> str:
        """Track an order."""
        bodies.append(order_id)
        return "no scans recorded so far"

    guarded = guard(server, registry=registry)

    async def script(client: Any) -> None:
        for order_id in ("GB-1", "gb-1", " GB-1", "Gb-1", "gB-1"):
            await client.call_tool("track", {"order_id": order_id})

    play(server, script)
    guarded.close()
    assert ["GB-1"] == bodies


def test_a_run_that_rests_is_closed(shop: Shop) -> None:
    """After the idle time the same call runs again, and the record of the run was sent."""

    async def script(client: Any) -> str:
        await call(client)
        shop.clock.now += 300
        return text_of(await call(client))

    assert "page of loop" == play(shop.server, script)
    assert ["completed"] == shop.reasons


def test_who_only_repeats_does_not_prolong_an_ended_run(shop: Shop) -> None:
    """A run that is over rests from its end on, however often it is asked."""

    async def script(client: Any) -> list[bool]:
        for _ in range(3):
            await call(client)
        found = []
        for _ in range(4):
            shop.clock.now += 100
            found.append(failed(await call(client)))
        return found

    assert [True, True, False, False] == play(shop.server, script)


def test_an_unnamed_run_does_not_last(shop: Shop) -> None:
    """A busy process gets a new run after the longest time; a named run goes on."""

    async def script(client: Any) -> list[bool]:
        for _ in range(7):
            shop.clock.now += 100
            await call(client, word=str(shop.clock.now))
            await call(client, word=str(shop.clock.now), **{RUN_ID: "one"})
        first = "100.0"
        return [
            NOTE in text_of(await call(client, word=first, **meta))
            for meta in ({}, {RUN_ID: "one"})
        ]

    assert [False, True] == play(shop.server, script)


def test_the_number_of_runs_is_bounded(shop: Shop) -> None:
    """Beyond the limit the run that was called longest ago is closed."""
    shop.guard._guarded.runs._limit = 3

    async def script(client: Any) -> None:
        for number in range(10):
            await call(client, **{RUN_ID: number})

    play(shop.server, script)
    assert 3 == len(shop.guard._guarded.runs)
    assert ["completed"] * 7 == shop.reasons


def test_a_resting_run_is_closed_though_nobody_calls() -> None:
    """The record of a run is sent when the idle time is over, also on a server nobody calls."""
    shop = Shop(idle=0.05)
    shop.guard._guarded.runs.clock = time.monotonic

    async def script(client: Any) -> None:
        await call(client)
        for _ in range(100):
            if shop.reasons:
                break
            await asyncio.sleep(0.05)

    play(shop.server, script)
    assert ["completed"] == shop.reasons


@pytest.mark.parametrize("option", [{"idle": 0}, {"longest": -1}, {"idle": True}])
def test_times_are_checked(option: dict[str, Any]) -> None:
    """A time that is none is an error that names it."""
    with pytest.raises(ValueError, match=next(iter(option))):
        guard(new_server(), **option)


def test_a_server_sends_no_messages() -> None:
    """Observations as messages are rejected where the guard is made."""
    with pytest.raises(ValueError, match='write "result"'):
        guard(new_server(), deliver="messages")


# -- turns, retries, twins -------------------------------------------------------------------------


def test_a_client_marks_the_calls_of_a_response(shop: Shop) -> None:
    """Equal calls with one mark are one call, though they come one after the other."""

    async def script(client: Any) -> list[bool]:
        texts = [text_of(await call(client, **{TURN: turn})) for turn in (1, 1, 1, 2)]
        return [NOTE in text for text in texts]

    assert [False, False, False, True] == play(shop.server, script)


def test_a_call_that_is_sent_again(shop: Shop) -> None:
    """Under one call id a call is no repeat."""

    async def script(client: Any) -> list[bool]:
        texts = [text_of(await call(client, **{CALL_ID: "a"})) for _ in range(4)]
        return [NOTE in text for text in texts]

    assert [False] * 4 == play(shop.server, script)
    assert ["loop"] == shop.bodies


def test_twins_in_flight_are_one_call() -> None:
    """Without marks, equal calls in flight at once run once, and none is a repeat."""
    server = new_server()
    registry, events, bodies = Registry(), MemorySink(), []

    @server.tool()
    @guarded_tool(registry=registry)
    async def fetch(word: str) -> str:
        """Fetch."""
        bodies.append(word)
        await asyncio.sleep(0.3)
        return f"fetched {word}"

    guarded = guard(server, registry=registry, events=events)

    async def script(client: Any) -> list[str]:
        results = await asyncio.gather(*(call(client, "fetch") for _ in range(4)))
        return [text_of(result) for result in results]

    assert ["fetched loop"] * 4 == play(server, script)
    assert ["loop"] == bodies
    assert not events.repeats
    guarded.close()


@pytest.mark.skipif(not TWO, reason="a client of mcp 1 does not tell that it has given a call up")
def test_a_call_that_is_given_up_counts_for_nothing() -> None:
    """The client cancels a call, and the next equal one executes."""
    server = new_server()
    registry, bodies = Registry(), []
    begun = asyncio.Event()

    @server.tool()
    @guarded_tool(registry=registry)
    async def fetch(word: str) -> str:
        """Fetch."""
        bodies.append(word)
        begun.set()
        if len(bodies) == 1:
            await asyncio.sleep(30)
        return f"fetched {word}"

    guarded = guard(server, registry=registry)

    async def script(client: Any) -> str:
        task = asyncio.ensure_future(call(client, "fetch"))
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return text_of(await asyncio.wait_for(call(client, "fetch"), 10))

    assert "fetched loop" == play(server, script)
    assert 2 == len(bodies)
    guarded.close()


# -- results ---------------------------------------------------------------------------------------


def test_structured_content_stays_valid(shop: Shop) -> None:
    """A replay has the structured content of the first result, and the note is a block of its own."""

    async def script(client: Any) -> list[Any]:
        return [await call(client, "count") for _ in range(4)]

    first, second, third, fourth = play(shop.server, script)
    assert {"letters": 4} == structured_of(first) == structured_of(second) == structured_of(third)
    assert [1, 2] == [len(first.content), len(second.content)]
    assert second.content[1].text.startswith(NOTE)
    assert failed(fourth)


def test_a_sentence_is_no_structured_result(shop: Shop) -> None:
    """A call after the end that has no result in store is a tool error, not a broken result."""

    async def script(client: Any) -> Any:
        for _ in range(3):
            await call(client, "count", **{RUN_ID: "one"})
        return await call(client, "count", "new", **{RUN_ID: "one"})

    result = play(shop.server, script)
    assert failed(result)
    assert ENDED in text_of(result)
    assert ["loop"] == shop.bodies


def test_arguments_that_do_not_fit_are_counted(shop: Shop) -> None:
    """A call whose arguments the server rejects is counted as refused and noted."""

    async def script(client: Any) -> list[Any]:
        return [await client.call_tool("look_up", {"wort": "x"}) for _ in range(3)]

    results = play(shop.server, script)
    assert all(map(failed, results))
    assert [False, True] == [NOTE in text_of(result) for result in results[:2]]
    assert {"look_up"} == {event.tool for event in shop.events.repeats}
    assert [] == shop.bodies


def test_a_tool_that_is_added_later_is_guarded(shop: Shop) -> None:
    """A tool that joins the server while a run is open is known at its first call, and an option."""

    async def script(client: Any) -> list[str]:
        await call(client)

        @shop.server.tool()
        @guarded_tool(registry=shop.registry)
        def late(word: str) -> str:
            """Come late."""
            shop.bodies.append(f"late {word}")
            return f"late {word} comes"

        return [text_of(await call(client, "late")) for _ in range(2)]

    assert [False, True] == [NOTE in text for text in play(shop.server, script)]
    assert ["loop", "late loop"] == shop.bodies


def test_no_tool_ends_the_server() -> None:
    """Whatever a tool raises becomes a tool error, and the server goes on."""
    server = new_server()
    registry = Registry()

    @server.tool()
    @guarded_tool(registry=registry)
    def drop(word: str) -> str:
        """Drop."""
        raise BaseException(word)

    @server.tool()
    def leave(word: str) -> str:
        """Leave."""
        raise SystemExit(word)

    guarded = guard(server, registry=registry)

    async def script(client: Any) -> list[bool]:
        tools = ("drop", "leave") * 4
        return [failed(await asyncio.wait_for(call(client, tool), 10)) for tool in tools]

    assert [True] * 8 == play(server, script)
    guarded.close()


def test_a_fault_of_the_guard_lets_calls_through(caplog: pytest.LogCaptureFixture) -> None:
    """Where the guard itself fails the tool is called as if it were not there."""

    class Broken:
        def get_tool(self, name: str) -> Any:
            raise LookupError("broken")

    shop = Shop()
    shop.guard._tools = Broken()

    async def script(client: Any) -> list[str]:
        return [text_of(await call(client)) for _ in range(4)]

    with caplog.at_level(logging.CRITICAL, "repeatguard_sdk"):
        assert ["page of loop"] * 4 == play(shop.server, script)
    assert 4 == len(shop.bodies)
    shop.guard.close()


def test_a_host_in_the_same_process_has_its_own_run(shop: Shop) -> None:
    """In memory, inside a block of the host, the calls are those of its run."""

    async def task() -> str:
        with Run(registry=shop.registry, on_stuck="flag") as run:
            async with connected(shop.server) as client:
                for _ in range(2):
                    text = text_of(await call(client))
            assert 2 == run.calls
        return text

    assert NOTE in asyncio.run(task())
    assert 0 == len(shop.guard._guarded.runs)


# -- which servers ---------------------------------------------------------------------------------


def low_level(bodies: list[str], registry: Registry) -> Any:
    """Return a low-level server with a declared tool and one that only its annotations describe."""

    @guarded_tool(registry=registry)
    def look_up(word: str) -> str:
        bodies.append(f"look_up {word}")
        return f"page of {word}"

    def run(name: str, arguments: dict[str, Any]) -> list[Any]:
        if name == "look_up":
            text = look_up(**arguments)
        else:
            bodies.append(f"{name} {arguments['word']}")
            text = f"{name}: {arguments['word']}"
        return [types.TextContent(type="text", text=text)]

    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    hints = {"readOnlyHint": True, "openWorldHint": False}
    tools = [
        types.Tool.model_validate(
            {"name": name, "description": name, "inputSchema": schema, "annotations": hint}
        )
        for name, hint in (("look_up", None), ("read", hints), ("act", None))
    ]
    if TWO:

        async def listing(ctx: Any, params: Any) -> Any:
            return types.ListToolsResult(tools=tools)

        async def calling(ctx: Any, params: Any) -> Any:
            return types.CallToolResult(content=run(params.name, params.arguments))

        return Server("low", on_list_tools=listing, on_call_tool=calling)
    server: Any = Server("low")

    @server.list_tools()
    async def list_tools() -> list[Any]:
        return tools

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[Any]:
        return run(name, arguments)

    return server


def test_a_low_level_server() -> None:
    """A low-level server is guarded by what it lists: declared, annotated and other tools."""
    bodies: list[str] = []
    registry, events = Registry(), MemorySink()
    server = low_level(bodies, registry)
    guarded = guard(server, registry=registry, events=events)

    async def script(client: Any) -> list[str]:
        names = ("look_up", "read", "act")
        return [text_of(await call(client, name)) for name in names for _ in range(2)]

    texts = play(server, script)
    assert ["look_up loop", "read loop", "act loop", "act loop"] == bodies
    assert [False, True] * 3 == [NOTE in text for text in texts]
    assert not events.warnings
    guarded.close()


@pytest.mark.skipif(not TWO, reason="the handler of mcp 1 has all tools in one page")
def test_tools_that_are_listed_in_pages() -> None:
    """A low-level server is asked for all pages of its tools, and their annotations hold."""
    hints = {"readOnlyHint": True, "openWorldHint": False}
    bodies: list[str] = []

    async def listing(ctx: Any, params: Any) -> Any:
        page = int((params and params.cursor) or 0)
        schema = {"type": "object"}
        tool = {"name": f"tool{page}", "inputSchema": schema, "annotations": hints}
        more = str(page + 1) if page < 2 else None
        return types.ListToolsResult.model_validate({"tools": [tool], "nextCursor": more})

    async def calling(ctx: Any, params: Any) -> Any:
        bodies.append(params.name)
        return types.CallToolResult(content=[types.TextContent(type="text", text="page of it")])

    server = Server("low", on_list_tools=listing, on_call_tool=calling)
    guarded = guard(server)

    async def script(client: Any) -> str:
        return [text_of(await call(client, "tool2")) for _ in range(2)][1]

    assert "- tool0" in play(server, script)
    assert ["tool2"] == bodies
    guarded.close()


def test_a_server_is_guarded_once(shop: Shop) -> None:
    """A second guard would count each call twice."""
    with pytest.raises(ValueError, match="once"):
        guard(shop.server)


def test_what_is_no_server_is_rejected() -> None:
    """The error says what can be given."""
    with pytest.raises(TypeError, match="give an MCPServer"):
        guard(object())


def test_values_that_are_none_reach_the_client(shop: Shop) -> None:
    """What a result holds is sent as it is, also where it is nothing."""

    @shop.server.tool()
    def sparse(word: str, size: int | None = 3) -> dict[str, int | None]:
        """Say what is missing."""
        return {"size": size, "missing": None}

    async def script(client: Any) -> list[Any]:
        asked = {"word": "loop", "size": None}
        return [structured_of(await client.call_tool("sparse", asked)) for _ in range(3)]

    assert [{"size": None, "missing": None}] * 3 == play(shop.server, script)


@pytest.mark.skipif(TWO, reason="mcp 2 has middleware, which may come first")
def test_a_low_level_server_needs_its_handler_first() -> None:
    """In mcp 1 the guard takes the place of a handler that has to be there."""
    with pytest.raises(ValueError, match="no tools yet"):
        guard(Server("low"))


@pytest.mark.skipif(not TWO, reason="mcp 1 asks the client in the middle of a call")
def test_a_tool_that_asks_its_client_first() -> None:
    """A question to the client is no result: the answer comes, and a repeat is answered from store."""
    server = new_server()
    registry, bodies = Registry(), []
    form = {"type": "object", "properties": {"size": {"type": "string"}}}

    def order(word: str, context: Any) -> Any:
        """Order, once the size is known."""
        bodies.append(word)
        if not context.input_responses:
            ask = types.ElicitRequest(
                params=types.ElicitRequestFormParams(message="Which size?", requested_schema=form)
            )
            return types.InputRequiredResult(input_requests={"size": ask}, request_state="1")
        return f"ordered {context.input_responses['size'].content['size']}"

    order.__annotations__.update(context=Context, word=str)
    order.__annotations__["return"] = str | types.InputRequiredResult
    server.tool()(guarded_tool(registry=registry)(order))
    guarded = guard(server, registry=registry)

    async def answer(context: Any, params: Any) -> Any:
        return types.ElicitResult(action="accept", content={"size": "L"})

    async def task() -> list[str]:
        async with mcp.Client(server, elicitation_callback=answer) as client:
            return [text_of(await call(client, "order")) for _ in range(2)]

    first, second = asyncio.run(task())
    assert "ordered L" == first
    assert second.startswith("ordered L")
    assert NOTE in second
    assert 2 == len(bodies)
    guarded.close()


# -- real transports -------------------------------------------------------------------------------


@asynccontextmanager
async def on_stdio(sink: Path) -> AsyncIterator[Any]:
    """Yield a client of a server in a process of its own."""
    places = [str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[str(TESTS / "integrations" / "_mcp_stdio.py"), str(sink)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
    )
    if TWO:
        async with mcp.Client(stdio_client(parameters)) as client:
            yield client
        return
    async with stdio_client(parameters) as (read, write), mcp.ClientSession(read, write) as session:
        await session.initialize()
        yield session


def test_a_server_on_stdio(tmp_path: Path) -> None:
    """A process is a run, lives on whatever its tools raise, and sends its record at its end."""
    sink = tmp_path / "records"

    async def task() -> list[Any]:
        async with on_stdio(sink) as client:
            results = [await call(client) for _ in range(2)]
            for tool in ("leave", "drop", "leave", "drop"):
                results.append(await asyncio.wait_for(client.call_tool(tool, {}), 20))
            results.append(await call(client, word="new"))
            return [*results, await call(client, **{RUN_ID: "one"})]

    first, second, *ended, new, named = asyncio.run(task())
    assert "page of loop, execution 1" == text_of(first)
    assert text_of(second).startswith("page of loop, execution 1\n\n" + NOTE)
    assert all(map(failed, ended))
    assert "page of new, execution 2" == text_of(new)
    assert "page of loop, execution 3" == text_of(named)
    records = sink.read_text(encoding="utf-8").splitlines()
    assert ["completed", "completed"] == [line.split()[0] for line in records]


class Tokens:
    """Takes any token for its holder's name."""

    async def verify_token(self, token: str) -> Any:
        from mcp.server.auth.provider import AccessToken

        return AccessToken(token=token, client_id=token, scopes=["use"])


def http_server(*, auth: bool) -> tuple[Any, Callable[[Any], Any]]:
    """Return a server over HTTP without sessions, and what makes an application of it."""
    options: dict[str, Any] = {}
    if auth:
        from mcp.server.auth.settings import AuthSettings

        where: Any = "http://127.0.0.1:9"
        said: dict[str, Any] = {"issuer_url": where, "resource_server_url": where}
        if "validate_token_resource" in AuthSettings.model_fields:
            said["validate_token_resource"] = False
        options["auth"] = AuthSettings(required_scopes=["use"], **said)
        options["token_verifier"] = Tokens()
    http = {"stateless_http": True, "json_response": True}
    if TWO:
        return new_server(**options), lambda server: server.streamable_http_app(**http)
    return new_server(**options, **http), lambda server: server.streamable_http_app()


def test_two_principals_over_http() -> None:
    """Each authenticated principal is in a run of its own, and no run id leads to another's."""
    server, app = http_server(auth=True)
    shop = Shop(server)
    meta = {RUN_ID: "one"}
    with on_localhost(app(server)) as url:
        found = [
            NOTE in post(url, "look_up", {"word": "loop"}, token=token, meta=named)[0]
            for named in ({}, meta)
            for token in ("ann", "bob", "ann", "bob")
        ]
    assert [False, False, True, True] * 2 == found
    assert 4 == len(shop.bodies)
    shop.guard.close()


def test_anonymous_clients_over_http(caplog: pytest.LogCaptureFixture) -> None:
    """Without authentication nothing is guarded but named runs, and the log says so once."""
    server, app = http_server(auth=False)
    shop = Shop(server)
    with on_localhost(app(server)) as url, caplog.at_level(logging.WARNING, "repeatguard_sdk"):
        anonymous = [post(url, "look_up", {"word": "loop"}) for _ in range(4)]
        named = [post(url, "look_up", {"word": "x"}, meta={RUN_ID: "one"}) for _ in range(4)]
    assert [("page of loop", False)] * 4 == anonymous
    assert [False, True, True, True] == [NOTE in text for text, _ in named]
    assert [False, False, False, True] == [is_error for _, is_error in named]
    assert 5 == len(shop.bodies)
    said = [record for record in caplog.records if "not guarded" in record.message]
    assert 1 == len(said)
    shop.guard.close()


def test_a_host_tells_principals_its_own_way() -> None:
    """A gateway's header may name the principal."""
    server, app = http_server(auth=False)
    shop = Shop(server, principal=lambda request: request.headers.get("x-user"))
    with on_localhost(app(server)) as url:
        found = [
            NOTE in post(url, "look_up", {"word": "loop"}, headers={"X-User": user})[0]
            for user in ("ann", "bob", "ann", "bob")
        ]
    assert [False, False, True, True] == found
    shop.guard.close()


@pytest.mark.skipif(not TWO, reason="with sessions, the tests of mcp 1 would need its own client")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_client_of_the_sdk_over_http(mode: str) -> None:
    """A run that is named is kept from request to request, with sessions and without."""
    server, app = http_server(auth=False)
    shop = Shop(server)

    async def task(url: str) -> list[bool]:
        async with mcp.Client(f"{url}/mcp", mode=mode) as client:
            named = [text_of(await call(client, **{RUN_ID: "one"})) for _ in range(2)]
            return [NOTE in text for text in [*named, text_of(await call(client))]]

    with on_localhost(app(server) if mode == "auto" else server.streamable_http_app()) as url:
        assert [False, True, False] == asyncio.run(task(url))
    shop.guard.close()
