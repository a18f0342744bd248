"""What only LangChain has: checkpoints, interrupts, commands, structured output, other middleware."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import pytest

from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk.events import MemorySink

pytest.importorskip("langchain.agents", reason="langchain is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
    wrap_model_call,
)
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import InjectedToolCallId, tool
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from integrations._driver import Ask, faults
from integrations.drivers.langchain import ErrorsAsMessages, ScriptedModel, layout_of
from repeatguard_sdk._text import DELIMITER
from repeatguard_sdk.integrations.langchain import GuardedState, RepeatGuard

THREAD: Any = {"configurable": {"thread_id": "1"}}


class Desk:
    """Tools that note their calls, and agents that have them."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.registry = Registry()
        self.events = MemorySink()
        self.guarded = functools.partial(guarded_tool, registry=self.registry)
        self.guard = functools.partial(RepeatGuard, registry=self.registry, events=self.events)

        @tool
        @self.guarded
        def look_up(word: str) -> str:
            """Look a word up."""
            self.ran.append(word)
            return f"page of {word}"

        self.look_up = look_up

    def agent(self, script: Sequence[Any], *tools: Any, guard: Any = None, **more: Any) -> Any:
        self.model = ScriptedModel(steps=list(script), requests=[])
        middleware = [guard or self.guard(), *more.pop("middleware", ())]
        return create_agent(
            self.model, list(tools or [self.look_up]), middleware=middleware, **more
        )


@pytest.fixture
def desk() -> Desk:
    return Desk()


def hello(text: str = "hello") -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def asked(number: int, tool: str = "look_up", **arguments: Any) -> list[Ask]:
    return [Ask(tool, arguments or {"word": "loop"}, f"call_{number}")]


def again(times: int, tool: str = "look_up", **arguments: Any) -> list[list[Ask]]:
    return [asked(number, tool, **arguments) for number in range(1, times + 1)]


def results(state: Any) -> dict[str, ToolMessage]:
    return {m.tool_call_id: m for m in state["messages"] if isinstance(m, ToolMessage)}


def stopped(state: Any) -> bool:
    return "repeatguard" in state["messages"][-1].response_metadata


def noted(state: Any) -> list[str]:
    return [call_id for call_id, answer in results(state).items() if DELIMITER in answer.text]


# -- the end, checkpoints ---------------------------------------------------------------------------


def test_the_last_message_says_why(desk: Desk) -> None:
    """A stopped agent ends with a message of its own that a person can act on."""
    last = desk.agent(again(6)).invoke(hello())["messages"][-1]
    assert isinstance(last, AIMessage)
    assert {"repeatguard": "stuck"} == last.response_metadata
    assert 'look_up(word="loop") was asked for 3 times' in last.text


def test_a_thread_goes_on_after_a_stop(desk: Desk) -> None:
    """In a checkpointed thread the user speaks after a stop, and the same call runs again."""
    agent = desk.agent([*again(3), asked(4), "found"], checkpointer=InMemorySaver())
    assert stopped(agent.invoke(hello(), THREAD))
    state = agent.invoke(hello("again"), THREAD)
    assert "found" == state["messages"][-1].text
    assert ["loop", "loop"] == desk.ran
    assert [] == faults(layout_of(state["messages"]))


@pytest.mark.parametrize("fresh", [False, True])
def test_an_approval_in_another_process(desk: Desk, fresh: bool) -> None:
    """After an approval the calls before it count, in the same process or a new one."""
    saver = InMemorySaver()
    approving = HumanInTheLoopMiddleware(interrupt_on={"look_up": True})
    agent = desk.agent(again(4), middleware=[approving], checkpointer=saver)
    resume = Command(resume={"decisions": [{"type": "approve"}]})
    agent.invoke(hello(), THREAD)
    for number in (2, 3):
        if fresh:
            steps = again(4)[number - 1 :]
            agent = desk.agent(steps, middleware=[approving], checkpointer=saver)
        state = agent.invoke(resume, THREAD)
    if fresh:
        agent = desk.agent([], middleware=[approving], checkpointer=saver)
    state = agent.invoke(resume, THREAD)
    assert ["loop"] == desk.ran
    assert ["call_2", "call_3"] == noted(state)
    assert stopped(state)


