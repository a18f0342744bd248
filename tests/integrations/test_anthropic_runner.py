"""What only the tool runner of Anthropic's client has: threads, streams, toolsets, a host in its loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from integrations._driver import Ask, Step
from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk._text import DELIMITER
from repeatguard_sdk.events import MemorySink

pytest.importorskip("anthropic", reason="anthropic is not installed")

import anthropic
from anthropic import beta_async_tool, beta_tool

from integrations.drivers.anthropic import HAS_THREADS, SETTINGS, Provider, quiet
from repeatguard_sdk.integrations.anthropic import MessagesGuard, RunnerGuard

USER = {"role": "user", "content": "hello"}
threads = pytest.mark.skipif(not HAS_THREADS, reason="this client has no message threads")


class Desk:
    """Tools that note their calls, and a provider that is played."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.registry = Registry()
        self.events = MemorySink()

        @guarded_tool(registry=self.registry)
        def look_up(word: str) -> str:
            """Look a word up."""
            self.ran.append(word)
            return f"page of {word}"

        @guarded_tool(registry=self.registry)
        async def fetch(word: str) -> str:
            """Fetch a word."""
            self.ran.append(word)
            return f"page of {word}"

        self.look_up, self.fetch = look_up, fetch

    def runner(self, script: Sequence[Step], *tools: Any, messages: Any = None, **more: Any) -> Any:
        self.provider = Provider(script)
        client = self.provider.client(anthropic.Anthropic)
        given = list(tools) or [beta_tool(self.look_up)]
        return client.beta.messages.tool_runner(
            **SETTINGS, tools=given, messages=messages or [USER], **more
        )

    def async_runner(self, script: Sequence[Step], **more: Any) -> Any:
        self.provider = Provider(script)
        client = self.provider.client(anthropic.AsyncAnthropic)
        tools = [beta_async_tool(self.fetch)]
        return client.beta.messages.tool_runner(**SETTINGS, tools=tools, messages=[USER], **more)

    def guard(self, runner: Any, **settings: Any) -> RunnerGuard:
        return RunnerGuard(runner, registry=self.registry, events=self.events, **settings)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def ask(number: int, tool: str = "look_up", **arguments: Any) -> Ask:
    return Ask(tool, arguments or {"word": "loop"}, f"toolu_{number}")


def again(times: int, tool: str = "look_up", **arguments: Any) -> list[Step]:
    return [[ask(number, tool, **arguments)] for number in range(1, times + 1)]


