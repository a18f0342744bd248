"""The run of told.py as the real clients write it, each with its own classes.

Run as a program, it writes what the clients make into the folder `samples`, so that the readers
are tested on it also where the clients are not installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from audit.told import ASKS, CALLS, SAMPLES, THEN

Documents = list[Any]
TURNS = [CALLS[:2], CALLS[2:3], CALLS[3:]]
DONE = "It is cancelled."


# -- OpenAI, Chat Completions ----------------------------------------------------------------------


def chat_completions() -> Iterator[Any]:
    """Yield the model's responses."""
    from openai.types.chat import ChatCompletion, ChatCompletionMessage
    from openai.types.chat import ChatCompletionMessageFunctionToolCall as ToolCall
    from openai.types.chat.chat_completion import Choice
    from openai.types.chat.chat_completion_message_function_tool_call import Function

    def completion(number: int, **message: Any) -> ChatCompletion:
        said = ChatCompletionMessage(role="assistant", **message)
        choice = Choice(finish_reason="stop", index=0, message=said, logprobs=None)
        return ChatCompletion(
            id=f"chatcmpl-{number}",
            choices=[choice],
            created=1_750_000_000,
            model="gpt-5",
            object="chat.completion",
        )

    for number, turn in enumerate(TURNS):
        calls = [
            ToolCall(
                id=str(call.call_id),
                type="function",
                function=Function(name=call.tool, arguments=json.dumps(call.arguments)),
            )
            for call in turn
        ]
        yield completion(number, content=None, tool_calls=calls)
    yield completion(len(TURNS), content=DONE)


def chat_log() -> Documents:
    """Return each request with its response, each holding the whole history so far."""
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": ASKS},
    ]
    log: Documents = []
    for number, completion in enumerate(chat_completions()):
        request = {"model": "gpt-5", "messages": list(messages)}
        log.append({"request": request, "response": completion.model_dump(mode="json")})
        messages.append(completion.choices[0].message.model_dump(exclude_none=True))
        for call in TURNS[number] if number < len(TURNS) else []:
            content = [{"type": "text", "text": call.error or call.result}]
            messages.append({"role": "tool", "tool_call_id": call.call_id, "content": content})
        if number == 1:
            messages.append({"role": "user", "content": THEN})
    return log


def chat_requests() -> Documents:
    """Return the bodies of the requests alone."""
    return [each["request"] for each in chat_log()]


def chat_messages() -> Documents:
    """Return the messages of the last request, as one document."""
    return [chat_log()[-1]["request"]["messages"]]


# -- OpenAI, Responses -----------------------------------------------------------------------------


def responses() -> Iterator[Any]:
    """Yield the model's responses."""
    from openai.types.responses import Response, ResponseFunctionToolCall
    from openai.types.responses import ResponseOutputMessage as Message
    from openai.types.responses import ResponseOutputText as Text

    def response(number: int, output: list[Any]) -> Response:
        return Response(
            id=f"resp_{number}",
            created_at=1_750_000_000,
            model="gpt-5",
            object="response",
            output=output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
            previous_response_id=f"resp_{number - 1}" if number else None,
        )

    for number, turn in enumerate(TURNS):
        calls = [
            ResponseFunctionToolCall(
                id=f"fc_{call.call_id}",
                call_id=str(call.call_id),
                name=call.tool,
                arguments=json.dumps(call.arguments),
                type="function_call",
                status="completed",
            )
            for call in turn
        ]
        yield response(number, calls)
    said = Text(text=DONE, type="output_text", annotations=[])
    message = Message(
        id="msg_1", role="assistant", type="message", status="completed", content=[said]
    )
    yield response(len(TURNS), [message])


def _responses_inputs() -> list[list[Any]]:
    """Return what is new in each request."""
    outputs = [
        [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": call.error or call.result,
            }
            for call in turn
        ]
        for turn in TURNS
    ]
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": THEN}]}
    return [[{"role": "user", "content": ASKS}], outputs[0], [*outputs[1], said], outputs[2]]


def responses_chain() -> Documents:
    """Return requests that hold only what is new, each with its response."""
    log: Documents = []
    for asked, response in zip(_responses_inputs(), responses(), strict=True):
        request = {"input": asked, "previous_response_id": response.previous_response_id}
        log.append({"request": request, "response": response.model_dump(mode="json")})
    return log


def responses_histories() -> Documents:
    """Return requests that hold the whole history so far, each with its output."""
    history: list[Any] = []
    log: Documents = []
    for asked, response in zip(_responses_inputs(), responses(), strict=True):
        history += asked
        output = [item.model_dump(mode="json") for item in response.output]
        log.append({"input": list(history), "output": output})
        history += [item.model_dump(mode="json", exclude_none=True) for item in response.output]
    return log


def responses_items() -> Documents:
    """Return all items, as one document."""
    last = responses_histories()[-1]
    return [[*last["input"], *last["output"]]]


# -- Anthropic -------------------------------------------------------------------------------------