def test_a_crash_between_two_turns(desk: Desk) -> None:
    """An invocation that goes on from its checkpoint in a new process counts what was before."""
    saver = InMemorySaver()
    agent = desk.agent(again(1), checkpointer=saver, interrupt_before=["RepeatGuard.before_model"])
    agent.invoke(hello(), THREAD)
    agent.invoke(None, THREAD)
    state = desk.agent(again(4)[1:], checkpointer=saver).invoke(None, THREAD)
    assert ["loop"] == desk.ran
    assert ["call_2", "call_3"] == noted(state)


def test_a_rewound_thread_counts_what_its_history_holds(desk: Desk) -> None:
    """From an older checkpoint the agent goes on as if the later calls had not been made."""
    agent = desk.agent(
        [*again(2), "done", asked(12), "done"], checkpointer=InMemorySaver(), guard=desk.guard()
    )
    agent.invoke(hello(), THREAD)
    early = [
        state
        for state in agent.get_state_history(THREAD)
        if state.next == ("RepeatGuard.before_model",) and len(state.values["messages"]) == 3
    ]
    state = agent.invoke(None, early[0].config)
    assert ["call_1", "call_12"] == list(results(state))
    assert ["call_12"] == noted(state)
    assert not stopped(state)
    assert ["loop"] == desk.ran


def test_a_summary_is_no_word_of_the_user(desk: Desk) -> None:
    """Where the history is summarized, the counts stay, and a result is delivered once more."""
    writer = ScriptedModel(steps=["in short"] * 9, requests=[])
    summary = SummarizationMiddleware(writer, trigger=("messages", 5), keep=("messages", 2))
    words = [asked(number, word=f"word {number}") for number in range(1, 5)]
    agent = desk.agent([*words, asked(5, word="word 1"), "done"], middleware=[summary])
    state = agent.invoke(hello())
    assert "HumanMessage" == type(state["messages"][0]).__name__
    assert "hello" != state["messages"][0].text
    assert [f"word {number}" for number in range(1, 5)] == desk.ran
    assert not stopped(state)
    assert "page of word 1" in results(state)["call_5"].text


# -- interrupts, approvals --------------------------------------------------------------------------


@pytest.mark.parametrize("declared", [True, False])
def test_an_interrupt_in_a_tool_counts_for_nothing(desk: Desk, declared: bool) -> None:
    """A tool that waits for a person is one call, however often it is entered."""

    def pay(amount: int) -> str:
        """Pay."""
        desk.ran.append("entered")
        return f"{interrupt('sure?')} {amount} {interrupt('really?')}"

    paying = tool(desk.guarded(effect="write")(pay) if declared else pay)
    agent = desk.agent([asked(1, "pay", amount=3), "paid"], paying, checkpointer=InMemorySaver())
    state = agent.invoke(hello(), THREAD)
    assert "__interrupt__" in state
    for answer in ("yes", "of course"):
        state = agent.invoke(Command(resume=answer), THREAD)
    assert "yes 3 of course" == results(state)["call_1"].text
    assert not desk.events.repeats
    assert ["completed"] == [run.reason for run in desk.events.runs]


