"""What only pydantic-ai has: its runs, outputs, deferred calls, toolsets and other capabilities."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from integrations._driver import only
from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk._text import DELIMITER
from repeatguard_sdk.events import MemorySink

if only() not in (None, "pydantic_ai"):
    pytest.skip(f"this session is about {only()}", allow_module_level=True)
pydantic_ai = pytest.importorskip("pydantic_ai")

from pydantic import BaseModel  # noqa: E402
from pydantic_ai import (  # noqa: E402
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    Tool,
    ToolReturn,
    capture_run_messages,
)
from pydantic_ai import capabilities as pydantic_ai_capabilities  # noqa: E402
from pydantic_ai import exceptions as pydantic_ai_exceptions  # noqa: E402
from pydantic_ai.capabilities import AbstractCapability  # noqa: E402
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred  # noqa: E402
from pydantic_ai.messages import (  # noqa: E402
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import FunctionModel  # noqa: E402
from pydantic_ai.models.test import TestModel  # noqa: E402
from pydantic_ai.tools import ToolDefinition  # noqa: E402
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool  # noqa: E402
from pydantic_core import SchemaValidator, core_schema  # noqa: E402

from integrations._driver import Ask, Record, faults  # noqa: E402
from integrations.drivers.pydantic_ai import (  # noqa: E402
    RETRIES,
    ErrorsAsText,
    PydanticAIDriver,
    layout,
)
from repeatguard_sdk.integrations.pydantic_ai import AgentStopped, AgentStuck, RepeatGuard  # noqa: E402

Call = tuple[str, dict[str, Any]]


class Desk:
    """Tools, what became of them, and an agent whose model follows a script."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.events = MemorySink()
        self.bodies: list[str] = []
        self.requests: list[Any] = []
        self.guard = RepeatGuard(registry=self.registry, events=self.events)
        self.number = 0

        @guarded_tool(registry=self.registry)
        def look_up(word: str) -> str:
            """Look a word up."""
            self.bodies.append(word)
            return f"page of {word}"

        self.look_up = look_up

    def declared(self, **options: Any) -> Callable[..., Any]:
        return guarded_tool(registry=self.registry, **options)  # type: ignore[no-any-return]

    def model(self, *script: list[Call] | str) -> FunctionModel:
        steps = list(script)

        def respond(messages: list[Any], info: Any) -> ModelResponse:
            self.requests.append(copy.deepcopy(messages))
            assert [] == faults(layout(messages))
            step = steps.pop(0) if steps else "done"
            if isinstance(step, str):
                return ModelResponse(parts=[TextPart(step)])
            return ModelResponse(parts=[self.part(*call) for call in step])

        return FunctionModel(respond)

    def part(self, name: str, arguments: dict[str, Any]) -> ToolCallPart:
        self.number += 1
        return ToolCallPart(name, arguments, tool_call_id=f"id_{self.number}")

    def agent(self, *script: list[Call] | str, **options: Any) -> Agent[Any, Any]:
        options.setdefault("capabilities", [self.guard])
        options.setdefault("tools", [self.look_up])
        return Agent(self.model(*script), **{RETRIES: 20}, **options)

    @property
    def reasons(self) -> list[str]:
        return [run.reason for run in self.events.runs]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def again(times: int, name: str = "look_up", **arguments: Any) -> list[list[Call]]:
    return [[(name, arguments or {"word": "loop"})] for _ in range(times)]


def run(agent: Agent[Any, Any], *args: Any, **options: Any) -> Any:
    return asyncio.run(agent.run(*args, **options))


def stopped(agent: Agent[Any, Any], *args: Any, **options: Any) -> AgentStopped:
    with pytest.raises(AgentStopped) as caught:
        run(agent, *args, **options)
    assert [] == faults(layout(caught.value.all_messages()))
    return caught.value


def answers(messages: list[Any]) -> list[Any]:
    return [
        part
        for message in messages
        for part in message.parts
        if part.part_kind in ("tool-return", "retry-prompt")
    ]


def notes(messages: list[Any]) -> int:
    texts = [
        part.content if isinstance(part.content, list) else [part.content]
        for message in messages
        if message.kind == "request"
        for part in message.parts
    ]
    return sum(str(text).count(DELIMITER) for parts in texts for text in parts)


# -- the end ---------------------------------------------------------------------------------------


