"""Loops by hand and tool runners over the real `anthropic` client, whose transport plays the provider."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import anthropic
from anthropic import beta_async_tool, beta_tool

from integrations._driver import Ask, Driver, Layout, Mode, Record, Step, faults
from repeatguard_sdk.integrations._history import is_note
from repeatguard_sdk.integrations.anthropic import MessagesGuard, RunnerGuard

try:
    import httpx2 as httpx
except ModuleNotFoundError:  # an older client
    import httpx  # type: ignore[no-redef]

SETTINGS: dict[str, Any] = {"model": "scripted", "max_tokens": 64}
# The newest runner leaves the history with the server, and sends what is new.
HAS_THREADS = hasattr(anthropic.Anthropic(api_key="none").beta.messages, "thread")


class Paused(Exception):
    """Stands for what a host raises to leave a tool without an outcome, as for an approval."""


def blocks_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def layout_of(messages: Any) -> Layout:
    found: Layout = []
    for message in messages:
        for block in blocks_of(message):
            if block["type"] == "tool_use":
                found.append(("call", block["id"]))
            elif block["type"] == "tool_result":
                found.append(("result", block["tool_use_id"]))
            else:
                found.append(("note" if is_note(block.get("text", "")) else message["role"], ""))
    return found


def refusals(messages: Any) -> list[str]:
    """Return what Anthropic would refuse: results come first in the very next message, each id once."""
    found = faults(layout_of(messages))
    waiting: list[str] = []
    for message in messages:
        blocks = blocks_of(message)
        kinds = [block["type"] for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(waiting) != sorted(results):
            found.append(f"results for {results} where {waiting} wait")
        if "tool_result" in kinds[len(results) :]:
            found.append("results do not come first")
        if results and message["role"] != "user":
            found.append(f"results in a message of {message['role']}")
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if any(not isinstance(block.get("input", {}), dict) for block in blocks):
            found.append("an input is no object")
        known = {"type", "text", "id", "name", "input", "tool_use_id", "content", "is_error"}
        extra = {name for block in blocks for name in block} - known - {"tool", "toolset_name"}
        if extra:
            found.append(f"extra inputs are not permitted: {extra}")
    return found


class Provider:
    """Answers requests from a script, and refuses what the provider would refuse."""

    def __init__(self, script: Sequence[Step]) -> None:
        self.script = list(script)
        self.requests = 0
        self.sent: Layout = []
        self.held: dict[str, list[Any]] = {}

    def client(self, kind: Any) -> Any:
        transport = httpx.MockTransport(self.handle)
        if kind is anthropic.AsyncAnthropic:
            http: Any = httpx.AsyncClient(transport=transport)
        else:
            http = httpx.Client(transport=transport)
        return kind(api_key="none", http_client=http, max_retries=0)

    def handle(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.requests += 1
        messages = body["messages"]
        thread = body.get("thread") or {}
        if thread.get("type") == "continue":
            messages = [*self.held[thread["previous_message_id"]], *messages]
        self.sent = layout_of(messages)
        wrong = refusals(messages)
        if wrong:
            error = {"type": "invalid_request_error", "message": "; ".join(wrong)}
            return httpx.Response(400, json={"type": "error", "error": error})
        reply = self.reply()
        sent_back = {"role": "assistant", "content": reply["content"]}
        self.held[reply["id"]] = [*messages, sent_back]
        return streamed(reply) if body.get("stream") else httpx.Response(200, json=reply)

    def reply(self) -> dict[str, Any]:
        step = self.script.pop(0) if self.script else "done"
        if isinstance(step, str):
            content, reason = [{"type": "text", "text": step}], "end_turn"
        else:
            content, reason = [tool_use(ask) for ask in step], "tool_use"
        return {
            "id": f"msg_{self.requests}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }


def tool_use(ask: Ask) -> dict[str, Any]:
    # What is no JSON reaches the host in this shape.
    given = ask.arguments if isinstance(ask.arguments, Mapping) else {"INVALID_JSON": ask.arguments}
    return {"type": "tool_use", "id": ask.call_id, "name": ask.tool, "input": dict(given)}


def streamed(reply: Mapping[str, Any]) -> httpx.Response:
    start = {**reply, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(reply["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            given = json.dumps(block["input"])
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": given}
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ended = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    headers = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=headers, text="".join(lines))


def plain(message: Any) -> dict[str, Any]:
    """Return a message as the JSON a host would keep."""
    content = message["content"] if isinstance(message, dict) else message.content
    if not isinstance(content, str):
        content = [
            block
            if isinstance(block, dict)
            else {
                name: value
                for name, value in block.model_dump(exclude_none=True).items()
                if name in ("type", "text", "id", "name", "input")
            }
            for block in content
        ]
    role = message["role"] if isinstance(message, dict) else message.role
    return {"role": role, "content": content}


class AnthropicDriver:
    """What both ways of looping have in common."""

    distribution: ClassVar[str] = "anthropic"
    adapter: ClassVar[str] = "anthropic"
    cannot: ClassVar[Mapping[str, str]] = {
        "annotations": "the client keeps none of them of an MCP tool, and the provider runs the others",
        "context": "nothing is filled in by the client",
        "denied": "a person is asked in the host's own code, which tells `run.refused`",
    }
    delivered = 1

    def tool(self, function: Callable[..., Any], *, name: str | None = None) -> Any:
        return (name or getattr(function, "__name__", ""), function)

    def typed_tool(self, guard: Callable[..., Any], body: Callable[[str], dict[str, int]]) -> Any:
        @guard
        def typed(word: str) -> list[dict[str, Any]]:
            """Count the letters of a word, and answer in blocks."""
            return [{"type": "text", "text": json.dumps(body(word))}]

        return self.tool(typed)

    def pausing(self) -> type[Exception]:
        return Paused

    def retried(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        times: int,
        guard: Mapping[str, Any] | None = None,
    ) -> Record:
        self.delivered = times
        return self.run(tools, script, guard=guard)

    def run(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        mode: Mode = "sync",
        user: str | None = "hello",
        history: Any = None,
        guard: Mapping[str, Any] | None = None,
    ) -> Record:
        self.record = record = Record(history=list(history or ()))
        if user is not None:
            record.history.append({"role": "user", "content": user})
        self.provider = Provider(script)
        functions = dict(tools)
        if any(map(inspect.iscoroutinefunction, functions.values())) and mode == "sync":
            mode = "async"
        try:
            if mode == "async":
                asyncio.run(self.aplay(functions, dict(guard or {})))
            else:
                self.play(functions, dict(guard or {}), stream=mode == "stream")
        finally:
            record.history = list(map(plain, record.history))
            record.requests, record.sent = self.provider.requests, self.provider.sent
            record.layout = layout_of(record.history)
            for message in record.history:
                self.note(message)
        return record

    def note(self, message: dict[str, Any]) -> None:
        for block in blocks_of(message):
            if block["type"] == "tool_result":
                content = block["content"]
                if not isinstance(content, str):
                    self.record.typed[block["tool_use_id"]] = content[0]
                    content = "\n\n".join(part["text"] for part in content)
                self.record.results[block["tool_use_id"]] = content
            elif message["role"] == "assistant" and block["type"] == "text":
                self.record.text = block["text"]

    def play(self, functions: Any, guard: dict[str, Any], *, stream: bool) -> None:
        raise NotImplementedError

    async def aplay(self, functions: Any, guard: dict[str, Any]) -> None:
        raise NotImplementedError


class MessagesDriver(AnthropicDriver):
    """A loop written by hand."""

    name: ClassVar[str] = "anthropic (Messages)"
    cannot: ClassVar[Mapping[str, str]] = {
        **AnthropicDriver.cannot,
        "wrong_order": "the loop needs no decorator of the client's",
    }

    def play(self, functions: Any, guard: dict[str, Any], *, stream: bool) -> None:
        client = self.provider.client(anthropic.Anthropic)
        messages = self.record.history
        loop = MessagesGuard(functions, **guard)
        while loop.next_turn(messages):
            if stream:
                with client.messages.stream(**SETTINGS, messages=messages) as events:
                    reply = events.get_final_message()
            else:
                reply = client.messages.create(**SETTINGS, messages=messages)
            messages.append(plain(reply))
            if reply.stop_reason != "tool_use":
                break
            answers = [loop.tool_results(reply) for _ in range(self.delivered)]
            messages += answers[-1]
        self.record.stopped = loop.run.over
        loop.close()

    async def aplay(self, functions: Any, guard: dict[str, Any]) -> None:
        client = self.provider.client(anthropic.AsyncAnthropic)
        messages = self.record.history
        loop = MessagesGuard(functions, **guard)
        while loop.next_turn(messages):
            reply = await client.messages.create(**SETTINGS, messages=messages)
            messages.append(plain(reply))
            if reply.stop_reason != "tool_use":
                break
            messages += await loop.atool_results(reply)
        self.record.stopped = loop.run.over
        loop.close()


def as_coroutine_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what the asynchronous runner takes: it has no place for other functions."""
    if inspect.iscoroutinefunction(function):
        return function

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