def test_what_a_person_edited_is_what_counts(desk: Desk) -> None:
    """A call is the one that is made, after a person changed it."""
    editing = HumanInTheLoopMiddleware(interrupt_on={"look_up": True})
    agent = desk.agent(
        [asked(1, word="lop"), asked(2, word="loop"), "done"],
        middleware=[editing],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(hello(), THREAD)
    edited = {"name": "look_up", "args": {"word": "loop"}}
    agent.invoke(Command(resume={"decisions": [{"type": "edit", "edited_action": edited}]}), THREAD)
    state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert ["loop"] == desk.ran
    assert ["call_2"] == noted(state)


@pytest.mark.parametrize("declared", [True, False])
def test_what_was_edited_is_not_served_for_what_was_asked(desk: Desk, declared: bool) -> None:
    """The result of an edited call answers no later call of what the model had asked for, ever."""

    def fetch(word: str) -> str:
        """Fetch."""
        desk.ran.append(word)
        return f"fetched {word}"

    saver = InMemorySaver()
    fetching = tool(desk.guarded(fetch) if declared else fetch)

    def agent(script: Sequence[Any]) -> Any:
        editing = HumanInTheLoopMiddleware(interrupt_on={"fetch": True})
        guard = desk.guard() if declared else desk.guard(effects={"fetch": "read"})
        return desk.agent(script, fetching, guard=guard, middleware=[editing], checkpointer=saver)

    def edited(word: str) -> Any:
        action = {"name": "fetch", "args": {"word": word}}
        return Command(resume={"decisions": [{"type": "edit", "edited_action": action}]})

    script = [asked(number, "fetch", word="lop") for number in (1, 2, 3)]
    first = agent(script)
    first.invoke(hello(), THREAD)
    first.invoke(edited("loop"), THREAD)
    first.invoke(edited("lamp"), THREAD)
    state = agent(["done"]).invoke(edited("lop"), THREAD)
    assert ["loop", "lamp", "lop"] == desk.ran
    assert [] == noted(state)


def test_calls_over_a_limit_are_counted(desk: Desk) -> None:
    """Calls that another middleware blocks never reach their tool, and end the loop in the end."""
    limit = ToolCallLimitMiddleware(tool_name="look_up", run_limit=1, exit_behavior="continue")
    script = [asked(number, word="loop") for number in range(1, 12)]
    state = desk.agent(script, middleware=[limit]).invoke(hello())
    assert ["loop"] == desk.ran
    assert stopped(state)
    assert len(results(state)) < 7


def test_one_run_of_the_host_ends_while_a_person_thinks(desk: Desk) -> None:
    """What is approved after the host's block has ended goes on under a run of the guard's own."""
    approving = HumanInTheLoopMiddleware(interrupt_on={"look_up": True})
    agent = desk.agent(again(4), middleware=[approving], checkpointer=InMemorySaver())
    resume = Command(resume={"decisions": [{"type": "approve"}]})
    with Run(registry=desk.registry):
        agent.invoke(hello(), THREAD)
        agent.invoke(resume, THREAD)
    agent.invoke(resume, THREAD)
    state = agent.invoke(resume, THREAD)
    assert ["loop"] == desk.ran
    assert stopped(state)


# -- results ---------------------------------------------------------------------------------------


class Counting(AgentState):
    """A state to which a tool adds."""

    count: Annotated[int, lambda old, new: old + new]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("as_command", [True, False])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_messages_and_commands_are_given_again(
    desk: Desk, declared: bool, as_command: bool, mode: str
) -> None:
    """A replayed message is addressed to the call that gets it, and a command's update is not redone."""

    def count(word: str, call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Count."""
        desk.ran.append(word)
        answer = ToolMessage(f"counted {word}", tool_call_id=call_id, artifact={"n": 1})
        return Command(update={"messages": [answer], "count": 1}) if as_command else answer

    counting = tool(desk.guarded(count) if declared else count)
    guard = desk.guard() if declared else desk.guard(effects={"count": "read"})
    script = [[*asked(1, "count"), *asked(2, "count")], asked(3, "count"), "done"]
    agent = desk.agent(script, counting, guard=guard, state_schema=Counting)
    given = {**hello(), "count": 0}
    state = agent.invoke(given) if mode == "sync" else asyncio.run(agent.ainvoke(given))
    assert ["loop"] == desk.ran
    assert ["call_3"] == noted(state)
    assert 3 == len(results(state))
    assert [{"n": 1}] * 3 == [answer.artifact for answer in results(state).values()]
    assert all(answer.text.startswith("counted loop") for answer in results(state).values())
    assert (1 if as_command else 0) == state["count"]
    assert "done" == state["messages"][-1].text


def test_a_prebuilt_tool_that_gives_commands(desk: Desk) -> None:
    """The framework's own list of tasks is guarded as a tool of unknown effect."""
    todos = [{"content": "look", "status": "pending"}]
    script = again(8, "write_todos", todos=todos)
    state = desk.agent(script, middleware=[TodoListMiddleware()]).invoke(hello())
    assert stopped(state)
    assert 5 == len(results(state))
    assert "call_2" in noted(state)


def test_a_note_behind_blocks_is_a_block(desk: Desk) -> None:
    """Behind content that is made of blocks the note is one more of them."""

    @tool
    @desk.guarded
    def draw(word: str) -> list[dict[str, str]]:
        """Draw."""
        desk.ran.append(word)
        return [{"type": "text", "text": f"picture of {word}"}]

    state = desk.agent([*again(2, "draw"), "done"], draw).invoke(hello())
    first, second = (answer.content for answer in results(state).values())
    assert first == second[:1]
    assert DELIMITER in second[1]["text"]
    assert ["loop"] == desk.ran


def test_no_note_in_what_goes_to_the_user(desk: Desk) -> None:
    """The result of a tool that answers the user directly stays as it is."""
    desk.look_up.return_direct = True
    agent = desk.agent([asked(1)], guard=desk.guard())
    with Run(registry=desk.registry):
        agent.invoke(hello())
        state = desk.agent([asked(2)]).invoke({"messages": [AIMessage("well")]})
    assert [] == noted(state)


def test_structured_output(desk: Desk) -> None:
    """An agent that owes a structured answer gives it, and one that fails at it alike is stopped."""

    class Answer(BaseModel):
        """The answer."""

        page: int

    good = asked(2, "Answer", page=3)
    agent = desk.agent([*again(1), good], response_format=ToolStrategy(Answer))
    assert Answer(page=3) == agent.invoke(hello())["structured_response"]
    bad = [asked(number, "Answer", page="none") for number in range(1, 9)]
    state = desk.agent(bad, response_format=ToolStrategy(Answer)).invoke(hello())
    assert stopped(state)
    assert state.get("structured_response") is None
    assert [] == faults(layout_of(state["messages"]))


# -- other middleware -------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_retries_of_the_framework(desk: Desk, first: bool, declared: bool, mode: str) -> None:
    """Attempts of one call are one call, with the guard in front of the retries or behind them."""

    def fetch(word: str) -> str:
        """Fetch."""
        desk.ran.append(word)
        if len(desk.ran) < 4:
            raise OSError("try again")
        return f"fetched {word}"

    fetching = tool(desk.guarded(fetch) if declared else fetch)
    retry = ToolRetryMiddleware(max_retries=4, initial_delay=0, jitter=False, backoff_factor=0)
    guard = desk.guard()
    model = ScriptedModel(steps=[asked(1, "fetch"), "done"], requests=[])
    agent = create_agent(model, [fetching], middleware=[guard, retry] if first else [retry, guard])
    state = agent.invoke(hello()) if mode == "sync" else asyncio.run(agent.ainvoke(hello()))
    assert "fetched loop" == results(state)["call_1"].text
    assert 4 == len(desk.ran)
    assert not desk.events.repeats


def test_the_options_are_the_tools_of_the_request(desk: Desk) -> None:
    """Where a middleware in front chooses tools, only those are offered."""

    @tool
    def spare(word: str) -> str:
        """Do something else."""
        return word

    @wrap_model_call
    def choose(request: Any, handler: Any) -> Any:
        return handler(request.override(tools=[desk.look_up, {"type": "web_search"}]))

    model = ScriptedModel(steps=[*again(2), "done"], requests=[])
    agent = create_agent(model, [desk.look_up, spare], middleware=[choose, desk.guard()])
    state = agent.invoke(hello())
    assert ["call_2"] == noted(state)
    assert "spare" not in results(state)["call_2"].text


def test_an_error_that_nobody_handles(desk: Desk) -> None:
    """What a tool raises leaves the agent as without the guard, and the next invocation starts afresh."""

    @tool
    @desk.guarded
    def fail(word: str) -> str:
        """Fail."""
        raise LookupError(word)

    guard = desk.guard()
    agent = desk.agent(again(1, "fail"), fail, guard=guard)
    with pytest.raises(LookupError, match="loop"):
        agent.invoke(hello())
    state = desk.agent([*again(2, "fail"), "done"], fail, middleware=[ErrorsAsMessages()]).invoke(
        hello()
    )
    assert ["call_2"] == noted(state)


class Answering(AgentMiddleware):
    """Gives results in the place of tools, as a person may."""

    def __init__(self, answers: Sequence[str]) -> None:
        super().__init__()
        self.answers = list(answers)

    def after_model(self, state: Any, runtime: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage(self.answers.pop(0), tool_call_id=c["id"]) for c in calls]}


def test_results_that_a_person_gave(desk: Desk) -> None:
    """What somebody else answers counts by its answer, and the note is placed behind it."""
    script = [*again(6), "done"]
    state = desk.agent(script, middleware=[Answering(["one", "two", "three"] * 2)]).invoke(hello())
    assert not stopped(state)
    assert [] == noted(state)
    state = desk.agent(script, middleware=[Answering(["one"] * 6)]).invoke(hello())
    assert stopped(state)
    assert 5 == len(results(state))
    assert "call_2" in noted(state)
    assert [] == desk.ran


def test_a_result_that_is_cleared_may_be_asked_for_again(desk: Desk) -> None:
    """A result that context editing takes from the model is delivered once more without a note."""
    editing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=1)])
    script = [asked(1, word="a"), asked(2, word="b"), asked(3, word="a"), "done"]
    model = ScriptedModel(steps=script, requests=[])
    agent = create_agent(model, [desk.look_up], middleware=[editing, desk.guard()])
    state = agent.invoke(hello())
    assert ["a", "b"] == desk.ran
    assert [] == noted(state)
    assert "page of a" == results(state)["call_3"].text