def results_of(messages: Sequence[Any]) -> list[Any]:
    return [
        block
        for message in messages
        if message["role"] == "user" and not isinstance(message["content"], str)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


# -- the loop of the host --------------------------------------------------------------------------


def test_until_done_returns_the_last_message(desk: Desk) -> None:
    """Who only wants the end has it in one call, as with the runner itself."""
    guard = desk.guard(desk.runner([*again(2), "found"]))
    assert "found" == guard.until_done().content[0].text
    assert ["loop"] == desk.ran
    assert "assistant" == guard.messages[-1]["role"]


@pytest.mark.parametrize("stream", [False, True])
def test_until_done_can_be_awaited(desk: Desk, stream: bool) -> None:
    """The asynchronous runner's end is awaited, and streams are read on the way."""

    async def task() -> Any:
        guard = desk.guard(desk.async_runner([*again(6, "fetch")], stream=stream))
        return await guard.until_done(), guard

    message, guard = asyncio.run(task())
    assert "toolu_3" == message.content[0].id
    assert guard.run.stuck
    assert 3 == desk.provider.requests
    assert 3 == len(results_of(guard.messages))


def test_a_host_may_look_at_the_results(desk: Desk) -> None:
    """`generate_tool_call_response()` in the loop's body executes once, counts once and notes once."""
    runner = desk.runner(again(6))
    guard = desk.guard(runner)
    seen = [
        (runner.generate_tool_call_response(), runner.generate_tool_call_response()) for _ in guard
    ]
    assert ["loop"] == desk.ran
    assert 3 == desk.provider.requests
    assert all(first is second for first, second in seen)
    assert [0, 1, 1] == [results_of([first])[0]["content"].count(DELIMITER) for first, _ in seen]


def test_a_guard_may_be_made_before_the_block(desk: Desk) -> None:
    """The run is that of the block in which the loop is, wherever the guard was made."""
    guard = desk.guard(desk.runner(again(6)))
    with Run(registry=desk.registry) as run:
        guard.until_done()
    assert run.stuck
    assert guard.run is run


def test_tools_of_the_client_in_a_loop_by_hand(desk: Desk) -> None:
    """What `@beta_tool` made can be given to the guard of a loop by hand, under the name it has there."""
    renamed = beta_tool(desk.look_up, name="kb_search")

    def plain(word: str) -> str:
        """Say nothing new."""
        return f"plainly {word}"

    asked = {"type": "tool_use", "id": "toolu_1", "name": "kb_search", "input": {"word": "loop"}}
    other = {**asked, "id": "toolu_2", "name": "plain"}
    guard = MessagesGuard([renamed], registry=desk.registry)
    guard.next_turn([USER])
    (answer,) = guard.tool_results({"role": "assistant", "content": [asked]})
    assert "page of loop" == answer["content"][0]["content"]
    guard = MessagesGuard([beta_tool(desk.look_up), plain], registry=desk.registry)
    guard.next_turn([USER])
    (answer,) = guard.tool_results({"content": [{**asked, "name": "look_up"}, other]})
    assert ["page of loop", "plainly loop"] == [each["content"] for each in answer["content"]]


def test_a_loop_that_is_left_early(desk: Desk) -> None:
    """A host that breaks out of the loop has ended the run, as completed."""
    guard = desk.guard(desk.runner(again(6)))
    for _ in guard:
        break
    assert ["completed"] == [run.reason for run in desk.events.runs]
    assert 1 == desk.provider.requests


def test_an_asynchronous_loop_that_is_left_early(desk: Desk) -> None:
    """The run ends with the generator, in whatever task that is."""

    async def task() -> None:
        iterator = aiter(desk.guard(desk.async_runner(again(6, "fetch"))))
        await anext(iterator)
        await anext(iterator)
        await asyncio.create_task(iterator.aclose())  # type: ignore[attr-defined]

    asyncio.run(task())
    assert ["completed"] == [run.reason for run in desk.events.runs]


def test_a_cancelled_task(desk: Desk) -> None:
    """A task that is cancelled within a tool leaves no run behind, and the call is not counted."""
    started = asyncio.Event()

    async def wait(word: str) -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(60)
        return word

    async def task() -> None:
        provider = Provider(again(2, "wait"))
        client = provider.client(anthropic.AsyncAnthropic)
        tool = beta_async_tool(guarded_tool(registry=desk.registry)(wait))
        runner = client.beta.messages.tool_runner(**SETTINGS, tools=[tool], messages=[USER])
        running = asyncio.create_task(desk.guard(runner).until_done())
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(task())
    assert 1 == len(desk.events.runs)
    assert not desk.events.repeats


def test_a_provider_that_fails(desk: Desk) -> None:
    """An error of the client is raised as it is, and the run has failed."""
    runner = desk.runner(
        [],
        messages=[
            USER,
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_9", "name": "look_up", "input": {}}],
            },
        ],
    )
    with pytest.raises(anthropic.BadRequestError, match="no result for"):
        desk.guard(runner).until_done()
    assert ["failed"] == [run.reason for run in desk.events.runs]


def test_the_number_of_replies_is_still_bounded(desk: Desk) -> None:
    """The runner's own bound holds."""
    script: list[Step] = [[ask(number, word=f"word {number}")] for number in range(1, 9)]
    desk.guard(desk.runner(script, max_iterations=2)).until_done()
    assert 2 == desk.provider.requests


def test_a_run_of_the_host_goes_on_behind_the_loop(desk: Desk) -> None:
    """In a block nothing is raised by the loop's end: the code behind it is reached."""
    with Run(registry=desk.registry) as run:
        guard = desk.guard(desk.runner(again(6)))
        for _ in guard:
            pass
        reached = guard.messages
        # A run that is over asks the model for nothing more.
        assert not list(desk.guard(desk.runner(again(6))))
        assert 0 == desk.provider.requests
    assert 3 == len(results_of(reached))
    assert run.stuck


