"""A loop over OpenAI's Chat Completions under guard; needs no key, for the transport plays the model.

    pip install "repeatguard-sdk[openai]"
    python examples/openai_loop.py

The model asks for the same over and over. Its second call is answered from store, with the options that
are still open; at the third `next_turn` says that the loop is over, and the user can go on from there.
"""

from __future__ import annotations

import json
from typing import Any

import openai

from repeatguard_sdk import Run, guarded_tool
from repeatguard_sdk.integrations.openai import ChatGuard

try:
    import httpx2 as httpx
except ModuleNotFoundError:  # the client before 3.x
    import httpx

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


# -- the loop: what is new in it is the guard ------------------------------------------------------


def converse(client: openai.OpenAI, messages: list[Any]) -> None:
    """Let the model call tools until it answers, or goes in circles."""
    guard = ChatGuard(TOOLS)
    while guard.next_turn(messages):
        reply = client.chat.completions.create(model="scripted", messages=messages)
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        messages += guard.tool_messages(message)


# -- a provider that is played -------------------------------------------------------------------


def play(request: httpx.Request) -> httpx.Response:
    """Ask for the same order, in another spelling each time; answer once the user has spoken again."""
    messages = json.loads(request.content)["messages"]
    asked = sum("tool_calls" in message for message in messages)
    reply: dict[str, Any] = {"role": "assistant", "content": "Your bench has not been scanned yet."}
    if sum(message["role"] == "user" for message in messages) == 1:
        spelling = ("GB-1044", "gb-1044", " GB-1044 ")[asked % 3]
        function = {"name": "track_order", "arguments": json.dumps({"order_id": spelling})}
        call = {"id": f"call_{asked}", "type": "function", "function": function}
        reply = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": reply, "finish_reason": "stop"}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted"}
    return httpx.Response(200, json={**body, "choices": [choice]})


def show(messages: list[Any]) -> None:
    """Print a history."""
    for message in messages:
        calls = [call["function"]["arguments"] for call in message.get("tool_calls", ())]
        print(f"  {message['role']:<9} {message.get('content') or ', '.join(calls)}")


def main() -> None:
    """Play two turns of the user."""
    client = openai.OpenAI(
        api_key="none", http_client=httpx.Client(transport=httpx.MockTransport(play))
    )
    messages: list[Any] = [{"role": "user", "content": "Where is my garden bench?"}]
    with Run(TOOLS) as run:
        converse(client, messages)
    show(messages)
    assert run.outcome is not None
    print(f"\n{run.outcome.summary}\n")
    messages.append({"role": "user", "content": "Then just tell me what you know."})
    converse(client, messages)
    show(messages[-2:])


if __name__ == "__main__":
    main()