def test_the_stop_is_an_error_of_the_framework(desk: Desk) -> None:
    """The stop is an error of the framework and a StuckError, and survives copy and pickle."""
    stop = stopped(desk.agent(*again(5)), "hello")
    assert isinstance(stop, AgentStuck)
    assert isinstance(stop, pydantic_ai_exceptions.AgentRunError)
    assert "look_up" in str(stop)
    for twin in (copy.copy(stop), pickle.loads(pickle.dumps(stop))):
        assert str(stop) == str(twin)
        assert len(stop.all_messages()) == len(twin.all_messages())


def test_the_new_messages_are_those_of_the_run(desk: Desk) -> None:
    """The stop tells the messages of its run apart from those it went on from."""
    before = run(desk.agent("hello"), "hi").all_messages()
    stop = stopped(desk.agent(*again(5)), "look", message_history=before)
    assert [*before, *stop.new_messages()] == stop.all_messages()
    assert 2 == len(before)


def test_a_run_of_the_host_takes_the_stop(desk: Desk) -> None:
    """Inside a block nothing is raised, and the framework's own capture holds a legal history."""
    agent = desk.agent(*again(5), "after")
    with Run(registry=desk.registry) as block, capture_run_messages() as messages:
        run(agent, "hello")
    assert block.stuck
    assert [] == faults(layout(messages))
    assert 3 == len(desk.requests)


def test_every_node_by_hand(desk: Desk) -> None:
    """A run that is driven node by node is stopped as well, and closed."""

    async def drive() -> list[str]:
        seen = []
        async with desk.agent(*again(5)).iter("hello") as driven:
            async for node in driven:
                seen.append(type(node).__name__)
        return seen

    with pytest.raises(AgentStuck):
        asyncio.run(drive())
    assert 3 == len(desk.requests)
    assert ["stuck"] == desk.reasons


def test_a_run_that_is_left_early_is_closed(desk: Desk) -> None:
    """A host that leaves the nodes in the middle leaves no run open."""

    async def drive() -> None:
        async with desk.agent(*again(2)).iter("hello") as driven:
            async for _ in driven:
                if desk.bodies:
                    break

    asyncio.run(drive())
    assert 1 == len(desk.reasons)


def test_a_cancelled_run_is_closed(desk: Desk) -> None:
    """A run that is cancelled in the middle of a tool is closed, and the next one starts afresh."""
    begun = asyncio.Event()

    @desk.declared(effect="write")
    async def wait(word: str) -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(30)
        return word

    async def drive() -> None:
        agent = desk.agent(*again(1, "wait"), tools=[wait])
        task = asyncio.create_task(agent.run("hello"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(drive())
    assert 1 == len(desk.reasons)
    assert "done" == run(desk.agent("done"), "hi").output


# -- many runs -------------------------------------------------------------------------------------


def test_runs_at_once_over_one_agent(desk: Desk) -> None:
    """Runs of one agent object in one loop count apart."""

    def respond(messages: list[Any], info: Any) -> ModelResponse:
        if len(messages) > 4:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("look_up", {"word": "loop"})])

    agent = Agent(FunctionModel(respond), tools=[desk.look_up], capabilities=[desk.guard])

    async def drive() -> list[Any]:
        return await asyncio.gather(*(agent.run("hello") for _ in range(8)))

    results = asyncio.run(drive())
    assert 8 == len(desk.bodies)
    assert [1] * 8 == [notes(result.all_messages()) for result in results]
    assert ["completed"] * 8 == desk.reasons


def test_an_agent_in_a_tool_has_a_run_of_its_own(desk: Desk) -> None:
    """A delegate counts for itself, and its stop is an error of the tool that called it."""
    helper = desk.agent(*again(5))

    async def delegate(ctx: RunContext[None]) -> str:
        """Delegate."""
        try:
            return (await helper.run("go", usage=ctx.usage)).output
        except AgentStuck as stop:
            return f"gave up after {len(stop.new_messages())} messages"

    parent = desk.agent(
        [("delegate", {})], [("look_up", {"word": "loop"})], "fine", tools=[delegate, desk.look_up]
    )
    result = run(parent, "hello")
    assert ["gave up after 7 messages", "page of loop"] == [
        part.content for part in answers(result.all_messages())
    ]
    assert ["loop"] * 2 == desk.bodies
    assert ["stuck", "completed"] == desk.reasons