def anthropic_messages() -> Iterator[Any]:
    """Yield the model's responses."""
    from anthropic.types import Message, TextBlock, ToolUseBlock, Usage

    def message(number: int, content: list[Any]) -> Message:
        return Message(
            id=f"msg_{number}",
            content=content,
            model="claude-sonnet-5",
            role="assistant",
            type="message",
            stop_reason="tool_use",
            stop_sequence=None,
            usage=Usage(input_tokens=1, output_tokens=1),
        )

    for number, turn in enumerate(TURNS):
        calls = [
            ToolUseBlock(
                id=str(call.call_id),
                name=call.tool,
                input=dict(call.arguments),  # type: ignore[arg-type]
                type="tool_use",
            )
            for call in turn
        ]
        text = TextBlock(text="I look it up.", type="text", citations=None)
        yield message(number, [text, *calls])
    yield message(len(TURNS), [TextBlock(text=DONE, type="text", citations=None)])


def anthropic_log() -> Documents:
    """Return each request with its response; the mark for the cache wanders, as it does."""
    from anthropic.types import MessageParam, ToolResultBlockParam

    messages: list[MessageParam] = [{"role": "user", "content": ASKS}]
    log: Documents = []
    for number, response in enumerate(anthropic_messages()):
        request = json.loads(
            json.dumps({"model": "claude-sonnet-5", "max_tokens": 99, "messages": messages})
        )
        last = request["messages"][-1]
        if isinstance(last["content"], list):
            last["content"][-1]["cache_control"] = {"type": "ephemeral"}
        log.append({"request": request, "response": response.model_dump(mode="json")})
        content = [block.model_dump(exclude_none=True) for block in response.content]
        messages.append({"role": "assistant", "content": content})
        results: list[Any] = []
        for call in TURNS[number] if number < len(TURNS) else []:
            result = ToolResultBlockParam(
                type="tool_result",
                tool_use_id=str(call.call_id),
                content=call.error or call.result,
            )
            if call.error:
                result["is_error"] = True
            results.append(result)
        reminder = "<system-reminder>The list of todos is empty.</system-reminder>"
        results.append({"type": "text", "text": reminder})
        messages.append({"role": "user", "content": results})
        if number == 1:
            messages.append({"role": "user", "content": [{"type": "text", "text": THEN}]})
    return log


def anthropic_requests() -> Documents:
    """Return the bodies of the requests alone."""
    return [each["request"] for each in anthropic_log()]


def anthropic_history() -> Documents:
    """Return the messages of the last request, as one document."""
    return [anthropic_log()[-1]["request"]["messages"]]


# -- LangChain -------------------------------------------------------------------------------------


def langchain_messages() -> list[Any]:
    """Return the messages as their own classes."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    messages: list[Any] = [SystemMessage("Be brief."), HumanMessage(ASKS)]
    for number, turn in enumerate(TURNS):
        calls = [
            {"name": call.tool, "args": call.arguments, "id": call.call_id, "type": "tool_call"}
            for call in turn
        ]
        messages.append(AIMessage("", tool_calls=calls, id=f"run-{number}"))
        messages += [
            ToolMessage(
                call.error or call.result,
                tool_call_id=call.call_id,
                name=call.tool,
                status="error" if call.error else "success",
            )
            for call in turn
        ]
        if number == 1:
            messages.append(HumanMessage(THEN))
    return [*messages, AIMessage(DONE)]


def langchain_dicts() -> Documents:
    """Return what `messages_to_dict` makes, as one document."""
    from langchain_core.messages import messages_to_dict

    return [messages_to_dict(langchain_messages())]


def langchain_dumpd() -> Documents:
    """Return what `dumpd` makes of a state, as one document."""
    from langchain_core.load import dumpd

    return [{"messages": dumpd(langchain_messages())}]


def langchain_dumps() -> Documents:
    """Return what `dumps` makes of each message, one a document."""
    from langchain_core.load import dumps

    return [json.loads(dumps(message)) for message in langchain_messages()]


def langchain_models() -> Documents:
    """Return what `model_dump_json` makes of each message, one a document."""
    return [json.loads(message.model_dump_json()) for message in langchain_messages()]


def langgraph_states() -> Documents:
    """Return the state of a graph after each step, each with the whole history so far."""
    messages = [json.loads(message.model_dump_json()) for message in langchain_messages()]
    return [
        {"values": {"messages": messages[:end]}, "next": ["tools"]}
        for end in range(2, len(messages) + 1)
    ]


def langsmith_runs() -> Documents:
    """Return the runs of the model, with messages as inputs and a generation as outputs."""
    from langchain_core.load import dumpd
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration

    messages = langchain_messages()
    return [
        {
            "id": f"run-{place}",
            "run_type": "llm",
            "inputs": {"messages": [dumpd(messages[:place])]},
            "outputs": {
                "generations": [[json.loads(ChatGeneration(message=message).model_dump_json())]]
            },
        }
        for place, message in enumerate(messages)
        if isinstance(message, AIMessage)
    ]


# -- OpenTelemetry ---------------------------------------------------------------------------------


def _parts(*parts: dict[str, Any], role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def _genai_histories() -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield the messages into the model, and those out of it, for each of its spans."""
    history = [_parts({"type": "text", "content": ASKS}, role="user")]
    for number, turn in enumerate(TURNS):
        calls = [
            {
                "type": "tool_call",
                "id": call.call_id,
                "name": call.tool,
                "arguments": call.arguments,
            }
            for call in turn
        ]
        yield list(history), [_parts(*calls)]
        history.append(_parts(*calls))
        history += [
            _parts(
                {
                    "type": "tool_call_response",
                    "id": call.call_id,
                    "response": call.error or call.result,
                },
                role="tool",
            )
            for call in turn
        ]
        if number == 1:
            history.append(_parts({"type": "text", "content": THEN}, role="user"))
    yield list(history), [_parts({"type": "text", "content": DONE})]