def test_the_wrong_kind_of_loop(desk: Desk) -> None:
    """A loop of the other kind than the client's is told so."""
    with pytest.raises(TypeError, match="async for"):
        iter(desk.guard(desk.async_runner([]))).__next__()

    async def task() -> None:
        async for _ in desk.guard(desk.runner([])):
            pass

    with pytest.raises(TypeError, match="write: for message in guard"):
        asyncio.run(task())


def test_a_runner_has_one_guard(desk: Desk) -> None:
    """A second guard on one runner is rejected."""
    runner = desk.runner([])
    desk.guard(runner)
    with pytest.raises(ValueError, match="a guard already"):
        desk.guard(runner)


def test_a_user_may_speak_in_the_loop(desk: Desk) -> None:
    """What the host appends for its user resets the counts, and the runner's batch counts once."""
    runner = desk.runner([*again(2), *again(6)[2:4], "found"])
    guard = desk.guard(runner)
    for number, message in enumerate(guard, 1):
        if number == 2:
            response = runner.generate_tool_call_response()
            response["content"].append({"type": "text", "text": "look again, please"})
            runner.append_messages({"role": "assistant", "content": message.content}, response)
    assert ["loop", "loop"] == desk.ran
    assert not guard.run.over


# -- tools -----------------------------------------------------------------------------------------


def test_an_error_with_blocks(desk: Desk) -> None:
    """A tool's own error content stays, and the observation is a block behind it."""
    tools = pytest.importorskip("anthropic.lib.tools")
    if not hasattr(tools, "ToolError"):
        pytest.skip("this client has no ToolError")

    @beta_tool
    @guarded_tool(registry=desk.registry)
    def draw(word: str) -> str:
        """Draw."""
        raise tools.ToolError([{"type": "text", "text": f"no ink for {word}"}])

    guard = desk.guard(desk.runner(again(2, "draw"), draw))
    with quiet():
        guard.until_done()
    first, second = results_of(guard.messages)
    assert [{"type": "text", "text": "no ink for loop"}] == first["content"]
    assert first["content"][0] == second["content"][0]
    assert second["content"][1]["text"].startswith(DELIMITER)
    assert second["is_error"]


def test_blocks_may_come_one_by_one(desk: Desk) -> None:
    """A tool nobody declared that returns an iterator is compared and replayed like any other."""

    def draw(word: str) -> Any:
        """Draw."""
        desk.ran.append(word)
        return iter([{"type": "text", "text": f"picture of {word}"}])

    guard = desk.guard(desk.runner(again(9, "draw"), beta_tool(draw)), effects={"draw": "read"})
    guard.until_done()
    assert ["loop"] == desk.ran
    texts = [result["content"][0]["text"] for result in results_of(guard.messages)]
    assert ["picture of loop"] * 3 == texts


def test_an_agent_in_a_tool_has_a_run_of_its_own(desk: Desk) -> None:
    """The calls of a nested runner are no calls of the outer one, though the ids may be the same."""

    @beta_tool
    @guarded_tool(registry=desk.registry)
    def delegate(task: str) -> str:
        """Let another agent do it."""
        provider = Provider([[ask(1, word=task)], [ask(2, word=task)], f"done {task}"])
        runner = provider.client(anthropic.Anthropic).beta.messages.tool_runner(
            **SETTINGS, tools=[beta_tool(desk.look_up)], messages=[USER]
        )
        return str(desk.guard(runner).until_done().content[0].text)

    script: list[Step] = [[ask(1, "delegate", task="a")], [ask(2, "delegate", task="b")]]
    guard = desk.guard(desk.runner(script, delegate))
    guard.until_done()
    assert ["a", "b"] == desk.ran
    assert ["done a", "done b"] == [result["content"] for result in results_of(guard.messages)]
    assert [2, 2, 2] == [run.calls for run in desk.events.runs]