def test_one_guard_is_enough(desk: Desk) -> None:
    """A second guard of the same run stands back, and nothing is said or counted twice."""
    other = RepeatGuard(registry=desk.registry, events=desk.events)
    agent = desk.agent(*again(2), capabilities=[desk.guard, other])
    result = run(agent, "hello")
    assert 1 == notes(result.all_messages())
    assert [2] == [each.calls for each in desk.events.runs]


def test_the_test_model_calls_everything_once(desk: Desk) -> None:
    """The framework's model that calls each tool once is not disturbed."""
    agent = Agent(TestModel(), tools=[desk.look_up], capabilities=[desk.guard])
    assert "look_up" in run(agent, "hello").output
    assert ["completed"] == desk.reasons


# -- outputs ---------------------------------------------------------------------------------------


class Answer(BaseModel):
    number: int


def test_structured_output(desk: Desk) -> None:
    """An output tool is no tool of the agent: what it rejects is left to the framework."""
    script = [*again(2), [("final_result", {"number": "x"})], [("final_result", {"number": 3})]]
    agent = desk.agent(*script, output_type=Answer)
    result = run(agent, "hello")
    assert Answer(number=3) == result.output
    assert [2] == [each.calls for each in desk.events.runs]
    assert 1 == notes(result.all_messages())


def test_structured_output_and_a_stop(desk: Desk) -> None:
    """A run whose output has a type is stopped by the same error, with no output made up."""
    stop = stopped(desk.agent(*again(5), output_type=Answer), "hello")
    assert isinstance(stop, AgentStuck)


def test_results_that_are_no_text(desk: Desk) -> None:
    """A result that is no text stays as it is; the note stands behind all results of the response."""

    @desk.declared()
    def count(word: str) -> dict[str, int]:
        """Count letters."""
        desk.bodies.append(word)
        return {"letters": len(word)}

    result = run(desk.agent(*again(2, "count"), tools=[count]), "hello")
    assert [{"letters": 4}] * 2 == [part.content for part in answers(result.all_messages())]
    assert ["loop"] == desk.bodies
    assert [("result", "id_2"), ("note", "")] == layout(result.all_messages())[-3:-1]


@pytest.mark.parametrize("value", ["text", {"a": 1}])
@pytest.mark.parametrize("content", [None, "a picture", ["a", "picture"]])
def test_tool_returns_keep_what_they_hold(desk: Desk, value: Any, content: Any) -> None:
    """A `ToolReturn` is replayed with its content and metadata, and its content is no user's word."""

    @desk.declared()
    def show(word: str) -> Any:
        """Show."""
        desk.bodies.append(word)
        return ToolReturn(return_value=value, content=content, metadata={"source": 1})

    stop = stopped(desk.agent(*again(5, "show"), tools=[show]), "hello")
    parts = answers(stop.all_messages())
    assert ["loop"] == desk.bodies
    assert [{"source": 1}] * 3 == [part.metadata for part in parts]
    assert 3 == len(desk.requests)
    assert notes(stop.all_messages()) >= 1


# -- errors ----------------------------------------------------------------------------------------


def test_a_retry_that_a_tool_asks_for_is_a_failure(desk: Desk) -> None:
    """The same call that asks for the same retry is noted, then refused with it, then ends the run."""

    @desk.declared()
    def find(word: str) -> str:
        """Find."""
        desk.bodies.append(word)
        raise ModelRetry(f"no such word as {word}; use another")

    stop = stopped(desk.agent(*again(8, "find"), tools=[find]), "hello")
    texts = [str(part.content) for part in answers(stop.all_messages())]
    assert ["loop"] * 2 == desk.bodies
    assert 4 == len(texts)
    assert all(text.startswith("no such word as loop; use another") for text in texts)
    assert DELIMITER in texts[1]


def test_a_retry_may_be_control_flow(desk: Desk) -> None:
    """A host whose tools poll by retries says so, and no call counts."""
    guard = RepeatGuard(registry=desk.registry, control_flow=(ModelRetry,))
    left = [1, 1, 1, 1, 1]

    @desk.declared()
    def poll(word: str) -> str:
        """Poll."""
        if left:
            left.pop()
            raise ModelRetry("not yet")
        return "ready"

    result = run(desk.agent(*again(6, "poll"), tools=[poll], capabilities=[guard]), "hello")
    assert "ready" == answers(result.all_messages())[-1].content


