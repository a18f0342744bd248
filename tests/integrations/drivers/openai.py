"""Loops written by hand over the real `openai` client, whose transport plays the provider."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import openai

from integrations._driver import Ask, Driver, Layout, Mode, Record, Step, faults, items_layout
from repeatguard_sdk.integrations._history import is_note
from repeatguard_sdk.integrations.openai import ChatGuard, ResponsesGuard

try:
    import httpx2 as httpx
except ModuleNotFoundError:  # an older client
    import httpx  # type: ignore[no-redef]


try:
    from openai.lib import responses_tool_runner as runners
except ImportError:  # a client before it had one
    runners = None  # type: ignore[assignment]


class Provider:
    """Answers requests from a script, and refuses what the provider would refuse."""

    def __init__(self, script: Sequence[Step], layout: Callable[[Any], Layout]) -> None:
        self.script = list(script)
        self.layout = layout
        self.requests = 0
        self.sent: Layout = []

    def next(self, history: Any) -> Step:
        self.requests += 1
        self.sent = self.layout(history)
        wrong = faults(self.sent)
        if wrong:
            raise ValueError("; ".join(wrong))
        return self.script.pop(0) if self.script else "done"

    def client(self, kind: Any, answer: Callable[[dict[str, Any]], httpx.Response]) -> Any:
        def handle(request: httpx.Request) -> httpx.Response:
            try:
                return answer(json.loads(request.content))
            except ValueError as error:
                return httpx.Response(400, json={"error": {"message": str(error)}})

        transport = httpx.MockTransport(handle)
        if kind is openai.AsyncOpenAI:
            http: Any = httpx.AsyncClient(transport=transport)
        else:
            http = httpx.Client(transport=transport)
        return kind(api_key="none", http_client=http, max_retries=0)


def as_json(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def sse(events: Sequence[Mapping[str, Any]], *, named: bool, end: str = "") -> httpx.Response:
    lines = [
        (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n"
        for event in events
    ]
    headers = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=headers, text="".join(lines) + end)


class Retried(Exception):
    """Stands for what a host raises to leave a tool without an outcome, as for an approval."""


class HandLoop:
    """What both APIs have in common."""

    distribution: ClassVar[str] = "openai"
    adapter: ClassVar[str] = "openai"
    cannot: ClassVar[Mapping[str, str]] = {
        "annotations": "tools of MCP servers are run by the provider",
        "context": "the loop calls the function itself and fills in nothing",
        "denied": "a person is asked in the host's own code, which tells `run.refused`",
        "wrong_order": "there is no decorator of the client's",
    }
    delivered: ClassVar[int] = 1

    def tool(self, function: Callable[..., Any], *, name: str | None = None) -> Any:
        return (name or getattr(function, "__name__", ""), function)

    def typed_tool(self, guard: Callable[..., Any], body: Callable[[str], dict[str, int]]) -> Any:
        @guard
        def typed(word: str) -> dict[str, int]:
            """Count the letters of a word."""
            return body(word)

        return self.tool(typed)

    def pausing(self) -> type[Exception]:
        return Retried

    def retried(
        self,
        tools: Sequence[Any],
        script: Sequence[Step],
        *,
        times: int,
        guard: Mapping[str, Any] | None = None,
    ) -> Record:
        self.delivered = times  # type: ignore[misc]
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
        self.record = Record(history=list(history or ()))
        if user is not None:
            self.record.history.append({"role": "user", "content": user})
        self.provider = Provider(script, self.layout)
        functions = dict(tools)
        if any(map(inspect.iscoroutinefunction, functions.values())) and mode == "sync":
            mode = "async"
        try:
            if mode == "async":
                asyncio.run(self.aplay(functions, dict(guard or {})))
            else:
                self.play(functions, dict(guard or {}), stream=mode == "stream")
        finally:
            self.record.requests, self.record.sent = self.provider.requests, self.provider.sent
            self.record.layout = self.layout(self.record.history)
            self.record.results = self.results(self.record.history)
        return self.record

    layout: Callable[[Any], Layout]
    results: Callable[[Any], dict[str, str]]

    def play(self, functions: Any, guard: dict[str, Any], *, stream: bool) -> None:
        raise NotImplementedError

    async def aplay(self, functions: Any, guard: dict[str, Any]) -> None:
        raise NotImplementedError


def chat_layout(messages: Any) -> Layout:
    found: Layout = []
    for message in messages:
        if message["role"] == "tool":
            found.append(("result", message["tool_call_id"]))
        elif message.get("tool_calls"):
            found += [("call", call["id"]) for call in message["tool_calls"]]
        else:
            note = isinstance(message["content"], str) and is_note(message["content"])
            found.append(("note" if note else message["role"], ""))
    return found


class ChatDriver(HandLoop):
    """Chat Completions."""

    name: ClassVar[str] = "openai (Chat Completions)"
    layout = staticmethod(chat_layout)

    @staticmethod
    def results(messages: Any) -> dict[str, str]:
        return {
            message["tool_call_id"]: message["content"]
            for message in messages
            if message["role"] == "tool"
        }

    def answer(self, body: dict[str, Any]) -> httpx.Response:
        step = self.provider.next(body["messages"])
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if isinstance(step, str):
            message["content"] = step
        else:
            message["tool_calls"] = [
                {
                    "id": ask.call_id,
                    "type": "function",
                    "function": {"name": ask.tool, "arguments": as_json(ask.arguments)},
                }
                for ask in step
            ]
        reason = "stop" if isinstance(step, str) else "tool_calls"
        head = {"id": "chatcmpl-1", "created": 0, "model": "scripted"}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return httpx.Response(
                200, json={**head, "object": "chat.completion", "choices": [choice]}
            )
        for place, call in enumerate(message.get("tool_calls", ())):
            call["index"] = place
        chunks = [({**message}, None), ({}, reason)]
        events = [
            {
                **head,
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            }
            for delta, finish in chunks
        ]
        return sse(events, named=False, end="data: [DONE]\n\n")

    def take(self, message: Any) -> Any:
        plain = message.model_dump(exclude_none=True)
        for call in plain.get("tool_calls", ()):
            # What the streaming helper adds to a function is no part of the API.
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        plain.pop("parsed", None)
        self.record.history.append(plain)
        self.record.text = plain.get("content")
        return message

    def play(self, functions: Any, guard: dict[str, Any], *, stream: bool) -> None:
        client = self.provider.client(openai.OpenAI, self.answer)
        messages = self.record.history
        chat = ChatGuard(functions, **guard)
        while chat.next_turn(messages):
            if stream:
                with client.chat.completions.stream(model="scripted", messages=messages) as events:
                    completion = events.get_final_completion()
            else:
                completion = client.chat.completions.create(model="scripted", messages=messages)
            message = self.take(completion.choices[0].message)
            if not message.tool_calls:
                break
            answers = [chat.tool_messages(message) for _ in range(self.delivered)]
            messages += answers[-1]
        self.record.stopped = chat.run.over
        chat.close()

    async def aplay(self, functions: Any, guard: dict[str, Any]) -> None:
        client = self.provider.client(openai.AsyncOpenAI, self.answer)
        messages = self.record.history
        chat = ChatGuard(functions, **guard)
        while chat.next_turn(messages):
            completion = await client.chat.completions.create(model="scripted", messages=messages)
            message = self.take(completion.choices[0].message)
            if not message.tool_calls:
                break
            messages += await chat.atool_messages(message)
        self.record.stopped = chat.run.over
        chat.close()


class ResponsesDriver(HandLoop):
    """Responses."""

    name: ClassVar[str] = "openai (Responses)"
    layout = staticmethod(items_layout)

    @staticmethod
    def results(items: Any) -> dict[str, str]:
        return {
            item["call_id"]: item["output"]
            for item in items
            if str(item.get("type")).endswith("_output")
        }

    def answer(self, body: dict[str, Any]) -> httpx.Response:
        step = self.provider.next(body["input"])
        if isinstance(step, str):
            text = {"type": "output_text", "text": step, "annotations": []}
            output: list[dict[str, Any]] = [
                {
                    "type": "message",
                    "id": f"msg_{len(self.record.history)}",
                    "role": "assistant",
                    "status": "completed",
                    "content": [text],
                }
            ]
        else:
            output = [self.function_call(ask) for ask in step]
        response = {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": "scripted",
            "status": "completed",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        if not body.get("stream"):
            return httpx.Response(200, json=response)
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**response, "output": []}}
        ]
        events += [
            {"type": f"response.output_item.{when}", "output_index": place, "item": item}
            for place, item in enumerate(output)
            for when in ("added", "done")
        ]
        events.append({"type": "response.completed", "response": response})
        for number, event in enumerate(events):
            event["sequence_number"] = number
        return sse(events, named=True)

    @staticmethod
    def function_call(ask: Ask) -> dict[str, Any]:
        return {
            "type": "function_call",
            "id": f"fc_{ask.call_id}",
            "call_id": ask.call_id,
            "name": ask.tool,
            "arguments": as_json(ask.arguments),
            "status": "completed",
        }

    def take(self, response: Any) -> bool:
        self.record.history += [
            item.model_dump(exclude_none=True, exclude={"parsed_arguments"})
            for item in response.output
        ]
        self.record.text = response.output_text or None
        return any(item.type == "function_call" for item in response.output)

    def play(self, functions: Any, guard: dict[str, Any], *, stream: bool) -> None:
        client = self.provider.client(openai.OpenAI, self.answer)
        items = self.record.history
        responses = ResponsesGuard(functions, **guard)
        while responses.next_turn(items):
            if stream:
                with client.responses.stream(model="scripted", input=items) as events:
                    response = events.get_final_response()
            else:
                response = client.responses.create(model="scripted", input=items)
            if not self.take(response):
                break
            answers = [responses.tool_outputs(response) for _ in range(self.delivered)]
            items += answers[-1]
        self.record.stopped = responses.run.over
        responses.close()

    async def aplay(self, functions: Any, guard: dict[str, Any]) -> None:
        client = self.provider.client(openai.AsyncOpenAI, self.answer)
        items = self.record.history
        responses = ResponsesGuard(functions, **guard)
        while responses.next_turn(items):
            response = await client.responses.create(model="scripted", input=items)
            if not self.take(response):
                break
            items += await responses.atool_outputs(response)
        self.record.stopped = responses.run.over
        responses.close()


class RunnerDriver(ResponsesDriver):
    """The client's own tool runner over Responses."""

    name: ClassVar[str] = "openai (ResponsesToolRunner)"
    cannot: ClassVar[Mapping[str, str]] = {
        **HandLoop.cannot,
        "unknown_tool": "the runner ends with an error of its own",
        "bad_arguments": "the runner ends with an error of its own",
        "retry": "the runner delivers a call once",
        "control_flow": "the runner ends with an error of its own",
    }

    def runner(self, kind: Any, function: Any, functions: Mapping[str, Any]) -> Any:
        schema = {"type": "object", "additionalProperties": True}
        return kind(
            functions=[
                function(
                    {"type": "function", "name": name, "parameters": schema, "strict": False},
                    execute=execute,
                    allow_output_override=True,
                )
                for name, execute in functions.items()
            ]
        )

    def params(self) -> dict[str, Any]:
        return {"model": "scripted", "input": list(self.record.history)}

    def note(self, turn: Any, items: list[Any]) -> None:
        items[:] = [
            item if isinstance(item, dict) else item.model_dump(exclude_none=True) for item in items
        ]
        self.record.text = turn.response.output_text or None

    def play(self, functions: Any, guard: dict[str, Any], *, stream: bool) -> None:
        client = self.provider.client(openai.OpenAI, self.answer)
        responses = ResponsesGuard(functions, **guard)
        runner = self.runner(runners.ResponsesToolRunner, runners.RegisteredFunction, functions)
        turns = runner.iterate(client, self.params(), stream=stream, max_steps=9)
        for turn in responses.watch(turns, self.record.history):
            self.note(turn, self.record.history)
        self.record.stopped = responses.run.over
        responses.close()

    async def aplay(self, functions: Any, guard: dict[str, Any]) -> None:
        client = self.provider.client(openai.AsyncOpenAI, self.answer)
        responses = ResponsesGuard(functions, **guard)
        kind, function = runners.AsyncResponsesToolRunner, runners.AsyncRegisteredFunction
        runner = self.runner(kind, function, functions)
        turns = runner.iterate(client, self.params(), max_steps=9)
        async for turn in responses.awatch(turns, self.record.history):
            self.note(turn, self.record.history)
        self.record.stopped = responses.run.over
        responses.close()


DRIVERS: list[type[Driver]] = [ChatDriver, ResponsesDriver]
if runners is not None:
    DRIVERS.append(RunnerDriver)