def test_what_the_provider_runs_is_an_option(desk: Desk) -> None:
    """A server tool is named among what is still open."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    try:
        runner = desk.runner(again(2), beta_tool(desk.look_up), search)
    except AttributeError:
        pytest.skip("this client's runner takes function tools only")
    guard = desk.guard(runner)
    guard.until_done()
    assert "\n- web_search" in results_of(guard.messages)[1]["content"]


def test_tools_are_left_as_they_are(desk: Desk) -> None:
    """The guard is in its runner only: the same tool works without one."""
    tool = beta_tool(desk.look_up)
    desk.guard(desk.runner(again(2), tool)).until_done()
    desk.runner(again(4), tool).until_done()
    assert ["loop"] * 5 == desk.ran


def test_a_tool_of_a_class(desk: Desk) -> None:
    """A tool that is an object of its own is guarded as one that may change anything."""
    functions = pytest.importorskip("anthropic.lib.tools._beta_functions")
    base = getattr(functions, "BetaBuiltinFunctionTool", None)
    if base is None:
        pytest.skip("this client has function tools only")

    class Memory(base):  # type: ignore[misc,valid-type]
        calls = 0

        def to_dict(self) -> Any:
            return {"type": "memory_20250818", "name": "memory"}

        def call(self, input: Any) -> str:
            self.calls += 1
            return f"read {input['path']}"

    memory = Memory()
    guard = desk.guard(desk.runner(again(9, "memory", path="/a"), memory))
    guard.until_done()
    assert 2 == memory.calls
    assert 5 == desk.provider.requests


def test_failures_of_a_history_are_taken_up(desk: Desk) -> None:
    """A runner that starts in the middle counts failures and what reached no tool on."""

    @guarded_tool(registry=desk.registry)
    def fail(word: str) -> str:
        """Fail."""
        desk.ran.append(word)
        msg = f"{word} is broken"
        raise LookupError(msg)

    tools = [beta_tool(desk.look_up), beta_tool(fail)]
    script = [[ask(1, "fail"), ask(2, "nothing"), ask(3, wort="x")]]
    with quiet():
        guard = desk.guard(desk.runner(script, *tools))
        guard.until_done()
        messages = guard.messages[:-1]
        desk.ran.clear()
        script = [[ask(4, "fail"), ask(5, "nothing"), ask(6, wort="x")], [ask(7, "fail")]]
        guard = desk.guard(desk.runner(script, *tools, messages=messages))
        guard.until_done()
    assert ["loop"] == desk.ran
    assert [True] * 4 == [DELIMITER in each["content"] for each in results_of(guard.messages)[3:]]


# -- replies ---------------------------------------------------------------------------------------


class Cut(Provider):
    """A provider whose replies end for a reason of their own."""

    reasons: list[str]

    def reply(self) -> dict[str, Any]:
        reply = super().reply()
        return {**reply, "stop_reason": self.reasons.pop(0)} if self.reasons else reply


@threads
def test_a_reply_that_was_cut_off_is_not_executed(desk: Desk) -> None:
    """The runner decides what is executed: nothing of a reply that ran out of tokens."""
    provider = Cut(again(2))
    provider.reasons = ["max_tokens"]
    client = provider.client(anthropic.Anthropic)
    tools = [beta_tool(desk.look_up)]
    desk.guard(
        client.beta.messages.tool_runner(**SETTINGS, tools=tools, messages=[USER])
    ).until_done()
    assert [] == desk.ran
    assert 1 == provider.requests


@threads
def test_a_turn_that_paused_goes_on(desk: Desk) -> None:
    """A reply that the provider paused is sent back, and the next one is a turn as any other."""
    provider = Cut(["searching", *again(6)])
    provider.reasons = ["pause_turn"]
    client = provider.client(anthropic.Anthropic)
    tools = [beta_tool(desk.look_up)]
    guard = desk.guard(
        client.beta.messages.tool_runner(**SETTINGS, tools=tools, messages=[USER], thread=False)
    )
    guard.until_done()
    assert ["loop"] == desk.ran
    assert 4 == provider.requests
    assert guard.run.stuck


def test_parsed_output_is_left_alone(desk: Desk) -> None:
    """A runner that parses its last message does so, and what it parsed is not sent with the history."""
    pydantic = pytest.importorskip("pydantic")
    if not HAS_THREADS:
        pytest.skip("this client parses no output of a runner")

    class Answer(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        word: str

    script: list[Step] = [*again(2), json.dumps({"word": "loop"})]
    guard = desk.guard(desk.runner(script, output_format=Answer))
    assert Answer(word="loop") == guard.until_done().parsed_output
    messages = [*guard.messages, {"role": "user", "content": "thanks"}]
    assert desk.runner(["welcome"], messages=messages).until_done().content[0].text == "welcome"


# -- the newest runner -----------------------------------------------------------------------------


@threads
def test_a_thread_can_be_gone_on_with(desk: Desk) -> None:
    """A stopped runner leaves its thread with a result for every call: the user's next turn is legal."""
    desk.provider = Provider([*again(3), "all right"])
    client = desk.provider.client(anthropic.Anthropic)
    thread = client.beta.messages.thread(
        **SETTINGS, tools=[beta_tool(desk.look_up)], messages=[USER]
    )
    guard = desk.guard(thread.tool_runner())
    guard.until_done()
    assert guard.run.stuck
    thread.append({"role": "user", "content": "leave it"})
    assert "all right" == thread.send().content[0].text
    # It is one thread on the server too: each request held what was new.
    assert [("result", "toolu_3"), ("user", "")] == desk.provider.sent[-2:]
    assert 4 == len(desk.provider.held)


