"""What only openai-agents has: sessions, handoffs, agents as tools, MCP servers, hooks, time-outs."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import json
from collections.abc import Sequence
from typing import Any

import pytest

from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk.events import MemorySink

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import (
    Agent,
    FunctionTool,
    MaxTurnsExceeded,
    RunConfig,
    RunHooks,
    Runner,
    SQLiteSession,
    function_tool,
)
from agents.mcp import MCPServer
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp.types import CallToolResult, TextContent, Tool

from repeatguard_sdk.integrations._openai_agents_task import Task as GuardedTask
from repeatguard_sdk.integrations.openai_agents import AgentStopped, AgentStuck, RepeatGuard

QUIET = RunConfig(tracing_disabled=True)


class Desk:
    """Tools that note their calls."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.registry = Registry()
        self.events = MemorySink()
        self.guard = functools.partial(RepeatGuard, registry=self.registry, events=self.events)

        @function_tool
        @guarded_tool(registry=self.registry)
        def look_up(word: str) -> str:
            """Look a word up."""
            self.ran.append(word)
            return f"page of {word}"

        self.look_up = look_up


@pytest.fixture
def desk() -> Desk:
    return Desk()


def call(number: int, name: str = "look_up", **arguments: Any) -> list[Any]:
    given = json.dumps(arguments or {"word": "loop"})
    return [function_call(name, given, call_id=f"call_{number}")]


def agent(steps: Sequence[Any], *tools: Any, name: str = "scripted", **more: Any) -> Any:
    script = [[assistant_message(step)] if isinstance(step, str) else step for step in steps]
    return Agent(name=name, model=ScriptedModel(script), tools=list(tools), **more)


def run(of: Any, text: Any, **options: Any) -> Any:
    return asyncio.run(Runner.run(of, text, run_config=QUIET, **options))


def outputs(items: Sequence[Any]) -> list[str]:
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def test_the_stop_is_an_exception_of_the_framework(desk: Desk) -> None:
    """Where there is no block, the stop tells the outcome and the framework's account of the run."""
    looping = agent([call(1), call(2), call(3), "never"], desk.look_up)
    with pytest.raises(AgentStuck, match="look_up") as caught:
        run(looping, "hello", hooks=desk.guard())
    assert "stuck" == caught.value.outcome.reason
    assert caught.value.run_data is not None
    assert 6 == len(caught.value.run_data.new_items)


def test_a_finished_run_is_not_stuck(desk: Desk) -> None:
    """A hand-off that is repeated after its success ends the loop, and not as stuck."""

    @function_tool
    @guarded_tool(registry=desk.registry, effect="final")
    def hand_over(word: str) -> str:
        """Hand over."""
        return "handed over"

    looping = agent([call(n, "hand_over") for n in range(1, 6)], hand_over)
    with pytest.raises(AgentStopped) as caught:
        run(looping, "hello", hooks=desk.guard())
    assert not isinstance(caught.value, AgentStuck)
    assert "finished" == caught.value.outcome.reason


def test_a_session_goes_on_after_the_stop(desk: Desk) -> None:
    """The session holds every call with its result, and the user's next turn is taken."""
    looping = agent([call(1), call(2), call(3), "I do not know."], desk.look_up)
    session = SQLiteSession("one")
    with Run(registry=desk.registry) as guarded:
        run(looping, "hello", session=session, hooks=desk.guard())
    assert guarded.stuck
    assert 3 == len(outputs(asyncio.run(session.get_items())))
    result = run(looping, "then say so", session=session, hooks=desk.guard())
    assert "I do not know." == result.final_output
    session.close()


def test_one_guard_serves_many_runs(desk: Desk) -> None:
    """Runs at once with one guard object and one agent's tools count apart."""
    guard = desk.guard()
    agents = [agent([call(1), call(2), "done"], desk.look_up) for _ in range(5)]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(
            *(Runner.run(each, "hello", hooks=guard, run_config=QUIET) for each in agents)
        )

    results = asyncio.run(all_at_once())
    assert 5 == len(desk.ran)
    assert {2} == {len(outputs(result.to_input_list())) for result in results}
    assert [2] * 5 == [record.calls for record in desk.events.runs]