@pytest.mark.skipif(
    not hasattr(pydantic_ai_exceptions, "ToolFailed"), reason="this version has no ToolFailed"
)
def test_a_final_failure(desk: Desk) -> None:
    """A failure the tool calls final is told with the note behind it, and keeps its outcome."""

    @desk.declared()
    def find(word: str) -> str:
        """Find."""
        raise pydantic_ai_exceptions.ToolFailed("the archive burned down")

    stop = stopped(desk.agent(*again(8, "find"), tools=[find]), "hello")
    parts = answers(stop.all_messages())
    assert ["failed"] * 4 == [part.outcome for part in parts]
    assert DELIMITER in parts[1].content


def test_an_error_that_ends_the_run(desk: Desk) -> None:
    """An error that the framework raises to the caller is the caller's, and the run has failed."""

    @desk.declared()
    def fail(word: str) -> str:
        """Fail."""
        raise LookupError(word)

    with pytest.raises(LookupError, match="loop"):
        run(desk.agent(*again(1, "fail"), tools=[fail]), "hello")
    assert ["failed"] == desk.reasons


def test_a_time_limit(desk: Desk) -> None:
    """A tool that its time limit cuts off asks for a retry, and what it left serves nobody."""

    @desk.declared()
    async def slow(word: str) -> str:
        """Be slow once."""
        desk.bodies.append(word)
        if len(desk.bodies) == 1:
            await asyncio.sleep(30)
        return "slowly"

    agent = desk.agent(*again(2, "slow"), tools=[Tool(slow, timeout=0.05)])
    result = run(agent, "hello")
    texts = [str(part.content) for part in answers(result.all_messages())]
    assert "Timed out" in texts[0]
    assert "slowly" == texts[1]


def test_what_is_wrong_with_arguments_is_noted_behind_the_results(desk: Desk) -> None:
    """Where the framework answers itself, the note is a message behind all results."""
    script = [[("look_up", {"wort": 1})], [("look_up", {"wort": 1}), ("look_up", {"word": "x"})]]
    result = run(desk.agent(*script), "hello")
    kinds = [kind for kind, _ in layout(result.all_messages())]
    assert ["result", "result", "note", "assistant"] == kinds[-4:]
    assert ["x"] == desk.bodies


# -- calls that wait for a person or another program -----------------------------------------------


def approve_all(agent: Agent[Any, Any]) -> Any:
    result = run(agent, "hello")
    while isinstance(result.output, DeferredToolRequests):
        approved = {call.tool_call_id: True for call in result.output.approvals}
        result = run(
            agent,
            message_history=result.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals=approved),
        )
    return result


def test_approved_calls_are_counted(desk: Desk) -> None:
    """Each approval is a run of its own; the history tells it what was done before."""

    @desk.declared(effect="write")
    def pay(word: str) -> str:
        """Pay."""
        desk.bodies.append(word)
        return "paid"

    agent = desk.agent(
        *again(5, "pay"),
        tools=[Tool(pay, requires_approval=True)],
        output_type=[str, DeferredToolRequests],
    )
    with pytest.raises(AgentStuck) as caught:
        approve_all(agent)
    assert 4 == len(desk.events.runs)
    assert ["loop"] == desk.bodies
    assert [] == faults(layout(caught.value.all_messages()))


