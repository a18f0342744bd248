"""Anthropic's tool runner under guard; needs no key, for the transport plays the model.

    pip install "repeatguard-sdk[anthropic]"
    python examples/anthropic_loop.py

The model asks for the same over and over. Its second call is answered from store, with the options that
are still open; at the third the runner is closed, with a result for every call, and the user can go on
from there. The second turn is a loop written by hand over the same tools.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import anthropic
from anthropic import beta_tool

from repeatguard_sdk import Run, guarded_tool
from repeatguard_sdk.integrations.anthropic import MessagesGuard, RunnerGuard

try:
    import httpx2 as httpx
except ModuleNotFoundError:  # the client before 1.0
    import httpx

MODEL: dict[str, Any] = {"model": "scripted", "max_tokens": 1024}

# -- the tools -------------------------------------------------------------------------------------


@guarded_tool(case_fold=["order_id"])
def track_order(order_id: str) -> str:
    """Ask the carrier for the scans of an order."""
    print(f"  (the carrier is asked for {order_id})")
    return "no scans recorded"


@guarded_tool(effect="final")
def escalate(summary: str) -> str:
    """Hand the case over to a person."""
    return "case 4711 opened"


TOOLS = [track_order, escalate]


# -- the loops: what is new in them is the guard ---------------------------------------------------


def run_tools(client: anthropic.Anthropic, messages: list[Any]) -> list[Any]:
    """Let the client's runner call tools until the model answers, or goes in circles."""
    tools = [beta_tool(function) for function in TOOLS]
    runner = client.beta.messages.tool_runner(**MODEL, tools=tools, messages=messages)
    guard = RunnerGuard(runner)
    guard.until_done()
    return guard.messages


def converse(client: anthropic.Anthropic, messages: list[Any]) -> None:
    """Do the same by hand."""
    guard = MessagesGuard(TOOLS)
    while guard.next_turn(messages):
        reply = client.messages.create(**MODEL, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason != "tool_use":
            break
        messages += guard.tool_results(reply)


# -- a provider that is played --------------------------------------------------------------------

numbers = itertools.count(1)


def play(request: httpx.Request) -> httpx.Response:
    """Ask for the same order, in another spelling each time; answer once the user has spoken again."""
    number = next(numbers)
    if "just tell me" in request.content.decode():
        block = {"type": "text", "text": "Your bench has not been scanned yet."}
    else:
        given = {"order_id": ("GB-1044", "gb-1044", " GB-1044 ")[number % 3]}
        block = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "track_order",
            "input": given,
        }
    body = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [block],
        "stop_reason": "end_turn" if block["type"] == "text" else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return httpx.Response(200, json=body)


def show(messages: list[Any]) -> None:
    """Print a history."""
    for message in messages:
        content = message["content"]
        blocks = [{"text": content}] if isinstance(content, str) else content
        for block in blocks:
            fields = block if isinstance(block, dict) else block.model_dump()
            text = fields.get("text") or fields.get("content") or json.dumps(fields.get("input"))
            print(f"  {message['role']:<9} {text}")


def main() -> None:
    """Play two turns of the user."""
    client = anthropic.Anthropic(
        api_key="none", http_client=httpx.Client(transport=httpx.MockTransport(play))
    )
    messages: list[Any] = [{"role": "user", "content": "Where is my garden bench?"}]
    with Run(TOOLS) as run:
        messages = run_tools(client, messages)
    show(messages)
    assert run.outcome is not None
    print(f"\n{run.outcome.summary}\n")
    messages.append({"role": "user", "content": "Then just tell me what you know."})
    converse(client, messages)
    show(messages[-2:])


if __name__ == "__main__":
    main()