def spans(messages: bool = True) -> list[Any]:
    """Return the finished spans of one trace, as the SDK keeps them: inner ones first."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import Status, StatusCode

    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("invoke_agent") as agent:
        agent.set_attribute("gen_ai.operation.name", "invoke_agent")
        for number, (before, after) in enumerate(_genai_histories()):
            with tracer.start_as_current_span("chat gpt-5") as chat:
                chat.set_attribute("gen_ai.operation.name", "chat")
                if messages:
                    chat.set_attribute("gen_ai.input.messages", json.dumps(before))
                    chat.set_attribute("gen_ai.output.messages", json.dumps(after))
            for call in TURNS[number] if number < len(TURNS) else []:
                with tracer.start_as_current_span(f"execute_tool {call.tool}") as tool:
                    tool.set_attribute("gen_ai.operation.name", "execute_tool")
                    tool.set_attribute("gen_ai.tool.name", call.tool)
                    tool.set_attribute("gen_ai.tool.call.id", str(call.call_id))
                    tool.set_attribute("gen_ai.tool.call.arguments", json.dumps(call.arguments))
                    if call.error:
                        tool.set_attribute("error.type", "LookupError")
                        tool.set_status(Status(StatusCode.ERROR, call.error))
                    else:
                        tool.set_attribute("gen_ai.tool.call.result", str(call.result))
    return list(kept.get_finished_spans())


def otlp(found: list[Any], names: bool = False) -> Any:
    """Return spans as protobuf writes them in JSON, with base64 ids; optionally with its names."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    return MessageToDict(encode_spans(found), preserving_proto_field_name=names)


def otel_protobuf() -> Documents:
    """Return the spans of the trace, one a document, in the order in which they ended."""
    return [otlp([span]) for span in spans()]


def otel_protobuf_names() -> Documents:
    """Return them as one document, with the names of protobuf."""
    return [otlp(spans(), names=True)]


def otel_otlp() -> Documents:
    """Return them as OTLP says: with ids in hexadecimal and kinds as numbers."""
    import base64

    document = otlp(spans())
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64decode(span[name]).hex()
                if span.get("status", {}).get("code") == "STATUS_CODE_ERROR":
                    span["status"]["code"] = 2
    return [document]


def otel_console() -> Documents:
    """Return the spans as the SDK prints them, one a document."""
    return [json.loads(span.to_json()) for span in spans()]


def otel_without_messages() -> Documents:
    """Return the spans of a trace in which messages are not recorded, as is the default."""
    return [otlp(spans(messages=False))]


MADE: dict[str, tuple[str, Callable[[], Documents]]] = {
    "openai_chat_log": ("openai", chat_log),
    "openai_chat_requests": ("openai", chat_requests),
    "openai_chat_messages": ("openai", chat_messages),
    "openai_responses_chain": ("openai", responses_chain),
    "openai_responses_histories": ("openai", responses_histories),
    "openai_responses_items": ("openai", responses_items),
    "anthropic_log": ("anthropic", anthropic_log),
    "anthropic_requests": ("anthropic", anthropic_requests),
    "anthropic_history": ("anthropic", anthropic_history),
    "langchain_dicts": ("langchain_core", langchain_dicts),
    "langchain_dumpd": ("langchain_core", langchain_dumpd),
    "langchain_dumps": ("langchain_core", langchain_dumps),
    "langchain_models": ("langchain_core", langchain_models),
    "langgraph_states": ("langchain_core", langgraph_states),
    "langsmith_runs": ("langchain_core", langsmith_runs),
    "otel_protobuf": ("opentelemetry.exporter.otlp.proto.common", otel_protobuf),
    "otel_protobuf_names": ("opentelemetry.exporter.otlp.proto.common", otel_protobuf_names),
    "otel_otlp": ("opentelemetry.exporter.otlp.proto.common", otel_otlp),
    "otel_console": ("opentelemetry.sdk", otel_console),
    "otel_without_messages": ("opentelemetry.exporter.otlp.proto.common", otel_without_messages),
}


def main() -> None:
    """Write what the clients make, a file each, a document a line."""
    SAMPLES.mkdir(exist_ok=True)
    for name, (_, make) in MADE.items():
        lines = [json.dumps(document, ensure_ascii=False) for document in make()]
        (SAMPLES / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