def test_a_guarded_tool_stays_itself(desk: Desk) -> None:
    """Outside of a guarded run the tool is as it was, and so are copies of it."""
    before = desk.look_up.__wrapped__
    run(agent([call(1), "done"], desk.look_up), "hello", hooks=desk.guard())
    desk.ran.clear()
    for tool in (desk.look_up, copy.copy(desk.look_up)):
        assert tool.__wrapped__ is before
        result = run(agent([call(1), call(2), "done"], tool), "hello")
        assert ["page of loop"] * 2 == outputs(result.to_input_list())
    assert 4 == len(desk.ran)


def test_hooks_of_the_host_are_called(desk: Desk) -> None:
    """The host's own hooks see what they would see without the guard."""

    class Spy(RunHooks[Any]):
        def __init__(self) -> None:
            self.seen: list[str] = []

        async def on_agent_start(self, context: Any, agent: Any) -> None:
            self.seen.append("agent start")

        async def on_llm_start(self, context: Any, agent: Any, prompt: Any, items: Any) -> None:
            self.seen.append("llm start")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            self.seen.append("llm end")

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            self.seen.append(f"start {tool.name}")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            self.seen.append(f"end {tool.name}: {result}")

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            self.seen.append(f"agent end: {output}")

    spy = Spy()
    run(agent([call(1), "done"], desk.look_up), "hello", hooks=desk.guard(hooks=spy))
    expected = ["agent start", "llm start", "llm end", "start look_up", "end look_up: page of loop"]
    assert [*expected, "llm start", "llm end", "agent end: done"] == spy.seen


def test_a_handoff_is_no_unknown_tool(desk: Desk) -> None:
    """A handoff is an option and no call of a tool; the calls of the other agent count on."""
    second = agent([call(3, word="y"), "done"], desk.look_up, name="second")
    first = agent(
        [call(1), call(4, word="x"), call(2), call(9, "transfer_to_second")],
        desk.look_up,
        name="first",
        handoffs=[second],
    )
    result = run(first, "hello", hooks=desk.guard())
    assert "done" == result.final_output
    assert ["loop", "x", "y"] == desk.ran
    assert (
        "- transfer_to_second: Handoff to the second agent" in result.to_input_list()[6]["output"]
    )


def test_an_agent_as_a_tool_is_one_call(desk: Desk) -> None:
    """What an agent does that is a tool of another one is not counted in the outer run."""
    inner = agent(
        [call(1), call(2), "found", call(3), call(4), "found"], desk.look_up, name="inner"
    )
    tool = inner.as_tool("ask_expert", "Ask an expert.")
    outer = agent(
        [call(1), call(5, "ask_expert", input="loop"), call(6, "ask_expert", input="x"), "done"],
        desk.look_up,
        tool,
    )
    result = run(outer, "hello", hooks=desk.guard())
    assert "done" == result.final_output
    assert 5 == len(desk.ran)
    assert [3] == [record.calls for record in desk.events.runs]
    assert not desk.events.warnings


def test_an_agent_as_a_tool_may_have_the_guard_too(desk: Desk) -> None:
    """Given the same hooks, it counts in a run of its own."""
    guard = desk.guard()
    inner = agent([call(1), call(2), "found"], desk.look_up, name="inner")
    tool = inner.as_tool("ask_expert", "Ask an expert.", hooks=guard)
    outer = agent([call(1), call(5, "ask_expert", input="loop"), "done"], desk.look_up, tool)
    result = run(outer, "hello", hooks=guard)
    assert "done" == result.final_output
    assert ["loop", "loop"] == desk.ran
    assert [2, 2] == [record.calls for record in desk.events.runs]


class Shelf(MCPServer):
    """A server in this process, with one tool."""

    def __init__(self, annotations: Any = None) -> None:
        super().__init__()
        self.annotations = annotations
        self.calls = 0

    @property
    def name(self) -> str:
        return "shelf"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, *_: Any, **__: Any) -> list[Tool]:
        given = {
            "name": "take",
            "description": "Take a book from the shelf.",
            "inputSchema": {"type": "object", "properties": {"title": {"type": "string"}}},
            "annotations": self.annotations,
        }
        return [Tool.model_validate(given)]

    async def call_tool(self, tool_name: str, arguments: Any, *_: Any, **__: Any) -> CallToolResult:
        self.calls += 1
        text = TextContent(type="text", text=f"took {arguments['title']}")
        return CallToolResult(content=[text])

    async def list_prompts(self, *_: Any, **__: Any) -> Any: ...

    async def get_prompt(self, *_: Any, **__: Any) -> Any: ...


