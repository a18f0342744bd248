"""What only loops over OpenAI's APIs have: shapes of messages and items, read without the client."""

from __future__ import annotations

from typing import Any

import pytest

from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk._text import DELIMITER
from repeatguard_sdk.integrations.openai import ChatGuard, ResponsesGuard

USER = {"role": "user", "content": "hello"}


class Desk:
    """A tool that notes its calls, and one that fails."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.registry = Registry()

        @guarded_tool(registry=self.registry)
        def look_up(word: str) -> str:
            """Look a word up."""
            self.ran.append(word)
            return f"page of {word}"

        @guarded_tool(registry=self.registry)
        def fail(word: str) -> str:
            """Fail."""
            self.ran.append(word)
            msg = f"{word} is broken"
            raise LookupError(msg)

        self.tools = [look_up, fail]

    def chat(self, **settings: Any) -> ChatGuard:
        return ChatGuard(self.tools, registry=self.registry, **settings)

    def responses(self, **settings: Any) -> ResponsesGuard:
        return ResponsesGuard(self.tools, registry=self.registry, **settings)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def asking(
    number: int, name: str = "look_up", arguments: str = '{"word": "loop"}'
) -> dict[str, Any]:
    call = {"id": f"call_{number}", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def item(number: int, name: str = "look_up", arguments: str = '{"word": "loop"}') -> dict[str, Any]:
    call_id = f"call_{number}"
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def play(guard: ChatGuard, messages: list[Any], *asked: dict[str, Any]) -> None:
    for message in asked:
        assert guard.next_turn(messages)
        messages += [message, *guard.tool_messages(message)]


def test_a_failure_is_a_text_for_the_model(desk: Desk) -> None:
    """What a tool raises becomes the text of its message."""
    guard = desk.chat()
    guard.next_turn([USER])
    (message,) = guard.tool_messages(asking(1, "fail"))
    assert "Error: LookupError: loop is broken" == message["content"]


def test_failures_and_refusals_of_a_history_are_taken_up(desk: Desk) -> None:
    """A guard that starts in the middle counts failures and calls of unknown tools on."""
    messages: list[Any] = [USER]
    play(desk.chat(), messages, asking(1, "fail"), asking(2, "nothing", "{}"))
    desk.ran.clear()
    guard = desk.chat()
    play(guard, messages, asking(3, "fail"), asking(4, "fail"), asking(5, "nothing", "{}"))
    # Of the failing call the second ran, and the third did not.
    assert ["loop"] == desk.ran
    texts = [message["content"] for message in messages if message.get("role") == "tool"]
    assert [False, False, True, True, True] == [DELIMITER in text for text in texts]


def test_a_history_without_its_results_is_left_out(desk: Desk) -> None:
    """A call that never got its result is not counted when the conversation is taken up."""
    guard = desk.chat()
    assert guard.next_turn([USER, asking(1)])
    assert 0 == guard.run.calls


def test_an_image_of_a_history_is_never_served(desk: Desk) -> None:
    """What is more than text counts when a conversation is taken up, and the call runs again."""
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    result = {"role": "tool", "tool_call_id": "call_1", "content": image}
    guard = desk.chat()
    assert guard.next_turn([USER, asking(1), result])
    assert 1 == guard.run.calls
    (message,) = guard.tool_messages(asking(2))
    assert message["content"]
    assert ["loop"] == desk.ran


def test_our_messages_are_no_user(desk: Desk) -> None:
    """An observation in a user's place resets nothing."""
    guard = desk.chat(deliver="messages")
    messages: list[Any] = [USER]
    play(guard, messages, asking(1), asking(2), asking(3))
    assert 2 <= [message["role"] for message in messages].count("user")
    assert not guard.next_turn(messages)


def test_a_custom_tool_gets_its_input(desk: Desk) -> None:
    """A custom tool call is answered under its id, its text as the argument `input`."""

    def shell(input: str) -> str:
        """Run a line."""
        return f"ran {input}"

    guard = ChatGuard([shell], registry=desk.registry)
    guard.next_turn([USER])
    call = {"id": "call_1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    (message,) = guard.tool_messages({"role": "assistant", "tool_calls": [call]})
    assert {"role": "tool", "tool_call_id": "call_1", "content": "ran ls"} == message

    responses = ResponsesGuard([shell], registry=desk.registry)
    responses.next_turn("hello")
    custom = {"type": "custom_tool_call", "call_id": "call_1", "name": "shell", "input": "ls"}
    (output,) = responses.tool_outputs({"output": [{"type": "reasoning"}, custom]})
    expected = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "ran ls"}
    assert expected == output


def test_a_message_without_calls_has_no_answers(desk: Desk) -> None:
    """A final message needs no tool messages."""
    guard = desk.chat()
    guard.next_turn([USER])
    assert [] == guard.tool_messages({"role": "assistant", "content": "done"})
    responses = desk.responses()
    responses.next_turn("hello")
    assert [] == responses.tool_outputs({"output": [{"type": "message"}]})


def test_a_host_that_sends_only_what_is_new(desk: Desk) -> None:
    """With `previous_response_id` the input holds a turn's outputs only, and counts go on."""
    guard = desk.responses()
    items: Any = [USER]
    for number in range(1, 4):
        assert guard.next_turn(items)
        items = guard.tool_outputs({"output": [item(number)]})
    assert not guard.next_turn(items)
    assert guard.next_turn([USER])


def test_turns_of_a_history_are_told_apart(desk: Desk) -> None:
    """Calls between two outputs are one turn, so that twins of a history count once."""
    guard = desk.responses()
    outputs = [
        {"type": "function_call_output", "call_id": f"call_{n}", "output": "page of loop"}
        for n in range(1, 5)
    ]
    twins = [item(1), item(2), *outputs[:2]]
    assert guard.next_turn([USER, *twins])
    assert not desk.responses().next_turn([USER, *twins, item(3), outputs[2], item(4), outputs[3]])


def test_a_loop_without_messages(desk: Desk) -> None:
    """A host that shows no messages tells of the user itself."""
    guard = desk.chat()
    for number in range(1, 4):
        assert guard.next_turn()
        guard.tool_messages(asking(number))
    assert not guard.next_turn()


def test_the_state_of_the_task_can_be_given(desk: Desk) -> None:
    """An unmoved state ends the loop, as `Run.turn` would."""
    guard = desk.chat()
    went_on = [guard.next_turn(state={"open": 3}) for _ in range(8)]
    assert [True] * 6 + [False] * 2 == went_on


def test_inside_a_block_the_loop_ends_by_itself(desk: Desk) -> None:
    """In a run of the host nothing is raised from the tools, and the code behind the loop is reached."""
    messages: list[Any] = [USER]
    with Run(registry=desk.registry) as run:
        guard = desk.chat()
        play(guard, messages, asking(1), asking(2), asking(3))
        assert not guard.next_turn(messages)
        reached = True
    assert reached
    assert run.stuck