# -- tools -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("own_arun", [True, False])
def test_subclasses_of_the_tool_class(desk: Desk, mode: str, own_arun: bool) -> None:
    """A tool class is guarded by the methods it declares, and by the middleware if there are none."""

    class Find(BaseTool):
        name: str = "find"
        description: str = "Find."

        @desk.guarded
        def _run(self, word: str) -> str:
            desk.ran.append(word)
            return f"found {word}"

    class FindAsync(Find):
        async def _arun(self, word: str) -> str:
            desk.ran.append(word)
            return f"found {word}"

    finding = (FindAsync if own_arun else Find)()
    agent = desk.agent([*again(3, "find"), "done"], finding)
    state = agent.invoke(hello()) if mode == "sync" else asyncio.run(agent.ainvoke(hello()))
    undeclared = own_arun and mode == "async"
    assert ["loop"] * (2 if undeclared else 1) == desk.ran
    assert 'find(word="loop")' in results(state)["call_2"].text
    assert not desk.events.warnings


def test_a_tool_of_two_functions(desk: Desk) -> None:
    """Of a tool with a function and a coroutine function the one that is called is guarded."""

    @desk.guarded(name="fetch")
    async def afetch(word: str) -> str:
        """Fetch."""
        desk.ran.append(f"async {word}")
        return f"fetched {word}"

    def fetch(word: str) -> str:
        """Fetch."""
        desk.ran.append(f"sync {word}")
        return f"fetched {word}"

    both = StructuredTool.from_function(func=fetch, coroutine=afetch)
    asyncio.run(desk.agent([*again(2, "fetch"), "done"], both).ainvoke(hello()))
    assert ["async loop"] == desk.ran
    desk.agent([*again(2, "fetch"), "done"], both).invoke(hello())
    assert ["async loop", "sync loop", "sync loop"] == desk.ran