@threads
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_tools_that_run_while_the_reply_streams(desk: Desk, kind: str) -> None:
    """A tool that runs before its reply has ended is the call it is for, and the loop ends as ever."""
    script = [
        [ask(number, tool), ask(number + 10, tool, word="other")]
        for number, tool in ((n, "look_up" if kind == "sync" else "fetch") for n in range(1, 7))
    ]

    async def aplay() -> RunnerGuard:
        guard = desk.guard(desk.async_runner(script, stream=True, run_tools_eagerly=True))
        async for stream in guard:
            assert [event async for event in stream]
        return guard

    if kind == "sync":
        guard = desk.guard(desk.runner(script, stream=True, run_tools_eagerly=True))
        for stream in guard:
            assert list(stream)
    else:
        guard = asyncio.run(aplay())
    assert ["loop", "other"] == desk.ran
    assert 3 == desk.provider.requests
    results = results_of(guard.messages)
    assert [f"toolu_{n}" for n in (1, 11, 2, 12, 3, 13)] == [
        each["tool_use_id"] for each in results
    ]
    assert DELIMITER in results[2]["content"]


@threads
def test_tools_that_come_and_go(desk: Desk) -> None:
    """A tool that is added on the way is guarded and an option; one that is removed is refused."""
    runner = desk.runner([[ask(1)], [ask(2, "late")], [ask(3, "late")], [ask(4)]])

    @beta_tool
    @guarded_tool(registry=desk.registry)
    def late(word: str) -> str:
        """Come late."""
        desk.ran.append(f"late {word}")
        return "late"

    guard = desk.guard(runner)
    with quiet():
        for number, _ in enumerate(guard, 1):
            if number == 1:
                runner.add_tools(late)
            if number == 3:
                runner.remove_tools("look_up")
    assert ["loop", "late loop"] == desk.ran
    assert "look_up" not in results_of(guard.messages)[-1]["content"].partition("not found")[2]


def toolset(desk: Desk, kind: str) -> Any:
    """Return a browser that is played."""
    made = pytest.importorskip("anthropic.lib.tools._toolsets._runnable")

    def act(name: str) -> Any:
        desk.ran.append(name)
        if name == "fall":
            msg = "fell"
            raise RuntimeError(msg)
        return [{"type": "text", "text": f"did {name}"}]

    class Browser(made.BetaRunnableToolset):  # type: ignore[misc,name-defined]
        toolset_name = "browser"

        def to_dict(self) -> Any:
            return {"type": "browser_toolset_20260801"}

        def call(self, context: Any, name: str, input: Any) -> Any:
            return act(name)

    class AsyncBrowser(made.BetaAsyncRunnableToolset):  # type: ignore[misc,name-defined]
        toolset_name = "browser"
        to_dict = Browser.to_dict

        async def call(self, context: Any, name: str, input: Any) -> Any:
            return act(name)

    return Browser() if kind == "sync" else AsyncBrowser()