def taking(times: int) -> list[Any]:
    return [*(call(n, "take", title="Loops") for n in range(1, times + 1)), "done"]


def test_a_tool_of_a_server_may_change_anything(desk: Desk) -> None:
    """A tool of an MCP server runs twice and is then answered from store."""
    shelf = Shelf()
    result = run(agent(taking(4), mcp_servers=[shelf]), "hello", hooks=desk.guard())
    assert 2 == shelf.calls
    texts = outputs(result.to_input_list())
    assert 4 == len(texts)
    assert all("took Loops" in str(text) for text in texts)


@pytest.mark.skipif(
    not hasattr(FunctionTool, "mcp_annotations"), reason="this version drops the annotations"
)
def test_a_server_may_say_that_a_tool_reads(desk: Desk) -> None:
    """A read of a closed world is answered from store at the second call."""
    shelf = Shelf({"readOnlyHint": True, "openWorldHint": False})
    run(agent(taking(2), mcp_servers=[shelf]), "hello", hooks=desk.guard())
    assert 1 == shelf.calls


def test_a_tool_of_a_server_is_an_option(desk: Desk) -> None:
    """The observation lists what a server offers."""
    of = agent([call(1), call(2), "done"], desk.look_up, mcp_servers=[Shelf()])
    result = run(of, "hello", hooks=desk.guard())
    assert "- take: Take a book from the shelf." in outputs(result.to_input_list())[1]


def test_a_time_out_is_not_stored(desk: Desk) -> None:
    """A call that the framework cut off counts for nothing: the next one runs."""

    @function_tool(timeout=0.05)
    @guarded_tool(registry=desk.registry)
    async def fetch(word: str) -> str:
        """Fetch."""
        desk.ran.append(word)
        if len(desk.ran) == 1:
            await asyncio.sleep(30)
        return "fetched"

    of = agent([call(1, "fetch"), call(2, "fetch"), "done"], fetch)
    result = run(of, "hello", hooks=desk.guard())
    assert 2 == len(desk.ran)
    assert "fetched" == outputs(result.to_input_list())[1]


def test_a_tool_made_by_hand(desk: Desk) -> None:
    """A `FunctionTool` with its own invoker is guarded as one that nobody declared."""

    async def invoke(context: Any, given: str) -> str:
        desk.ran.append(given)
        return "ok"

    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    tool = FunctionTool("shell", "Run a line.", schema, invoke)
    of = agent([call(n, "shell", line="ls") for n in range(1, 4)] + ["done"], tool)
    result = run(of, "hello", hooks=desk.guard())
    assert 2 == len(desk.ran)
    assert 3 == len(outputs(result.to_input_list()))


def test_a_machine_is_no_user(desk: Desk) -> None:
    """The host may say which messages no person wrote; they reset nothing."""

    def is_user(item: Any) -> bool:
        return item["content"] != "continue"

    of = agent([call(1), "so far", call(2), "done"], desk.look_up)
    with Run(registry=desk.registry):
        first = run(of, "hello", hooks=desk.guard(is_user=is_user))
        items = [*first.to_input_list(), {"role": "user", "content": "continue"}]
        run(of, items, hooks=desk.guard(is_user=is_user))
    assert ["loop"] == desk.ran


def test_no_run_is_kept(desk: Desk) -> None:
    """What a run leaves behind goes with it, also where it ended with an error."""
    of = agent([call(1), call(2), call(3)], desk.look_up)
    with pytest.raises(MaxTurnsExceeded):
        run(of, "hello", hooks=desk.guard(), max_turns=2)
    gc.collect()
    assert {} == GuardedTask._tasks
    assert ["completed"] == [record.reason for record in desk.events.runs]
