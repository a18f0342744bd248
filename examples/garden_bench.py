"""Where is the garden bench? One agent loop, first without a guard, then with one.

The model is a plain function of the messages it is given, so nothing but the package is needed:

    python examples/garden_bench.py
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from typing import Any

from repeatguard_sdk import Outcome, Run, guarded_tool
from repeatguard_sdk.events import MemorySink

Message = dict[str, Any]
Model = Callable[[list[Message]], Message]

BUDGET = 9  # turns the host pays for

# -- the tools: what makes two calls the same is declared beside each of them ----------------------

asked_the_carrier: list[str] = []


@guarded_tool(case_fold=["order_id"])
def track_order(order_id: str) -> str:
    """Ask the carrier for the scans of an order."""
    asked_the_carrier.append(order_id)
    return "no scans recorded"


@guarded_tool(effect="write", fields={"text": "text"})
def message_seller(order_id: str, text: str) -> str:
    """Write to the seller of an order."""
    return f"seller of {order_id} will answer within a day: {text}"


@guarded_tool(effect="final")
def escalate(summary: str) -> str:
    """Hand the case over to a person."""
    return "case 4711 opened"


TOOLS: dict[str, Callable[..., str]] = {
    "track_order": track_order,
    "message_seller": message_seller,
    "escalate": escalate,
}

# -- the agent loop, as it stands in many a program ------------------------------------------------


def plain_loop(model: Model, messages: list[Message]) -> None:
    """Let the model call tools until it answers or the budget is spent."""
    for _ in range(BUDGET):
        reply = model(messages)
        messages.append(reply)
        if "tool_calls" not in reply:
            break
        for call in reply["tool_calls"]:
            tool = TOOLS[call["function"]["name"]]
            result = tool(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


# -- the same loop under guard ---------------------------------------------------------------------


def guarded_loop(model: Model, messages: list[Message], events: MemorySink) -> Outcome | None:
    """Let the model call tools until it answers, the budget is spent or the run goes in circles."""
    with Run(TOOLS.values(), events=events) as run:
        for _ in range(BUDGET):
            run.turn()
            reply = model(messages)
            messages.append(reply)
            if "tool_calls" not in reply:
                break
            for call in reply["tool_calls"]:
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                result = run.dispatch(name, arguments, call["id"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            messages += run.messages("openai")  # observations go behind all results of the turn
    return run.outcome


# -- two models ------------------------------------------------------------------------------------

SPELLINGS = ("GB-1044", "gb-1044")
ARGUMENTS = {
    "escalate": {"summary": "GB-1044 has no scans"},
    "message_seller": {"order_id": "GB-1044", "text": "Has the bench left?"},
}


def stubborn(messages: list[Message]) -> Message:
    """Ask the carrier once more, whatever came before."""
    calls = sum(message["role"] == "tool" for message in messages)
    return _tool_call(calls, "track_order", {"order_id": SPELLINGS[calls % 2]})


def attentive(messages: list[Message]) -> Message:
    """Ask the carrier until the newest message offers options, and then take the first of them."""
    newest = messages[-1]["content"]
    options = re.findall(r"^- (\w+):", newest, flags=re.MULTILINE)
    if options:
        return _tool_call(len(messages), options[0], ARGUMENTS[options[0]])
    if newest.startswith("case 4711"):
        text = "The carrier has not scanned your bench yet. A colleague looks into it: case 4711."
        return {"role": "assistant", "content": text}
    return stubborn(messages)


def _tool_call(number: int, name: str, arguments: dict[str, str]) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


# -- the transcript --------------------------------------------------------------------------------

DONE = {"execute": "executed", "replay": "replayed", "exit": "ends run"}


def show(messages: list[Message], events: MemorySink) -> None:
    """Print a transcript: who spoke, what became of each tool call, and what came back."""
    results = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    decided = {event.call: event.decision for event in events.repeats}
    number = 0
    for message in messages:
        for call in message.get("tool_calls", ()):
            number += 1
            function = call["function"]
            given = ", ".join(f'"{value}"' for value in json.loads(function["arguments"]).values())
            what = f"{function['name']}({given})"
            did = DONE[decided.get(number, "execute")]
            came = f"-> {results[call['id']]}" if call["id"] in results else ""
            print(f"  call {number}   {did:<8}  {what:<33}  {came}".rstrip())
        if message["role"] == "assistant" and message["content"]:
            print(f"  model    {message['content']}")
        elif message["role"] == "user":
            shopper = message is messages[0]
            print(f"  shopper  {message['content']}" if shopper else _indented(message["content"]))


def _indented(text: str) -> str:
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 86) or [""]]
    return "\n".join(f"         | {line}".rstrip() for line in lines)


def question() -> list[Message]:
    """Return the messages a conversation begins with."""
    asked_the_carrier.clear()
    return [{"role": "user", "content": "Where is my garden bench? The order is GB-1044."}]


def carrier() -> str:
    """Say how often the tool truly ran."""
    times = len(asked_the_carrier)
    return f"the carrier was asked {times} time{'s' * (times != 1)}"


def main() -> None:
    """Run the three parts."""
    print("1. No guard\n")
    messages, events = question(), MemorySink()
    plain_loop(attentive, messages)
    show(messages, events)
    print(f"\n  => budget of {BUDGET} turns spent, {carrier()}, the shopper has no answer\n\n")

    print("2. The same model under guard\n")
    messages, events = question(), MemorySink()
    outcome = guarded_loop(attentive, messages, events)
    show(messages, events)
    assert outcome is not None
    print(f"\n  => {outcome.reason} after {outcome.calls} calls, {carrier()}\n\n")

    print("3. A model that does not read\n")
    messages, events = question(), MemorySink()
    outcome = guarded_loop(stubborn, messages, events)
    show(messages, events)
    assert outcome is not None
    print(f"\n  => {outcome.reason} after {outcome.calls} calls, {carrier()}; the summary:\n")
    print(_indented(outcome.summary))


if __name__ == "__main__":
    main()