class RunnerDriver(AnthropicDriver):
    """The client's own tool runner."""

    name: ClassVar[str] = "anthropic (tool_runner)"
    whole_history = True

    def wrong_order(self, guard: Callable[..., Any], function: Callable[..., Any]) -> Any:
        return guard(beta_tool(function))

    def options(self, functions: Mapping[str, Any], decorate: Any, **more: Any) -> dict[str, Any]:
        tools = [decorate(function, name=name) for name, function in functions.items()]
        if HAS_THREADS and self.whole_history:
            more["thread"] = False
        return {**SETTINGS, **more, "tools": tools, "messages": list(self.record.history)}

    def play(self, functions: Any, guard: dict[str, Any], *, stream: bool) -> None:
        client = self.provider.client(anthropic.Anthropic)
        options = self.options(functions, beta_tool, **({"stream": True} if stream else {}))
        runner = client.beta.messages.tool_runner(**options)
        loop = RunnerGuard(runner, **guard)
        with quiet():
            for item in loop:
                if stream:
                    assert list(item)
                if self.delivered > 1 and item.stop_reason == "tool_use":
                    self.deliver_again(runner, item)
        self.finish(loop)

    def deliver_again(self, runner: Any, item: Any) -> None:
        for _ in range(self.delivered - 1):
            response = runner.generate_tool_call_response()
            # It makes the runner forget that the tools have run.
            runner.append_messages()
        runner.append_messages(plain(item), response)

    async def aplay(self, functions: Any, guard: dict[str, Any]) -> None:
        client = self.provider.client(anthropic.AsyncAnthropic)
        functions = {name: as_coroutine_function(each) for name, each in functions.items()}
        runner = client.beta.messages.tool_runner(**self.options(functions, beta_async_tool))
        loop = RunnerGuard(runner, **guard)
        with quiet():
            async for _ in loop:
                pass
        self.finish(loop)

    def finish(self, loop: RunnerGuard) -> None:
        self.record.history = loop.messages
        self.record.stopped = loop.run.over


class quiet:
    """Lets the runner warn of unknown tools and log failed ones: these cases are about them."""

    def __enter__(self) -> None:
        self.caught = warnings.catch_warnings()
        self.caught.__enter__()
        warnings.filterwarnings("ignore", "Tool '.*' not found", UserWarning)
        logging.getLogger("anthropic.lib.tools").setLevel(logging.CRITICAL)

    def __exit__(self, *error: object) -> None:
        self.caught.__exit__(*error)  # type: ignore[arg-type]


class ThreadDriver(RunnerDriver):
    """The tool runner as it is by default since it has message threads: it sends what is new."""

    name: ClassVar[str] = "anthropic (tool_runner over a thread)"
    whole_history = False


DRIVERS: list[type[Driver]] = [MessagesDriver, RunnerDriver]
if HAS_THREADS:
    DRIVERS.append(ThreadDriver)