def test_the_servers_words_of_a_tool(desk: Desk) -> None:
    """Annotations of an MCP tool are found where the framework keeps them, old place and new."""
    hints = {"read_only_hint": True, "open_world_hint": False}
    for metadata in ({"mcp": {"tool": {"annotations": hints}}}, hints):
        desk.ran.clear()

        @tool
        def remote(word: str) -> str:
            """Ask a server."""
            desk.ran.append(word)
            return f"page of {word}"

        remote.metadata = metadata
        desk.agent([*again(2, "remote"), "done"], remote).invoke(hello())
        assert ["loop"] == desk.ran


@pytest.mark.parametrize("declared", [True, False])
def test_an_agent_that_is_a_tool(desk: Desk, declared: bool) -> None:
    """An agent inside a tool has a run of its own, under the same guard object."""
    guard = desk.guard()
    inner_model = ScriptedModel(steps=again(9), requests=[])
    inner = create_agent(inner_model, [desk.look_up], middleware=[guard])

    def delegate(task: str) -> str:
        """Let another agent do it."""
        return inner.invoke(hello(task))["messages"][-1].text

    delegating = tool(desk.guarded(effect="unknown")(delegate) if declared else delegate)
    agent = desk.agent([asked(1, "delegate", task="x"), asked(2), "done"], guard=guard)
    agent = create_agent(
        ScriptedModel(steps=[asked(1, "delegate", task="x"), asked(2), "done"], requests=[]),
        [delegating, desk.look_up],
        middleware=[guard],
    )
    state = agent.invoke(hello())
    assert 3 == len(inner_model.requests)
    assert "was asked for 3 times" in results(state)["call_1"].text
    assert "page of loop" == results(state)["call_2"].text
    assert ["loop", "loop"] == desk.ran
    assert ["stuck", "completed"] == [run.reason for run in desk.events.runs]