def test_an_approval_inside_a_run_of_the_host(desk: Desk) -> None:
    """In one run over several approvals a tool that asks for them itself runs when it is approved."""

    @desk.declared(effect="write")
    def pay(ctx: RunContext[None], word: str) -> str:
        """Pay."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        desk.bodies.append(word)
        return "paid"

    script = [*again(2, "pay"), "thanks"]
    agent = desk.agent(*script, tools=[pay], output_type=[str, DeferredToolRequests])
    with Run(registry=desk.registry, events=desk.events) as block:
        result = approve_all(agent)
    assert "thanks" == result.output
    assert ["loop"] == desk.bodies
    assert 1 == notes(result.all_messages())
    assert not block.over
    assert not desk.events.warnings


def test_a_person_denies_in_the_run(desk: Desk) -> None:
    """Denials that a handler gives while the agent runs are counted, and the loop ends."""
    handler = getattr(pydantic_ai_capabilities, "HandleDeferredToolCalls", None)
    if handler is None:
        pytest.skip("this version has no handler of deferred calls")

    def deny(ctx: Any, requests: Any) -> DeferredToolResults:
        return DeferredToolResults(
            approvals={each.tool_call_id: False for each in requests.approvals}
        )

    agent = desk.agent(
        *again(9),
        tools=[Tool(desk.look_up, requires_approval=True)],
        capabilities=[desk.guard, handler(deny)],
    )
    stop = stopped(agent, "hello")
    assert [] == desk.bodies
    assert 4 == len(answers(stop.all_messages()))


@pytest.mark.parametrize("in_a_block", [False, True])
def test_results_from_outside_are_counted(desk: Desk, in_a_block: bool) -> None:
    """A call that another program carries out is counted when its result comes."""

    @desk.declared()
    def fetch(word: str) -> str:
        """Fetch, somewhere else."""
        desk.bodies.append(word)
        raise CallDeferred

    agent = desk.agent(*again(5, "fetch"), tools=[fetch], output_type=[str, DeferredToolRequests])

    def converse() -> None:
        result = run(agent, "hello")
        while isinstance(result.output, DeferredToolRequests):
            found = {call.tool_call_id: "fetched" for call in result.output.calls}
            result = run(
                agent,
                message_history=result.all_messages(),
                deferred_tool_results=DeferredToolResults(calls=found),
            )

    if in_a_block:
        with Run(registry=desk.registry, events=desk.events) as block:
            converse()
        assert block.stuck
    else:
        with pytest.raises(AgentStuck):
            converse()
    assert len(desk.bodies) == 1
    assert not desk.events.warnings


def test_a_history_from_a_store_is_taken_up(desk: Desk) -> None:
    """A conversation that was stored as JSON goes on in a process that has not seen it."""
    first = run(desk.agent(*again(2)), "hello")
    stored = json.loads(ModelMessagesTypeAdapter.dump_json(first.all_messages()[:-1]))
    desk.bodies.clear()
    stop = stopped(
        desk.agent(*again(5)), message_history=ModelMessagesTypeAdapter.validate_python(stored)
    )
    assert [] == desk.bodies
    assert "page of loop" == answers(stop.all_messages())[-1].content.partition("\n\n")[0]


def test_a_retry_from_a_store_is_taken_up(desk: Desk) -> None:
    """Retries that the history holds count as the failures they were."""

    @desk.declared()
    def find(word: str) -> str:
        """Find."""
        desk.bodies.append(word)
        raise ModelRetry("no such word")

    first = run(desk.agent(*again(2, "find"), tools=[find]), "hello")
    desk.bodies.clear()
    agent = desk.agent(*again(5, "find"), tools=[find])
    stopped(agent, message_history=first.all_messages()[:-1])
    assert [] == desk.bodies


@pytest.mark.parametrize("name", ["look_up", "look_down"])
def test_a_provider_that_uses_ids_again(desk: Desk, name: str) -> None:
    """The id of an earlier response makes no redelivery of a new call, nor in a history."""

    def respond(messages: list[Any], info: Any) -> ModelResponse:
        desk.requests.append(messages)
        if len(desk.requests) in (3, 10):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(name, {"word": "loop"}, tool_call_id="call_0")])

    agent: Agent[Any, Any] = Agent(
        FunctionModel(respond), tools=[desk.look_up], capabilities=[desk.guard], **{RETRIES: 20}
    )
    first = run(agent, "hello")
    assert 1 == notes(first.all_messages())
    more = stopped(agent, message_history=first.all_messages()[:-1])
    limit = {"look_up": 3, "look_down": 4}[name]
    assert limit == len(answers(more.all_messages()))
    assert ["loop"] * (name == "look_up") == desk.bodies


# -- tools and toolsets ----------------------------------------------------------------------------


def test_toolsets_given_to_a_run(desk: Desk) -> None:
    """Tools that come with a run, under a prefix, are seen with their declaration."""
    toolset: Any = FunctionToolset([desk.look_up])
    agent = desk.agent(*again(2, "kb_look_up"), tools=[])
    result = run(agent, "hello", toolsets=[toolset.prefixed("kb")])
    assert ["loop"] == desk.bodies
    assert 'kb_look_up(word="loop") was already answered' in str(result.all_messages())


def test_only_what_the_model_is_given_is_an_option(desk: Desk) -> None:
    """A tool that is hidden at this step is not named to the model."""

    async def hidden(ctx: RunContext[None], definition: Any) -> None:
        return None

    def secret() -> str:
        """Open the vault."""
        return "open"

    tools = [desk.look_up, Tool(secret, prepare=hidden)]
    result = run(desk.agent(*again(2), tools=tools), "hello")
    assert 1 == notes(result.all_messages())
    assert "secret" not in str(result.all_messages())


class Remote(AbstractToolset[Any]):
    """Tools that have no function here."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @property
    def id(self) -> str:
        return "remote"

    async def get_tools(self, ctx: Any) -> dict[str, ToolsetTool[Any]]:
        definition = ToolDefinition(name="act", description="Act somewhere else.")
        any_arguments = SchemaValidator(core_schema.dict_schema())
        tool = ToolsetTool(
            toolset=self, tool_def=definition, max_retries=1, args_validator=any_arguments
        )
        return {"act": tool}

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        self.desk.bodies.append(name)
        return {"acted": True}


