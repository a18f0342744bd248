"""A LangChain agent under guard; needs no key, for a scripted model of the framework's own plays.

    pip install "repeatguard-sdk[langchain]"
    python examples/langchain_loop.py

The model asks for the same over and over. The second call is answered from store, with the options that
are still open; after the third the agent's loop ends, before the model is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from repeatguard_sdk import guarded_tool
from repeatguard_sdk.integrations.langchain import RepeatGuard


@tool
@guarded_tool(case_fold=["order_id"])
def track_order(order_id: str) -> str:
    """Ask the carrier for the scans of an order."""
    print(f"  (the carrier is asked for {order_id})")
    return "no scans recorded"


@tool
@guarded_tool(effect="final")
def escalate(summary: str) -> str:
    """Hand the case over to a person."""
    return "case 4711 opened"


class Scripted(FakeMessagesListChatModel):
    """Plays its responses one by one, whatever tools it is given."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Scripted:
        """Return the model as it is."""
        return self


def spelled(order_id: str, number: int) -> AIMessage:
    """Return a response that asks for an order."""
    call = {"name": "track_order", "args": {"order_id": order_id}, "id": f"call_{number}"}
    return AIMessage("", tool_calls=[call])


def main() -> None:
    """Play two turns of the user in one thread."""
    spellings = ("GB-1044", "gb-1044", " GB-1044 ")
    looping = [spelled(order_id, number) for number, order_id in enumerate(spellings)]
    model = Scripted(responses=[*looping, AIMessage("It has not been scanned yet.")])
    agent = create_agent(
        model, [track_order, escalate], middleware=[RepeatGuard()], checkpointer=InMemorySaver()
    )
    thread: Any = {"configurable": {"thread_id": "shopper"}}

    for words in ("Where is my bench?", "Then tell me what you know."):
        state = agent.invoke({"messages": [("user", words)]}, thread)
        print("  ", state["messages"][-1].response_metadata.get("repeatguard", "answered"))
    for message in state["messages"]:
        print("  ", message.content or message.tool_calls[0]["args"])


if __name__ == "__main__":
    main()