# -- many at once, streams --------------------------------------------------------------------------


class Chatty(ScriptedModel):
    """Asks for the same until it has two results, whichever conversation that is."""

    def _respond(self, messages: Sequence[Any]) -> AIMessage:
        found = len([m for m in messages if isinstance(m, ToolMessage)])
        call = {"name": "look_up", "args": {"word": "loop"}, "id": f"call_{found + 1}"}
        return AIMessage("", tool_calls=[call]) if found < 2 else AIMessage("done")


def test_many_invocations_of_one_agent(desk: Desk) -> None:
    """Invocations of one agent object at once count apart, in threads and in tasks."""
    guard = desk.guard()
    agent = create_agent(Chatty(steps=[]), [desk.look_up], middleware=[guard])
    states = agent.batch([hello()] * 8)

    async def at_once() -> list[Any]:
        return await asyncio.gather(*(agent.ainvoke(hello()) for _ in range(8)))

    states += asyncio.run(at_once())
    assert 16 == len(desk.ran)
    assert [["call_2"]] * 16 == [noted(state) for state in states]
    assert 16 == len(desk.events.runs)
    assert not guard._tasks._tasks


def test_a_stream_that_is_dropped(desk: Desk) -> None:
    """A stream that is closed early leaves nothing that a later invocation of its thread would count."""
    agent = desk.agent(
        [*again(3), "done"], checkpointer=InMemorySaver(), guard=(guard := desk.guard())
    )
    stream = agent.stream(hello(), THREAD, stream_mode="updates")
    for update in stream:
        if "tools" in update:
            break
    stream.close()
    state = agent.invoke(hello("well?"), THREAD)
    assert not stopped(state)
    assert not guard._tasks._tasks


def test_a_cancelled_invocation(desk: Desk) -> None:
    """A tool that is cancelled by a time-out has no outcome; the same call runs again."""

    @tool
    @desk.guarded
    async def wait(word: str) -> str:
        """Wait."""
        desk.ran.append(word)
        if len(desk.ran) == 1:
            await asyncio.sleep(30)
        return f"waited for {word}"

    async def twice() -> Any:
        agent = desk.agent([*again(1, "wait"), "done"], wait)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(agent.ainvoke(hello()), 0.2)
        return await desk.agent([*again(1, "wait"), "done"], wait).ainvoke(hello())

    with Run(registry=desk.registry) as run:
        state = asyncio.run(twice())
    assert "waited for loop" == results(state)["call_1"].text
    assert not run.stuck


def test_streams_of_an_event_loop(desk: Desk) -> None:
    """Updates, messages and events are streamed as without the guard, up to the stop."""

    async def watch() -> tuple[list[Any], list[Any]]:
        agent = desk.agent(again(6))
        updates = [update async for update in agent.astream(hello(), stream_mode="updates")]
        agent = desk.agent(again(6))
        events = [event async for event in agent.astream_events(hello(), version="v2")]
        return updates, events

    updates, events = asyncio.run(watch())
    assert 3 == len([update for update in updates if "tools" in update])
    assert "end" == updates[-2]["RepeatGuard.before_model"]["jump_to"]
    assert 3 == len([event for event in events if event["event"] == "on_chat_model_start"])


# -- graphs written by hand --------------------------------------------------------------------------