def test_tools_without_a_function(desk: Desk) -> None:
    """A tool of which nothing is known but its name may change anything."""
    agent = desk.agent(*again(8, "act"), tools=[], toolsets=[Remote(desk)])
    stop = stopped(agent, "hello")
    assert ["act"] * 2 == desk.bodies
    assert [{"acted": True}] * 5 == [part.content for part in answers(stop.all_messages())]
    assert notes(stop.all_messages()) >= 1


def test_an_mcp_server(desk: Desk) -> None:
    """Tools of an MCP server may change anything, unless its annotations or the host say more."""
    mcp = pytest.importorskip("pydantic_ai.mcp", exc_type=ImportError)
    servers = pytest.importorskip("fastmcp.server.server", exc_type=ImportError)
    if not hasattr(mcp, "MCPToolset"):
        pytest.skip("this version has no MCPToolset")
    server = servers.FastMCP("books")

    @server.tool(annotations={"readOnlyHint": True, "openWorldHint": False})
    def read(word: str) -> str:
        desk.bodies.append(f"read {word}")
        return f"read {word}"

    @server.tool
    def act(word: str) -> str:
        desk.bodies.append(f"act {word}")
        return f"acted on {word}"

    script = [*again(2, "read"), *again(8, "act")]
    agent = desk.agent(*script, tools=[], toolsets=[mcp.MCPToolset(server)])
    stop = stopped(agent, "hello")
    assert ["read loop", "act loop", "act loop"] == desk.bodies
    assert 7 == len(answers(stop.all_messages()))


# -- beside other capabilities ---------------------------------------------------------------------


