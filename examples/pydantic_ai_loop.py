"""An agent of pydantic-ai under guard; needs no key, for the framework's own function model plays.

    pip install "repeatguard-sdk[pydantic-ai]"
    python examples/pydantic_ai_loop.py

The model asks for the same over and over. The second call is answered from store, with the options that
are still open; after the third the agent's run ends, before the model is asked again.
"""

from __future__ import annotations

from pydantic_ai import Agent, ModelMessage, ModelResponse, RunContext, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from repeatguard_sdk import guarded_tool
from repeatguard_sdk.integrations.pydantic_ai import AgentStuck, RepeatGuard

SPELLINGS = iter(("GB-1044", "gb-1044", " GB-1044 "))


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask for an order in one more spelling, or answer when there is none left."""
    order_id = next(SPELLINGS, None)
    if order_id is None:
        return ModelResponse(parts=[TextPart("It has not been scanned yet.")])
    return ModelResponse(parts=[ToolCallPart("track_order", {"order_id": order_id})])


agent = Agent(FunctionModel(respond), deps_type=str, capabilities=[RepeatGuard()])


@agent.tool
@guarded_tool(case_fold=["order_id"])
def track_order(ctx: RunContext[str], order_id: str) -> str:
    """Ask the carrier for the scans of an order."""
    print(f"  ({ctx.deps} is asked for {order_id})")
    return "no scans recorded"


@agent.tool_plain
@guarded_tool(effect="final")
def escalate(summary: str) -> str:
    """Hand the case over to a person."""
    return "case 4711 opened"


def main() -> None:
    """Play two turns of the user in one conversation."""
    try:
        agent.run_sync("Where is my bench?", deps="the carrier")
    except AgentStuck as stuck:
        history = stuck.all_messages()
        print(f"\n{stuck.outcome.summary}\n")
    for message in history:
        for part in message.parts:
            print("  ", part.args if isinstance(part, ToolCallPart) else part.content)

    answer = agent.run_sync(
        "Then tell me what you know.", deps="the carrier", message_history=history
    )
    print("\n  ", answer.output)


if __name__ == "__main__":
    main()