@threads
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_tools_of_a_toolset(desk: Desk, kind: str) -> None:
    """A member of a toolset is guarded as a tool that may change anything, and a failing one as well."""
    desk.provider = Members(again(9, "scroll"))
    guard = browse(desk, kind)
    results = results_of(guard.messages)
    assert ["scroll"] * 2 == desk.ran
    assert [f"toolu_{n}" for n in range(1, 6)] == [each["tool_use_id"] for each in results]
    assert {"browser"} == {each["toolset_name"] for each in results}
    assert {"did scroll"} == {each["content"][0]["text"] for each in results[:4]}
    assert results[1]["content"][1]["text"].startswith(DELIMITER)
    assert guard.run.stuck


@threads
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_failing_member_of_a_toolset(desk: Desk, kind: str) -> None:
    """A failure stops the rest of its batch, which is not held against the model."""
    script: list[Step] = [[ask(n, "fall"), ask(n + 10, "scroll")] for n in range(1, 9)]
    desk.provider = Members(script)
    guard = browse(desk, kind)
    results = results_of(guard.messages)
    assert ["fall"] * 2 == desk.ran
    assert 4 == desk.provider.requests
    assert all(each["is_error"] for each in results)
    assert ["toolu_3", "toolu_13"] == [each["tool_use_id"] for each in results[4:6]]
    assert {"browser.fall"} == {event.tool for event in desk.events.repeats}


@threads
def test_the_host_knows_the_tools_of_a_toolset(desk: Desk) -> None:
    """What a member does is said under the toolset's name and its own."""
    desk.provider = Members(again(3, "scroll"))
    browse(desk, "sync", effects={"browser.scroll": "live"})
    assert ["scroll"] * 3 == desk.ran


@threads
def test_a_conversation_that_is_made_shorter(desk: Desk) -> None:
    """Where the runner compacts, a stored result may be delivered once more without a note."""
    runner = desk.runner([[ask(1)], "a summary", [ask(2)], "found"])
    provider = desk.provider
    reply = provider.reply

    def compacting() -> dict[str, Any]:
        made = reply()
        if made["content"][0].get("text") == "a summary":
            block = {"type": "compaction", "content": "a summary"}
            made = {**made, "content": [block], "stop_reason": "compaction"}
        return made

    provider.reply = compacting  # type: ignore[method-assign]
    guard = desk.guard(runner)
    for number, _ in enumerate(guard, 1):
        if number == 1:
            runner.compact_before_next_turn()
    assert ["loop"] == desk.ran
    (result,) = results_of(guard.messages)
    assert "page of loop" == result["content"]


class Members(Provider):
    """A provider whose model asks for members of the browser toolset."""

    def reply(self) -> dict[str, Any]:
        reply = super().reply()
        asked = [{**block, "toolset_name": "browser"} for block in reply["content"]]
        return {**reply, "content": asked if "id" in asked[0] else reply["content"]}


def browse(desk: Desk, kind: str, **settings: Any) -> RunnerGuard:
    kinds = {"sync": anthropic.Anthropic, "async": anthropic.AsyncAnthropic}
    client = desk.provider.client(kinds[kind])
    runner = client.beta.messages.tool_runner(
        **SETTINGS, tools=[toolset(desk, kind)], messages=[USER]
    )
    guard = desk.guard(runner, **settings)
    if kind == "sync":
        guard.until_done()
    else:
        asyncio.run(guard.until_done())
    return guard


def test_a_loop_that_is_stepped_by_many_threads(desk: Desk) -> None:
    """A host that pulls each reply in another thread, as a web server does, has one run all the same."""
    iterator = iter(desk.guard(desk.runner(again(6))))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        pulled = [pool.submit(next, iterator, None).result() for pool in (one, other) * 2]
    assert [True, True, True, False] == [item is not None for item in pulled]
    assert ["loop"] == desk.ran
    assert ["stuck"] == [run.reason for run in desk.events.runs]