class Cache(AbstractCapability[Any]):
    """Answers in front of the tool."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, args: Any, handler: Callable[[Any], Awaitable[Any]], **_: Any
    ) -> Any:
        place = f"{call.tool_name} {args}"
        if place not in self.kept:
            self.kept[place] = await handler(args)
        return self.kept[place]


@pytest.mark.parametrize("guard_first", [False, True])
def test_a_cache_among_the_capabilities(desk: Desk, guard_first: bool) -> None:
    """A capability that answers in front of a tool is told once, and its calls are counted."""
    both = [desk.guard, Cache()] if guard_first else [Cache(), desk.guard]
    stop = stopped(desk.agent(*again(6), capabilities=both), "hello")
    assert ["loop"] == desk.bodies
    assert 3 == len(answers(stop.all_messages()))
    assert 1 == len(desk.events.warnings)
    assert "cache" in desk.events.warnings[0].what


class Refusing(AbstractCapability[Any]):
    """Lets no call through."""

    async def before_tool_execute(self, ctx: Any, **_: Any) -> Any:
        raise ModelRetry("not before noon")


def test_a_capability_that_refuses(desk: Desk) -> None:
    """What another capability refuses reaches no tool, and is counted like a denial."""
    try:
        stop = stopped(desk.agent(*again(9), capabilities=[Refusing(), desk.guard]), "hello")
    except ModelRetry:
        pytest.skip("this version raises to the caller what a hook refuses")
    assert [] == desk.bodies
    assert 4 == len(answers(stop.all_messages()))


class Discarding(AbstractCapability[Any]):
    """Lets no result through."""

    async def after_tool_execute(self, ctx: Any, **_: Any) -> Any:
        raise ModelRetry("that will not do")


def test_a_capability_that_discards_results(desk: Desk) -> None:
    """Where another capability lets no result through, the note is a message behind all results."""
    try:
        result = run(desk.agent(*again(2), capabilities=[Discarding(), desk.guard]), "hello")
    except ModelRetry:
        pytest.skip("this version raises to the caller what a hook refuses")
    assert ["loop"] == desk.bodies
    assert ["result", "note", "assistant"] == [kind for kind, _ in layout(result.all_messages())][
        -3:
    ]


def test_what_another_capability_makes_of_an_error(desk: Desk) -> None:
    """A note stands behind the text that another capability made of an error, wherever it is listed."""

    @desk.declared()
    def fail(word: str) -> str:
        """Fail."""
        raise LookupError(word)

    for capabilities in ([desk.guard, ErrorsAsText()], [ErrorsAsText(), desk.guard]):
        agent = desk.agent(*again(2, "fail"), tools=[fail], capabilities=capabilities)
        first, second = answers(run(agent, "hello").all_messages())
        assert "failed: loop" == first.content
        assert second.content.startswith(f"failed: loop\n\n{DELIMITER}")


def test_a_word_of_the_user_in_the_middle(desk: Desk) -> None:
    """What the user says while the agent runs lets the same call run again."""
    if not hasattr(RunContext, "enqueue"):
        pytest.skip("this version takes no messages in the middle of a run")

    async def drive() -> Any:
        async with desk.agent(*again(4)).iter("hello") as driven:
            async for _ in driven:
                if len(desk.requests) == 2 and "said" not in desk.bodies:
                    desk.bodies.append("said")
                    driven.enqueue("Please look again.")
            return driven.result

    result = asyncio.run(drive())
    assert ["loop", "said", "loop"] == desk.bodies
    assert "done" == result.output


def test_notes_as_messages_stay_in_the_history(desk: Desk) -> None:
    """A note that is sent as a message is part of the history, and no word of the user's."""
    guard = RepeatGuard(registry=desk.registry, events=desk.events, deliver="messages")
    stop = stopped(desk.agent(*again(5), capabilities=[guard]), "hello")
    assert 1 == [kind for kind, _ in layout(stop.all_messages())].count("note")
    assert 3 == len(desk.requests)


def test_a_history_that_is_cut_down(desk: Desk) -> None:
    """Where another capability forgets the beginning, the count goes on and the loop ends."""
    processor = getattr(pydantic_ai_capabilities, "ProcessHistory", None)
    if processor is None:
        pytest.skip("this version has no such capability")

    def cut(messages: list[Any]) -> list[Any]:
        return messages[-2:] if len(messages) > 2 else messages

    stop = stopped(desk.agent(*again(5), capabilities=[processor(cut), desk.guard]), "hello")
    assert ["loop"] == desk.bodies
    assert isinstance(stop, AgentStuck)


def test_what_is_no_person(desk: Desk) -> None:
    """The host may tell a machine's messages from a person's."""
    if not hasattr(RunContext, "enqueue"):
        pytest.skip("this version takes no messages in the middle of a run")

    class Reminding(AbstractCapability[Any]):
        async def after_tool_execute(self, ctx: Any, *, result: Any, **_: Any) -> Any:
            ctx.enqueue("[reminder] The shop closes at six.")
            return result

    def is_user(part: Any) -> bool:
        return "[reminder]" not in str(part.content)

    guard = RepeatGuard(registry=desk.registry, is_user=is_user)
    stop = stopped(desk.agent(*again(5), capabilities=[guard, Reminding()]), "hello")
    assert ["loop"] == desk.bodies
    assert isinstance(stop, AgentStuck)


def test_events_are_streamed(desk: Desk) -> None:
    """A handler of the run's events gets the results with what is behind them."""
    seen: list[str] = []

    async def handle(ctx: Any, events: Any) -> None:
        async for event in events:
            if event.event_kind == "function_tool_result":
                part = getattr(event, "part", None) or event.result
                seen.append(part.content)

    driver = PydanticAIDriver()
    driver.record = Record()
    driver.steps = [[Ask("look_up", {"word": "loop"}, f"id_{n}")] for n in (1, 2)]
    agent = Agent(
        FunctionModel(driver.respond, stream_function=driver.stream),
        tools=[desk.look_up],
        capabilities=[desk.guard],
    )
    run(agent, "hello", event_stream_handler=handle)
    assert "page of loop" == seen[0]
    assert DELIMITER in seen[1]