def test_a_tool_node_alone_in_a_block_of_the_host(desk: Desk) -> None:
    """Where only the tools of a graph are guarded, the host's run counts and tells that it is over."""
    guard = desk.guard()
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([desk.look_up], wrap_tool_call=guard.wrap_tool_call))
    graph.add_edge(START, "tools")
    compiled = graph.compile()
    state: Any = hello()
    with Run(registry=desk.registry) as run:
        for number in range(1, 7):
            run.turn()
            call = {"name": "look_up", "args": {"word": "loop"}, "id": f"call_{number}"}
            asking = AIMessage("", tool_calls=[call])
            state = compiled.invoke({"messages": [*state["messages"], asking]})
            if run.over:
                break
    assert ["loop"] == desk.ran
    assert 3 == number
    assert ["call_2", "call_3"] == noted(state)


def test_a_graph_with_checkpoints(desk: Desk) -> None:
    """A graph written by hand goes on after a stop, in its thread, as an agent does."""
    guard = desk.guard()
    model = ScriptedModel(steps=[*again(3), *again(1), "found"], requests=[])
    graph = StateGraph(GuardedState)
    graph.add_node("guard", guard.before_model)
    graph.add_node("end", guard.after_agent)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([desk.look_up], wrap_tool_call=guard.wrap_tool_call))
    graph.add_edge(START, "guard")
    graph.add_conditional_edges("guard", lambda state: state.get("jump_to") or "model")
    graph.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else "end"
    )
    graph.add_edge("tools", "guard")
    compiled = graph.compile(checkpointer=InMemorySaver())
    assert stopped(compiled.invoke(hello(), THREAD))
    assert "found" == compiled.invoke(hello("again"), THREAD)["messages"][-1].text
    assert ["loop", "loop"] == desk.ran
    assert ["stuck", "completed"] == [run.reason for run in desk.events.runs]
    assert not guard._tasks._tasks


def test_an_interrupt_beside_a_call_that_is_done(desk: Desk) -> None:
    """A node that is entered again after an interrupt does not run the calls again that were done."""

    @tool
    def confirm(word: str) -> str:
        """Confirm."""
        return str(interrupt(word))

    guard = desk.guard()
    graph = StateGraph(GuardedState)
    tools = ToolNode([desk.look_up, confirm], wrap_tool_call=guard.wrap_tool_call)
    calls = [
        {"name": "look_up", "args": {"word": "loop"}, "id": "call_1"},
        {"name": "confirm", "args": {"word": "sure?"}, "id": "call_2"},
    ]
    graph.add_node("guard", guard.before_model)
    graph.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=calls)]})
    graph.add_node("tools", tools)
    graph.add_edge(START, "guard")
    graph.add_edge("guard", "model")
    graph.add_edge("model", "tools")
    compiled = graph.compile(checkpointer=InMemorySaver())
    compiled.invoke(hello(), THREAD)
    state = compiled.invoke(Command(resume="yes"), THREAD)
    assert ["page of loop", "yes"] == [answer.text for answer in results(state).values()]
    assert ["loop"] == desk.ran


def test_agents_that_hand_over_to_each_other(desk: Desk) -> None:
    """A command that goes to another agent of the graph above goes there, and is guarded."""

    @tool
    def to_bob(call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Hand over to Bob."""
        answer = ToolMessage("handed over", tool_call_id=call_id)
        return Command(goto="bob", graph=Command.PARENT, update={"messages": [*asking, answer]})

    guard = desk.guard()
    asking = [AIMessage("", tool_calls=[{"name": "to_bob", "args": {}, "id": "call_1"}])]
    alice_model = ScriptedModel(steps=[*asking], requests=[])
    alice = create_agent(alice_model, [to_bob], middleware=[guard], name="alice")
    bob_model = ScriptedModel(steps=again(9), requests=[])
    bob = create_agent(bob_model, [desk.look_up], middleware=[guard], name="bob")
    graph = StateGraph(MessagesState)
    graph.add_node("alice", alice)
    graph.add_node("bob", bob)
    graph.add_edge(START, "alice")
    state = graph.compile().invoke(hello())
    assert stopped(state)
    assert 3 == len(bob_model.requests)
    assert ["loop"] == desk.ran


def test_two_threads_of_one_graph(desk: Desk) -> None:
    """Many unfinished invocations are kept up to a bound, and one that was dropped is taken up again."""
    guard = desk.guard()
    states = [{"messages": [HumanMessage("x")], "repeatguard_task": str(n)} for n in range(1500)]
    threads = [threading.Thread(target=lambda: [*map(guard.before_model, states)]) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1000 == len(guard._tasks._tasks)
