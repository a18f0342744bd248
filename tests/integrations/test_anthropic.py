"""What only Anthropic's API has: blocks of content, read without the client."""

from __future__ import annotations

from typing import Any

import pytest

from repeatguard_sdk import Registry, guarded_tool
from repeatguard_sdk._text import DELIMITER
from repeatguard_sdk.integrations.anthropic import MessagesGuard, RunnerGuard

USER = {"role": "user", "content": "hello"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


class Desk:
    """A tool that notes its calls, one that fails, and one that draws."""

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

        @guarded_tool(registry=self.registry)
        def draw(word: str) -> list[Any]:
            """Draw a word."""
            self.ran.append(word)
            return [IMAGE]

        self.tools = [look_up, fail, draw]

    def guard(self, **settings: Any) -> MessagesGuard:
        return MessagesGuard(self.tools, registry=self.registry, **settings)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def block(number: int, name: str = "look_up", **more: Any) -> dict[str, Any]:
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {"word": "loop"}}
    return {**call, **more}


def asking(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def play(guard: MessagesGuard, messages: list[Any], *asked: dict[str, Any]) -> None:
    for message in asked:
        assert guard.next_turn(messages)
        messages += [message, *guard.tool_results(message)]


def test_a_failure_is_marked_as_one(desk: Desk) -> None:
    """What a tool raises becomes the text of a result that says it is an error."""
    guard = desk.guard()
    guard.next_turn([USER])
    (answer,) = guard.tool_results(asking(block(1, "fail"), block(2)))
    failed, good = answer["content"]
    assert ("Error: LookupError: loop is broken", True) == (failed["content"], failed["is_error"])
    assert {"type": "tool_result", "tool_use_id": "toolu_2", "content": "page of loop"} == good


def test_failures_and_refusals_of_a_history_are_taken_up(desk: Desk) -> None:
    """A guard that starts in the middle counts failures and calls of unknown tools on."""
    messages: list[Any] = [USER]
    asked = [block(1, "fail"), block(2, "nothing"), block(3, "fail"), block(4, "fail")]
    play(desk.guard(), messages, *map(asking, asked[:2]))
    desk.ran.clear()
    play(desk.guard(), messages, *map(asking, [*asked[2:], block(5, "nothing")]))
    # Of the failing call the second ran, and the third did not.
    assert ["loop"] == desk.ran
    texts = [message["content"][0]["content"] for message in messages[2::2]]
    assert [False, False, True, True, True] == [DELIMITER in text for text in texts]


def test_a_history_without_its_results_is_left_out(desk: Desk) -> None:
    """A call that never got its result is not counted when the conversation is taken up."""
    guard = desk.guard()
    assert guard.next_turn([USER, asking(block(1))])
    assert 0 == guard.run.calls


def test_blocks_stay_blocks(desk: Desk) -> None:
    """A tool may return an image; it is replayed as one, and the observation is a block of its own."""
    messages: list[Any] = [USER]
    play(desk.guard(), messages, asking(block(1, "draw")), asking(block(2, "draw")))
    first, second = (message["content"][0]["content"] for message in messages[2::2])
    assert [IMAGE] == first
    assert IMAGE == second[0]
    assert second[1]["text"].startswith(DELIMITER)
    assert ["loop"] == desk.ran
    # What was said by the guard is no part of the result that is taken up.
    guard = desk.guard()
    assert guard.next_turn(messages)
    assert 2 == guard.run.calls


def test_an_image_is_not_served_from_a_history(desk: Desk) -> None:
    """A result of which a history holds more than text counts when it is taken up, and its tool runs."""

    @guarded_tool(registry=desk.registry)
    def paint(word: str):  # type: ignore[no-untyped-def]
        """Paint a word, without a hint of what comes of it."""
        desk.ran.append(word)
        return [IMAGE]

    messages: list[Any] = [USER]
    play(MessagesGuard([paint], registry=desk.registry), messages, asking(block(1, "paint")))
    play(MessagesGuard([paint], registry=desk.registry), messages, asking(block(2, "paint")))
    assert ["loop", "loop"] == desk.ran
    assert IMAGE == messages[-1]["content"][0]["content"][0]


def test_our_blocks_are_no_user(desk: Desk) -> None:
    """An observation beside the results resets nothing."""
    guard = desk.guard(deliver="messages")
    messages: list[Any] = [USER]
    play(guard, messages, *(asking(block(number)) for number in (1, 2, 3)))
    assert ["tool_result", "text"] == [each["type"] for each in messages[4]["content"]]
    assert not guard.next_turn(messages)


def test_a_user_may_speak_beside_the_results(desk: Desk) -> None:
    """Text that a person adds to the message of the results resets the counts."""
    guard = desk.guard()
    messages: list[Any] = [USER]
    play(guard, messages, asking(block(1)), asking(block(2)))
    messages[-1]["content"].append({"type": "text", "text": "look again, please"})
    play(guard, messages, asking(block(3)))
    assert ["loop", "loop"] == desk.ran
    assert guard.next_turn(messages)


def test_a_user_may_send_an_image(desk: Desk) -> None:
    """A message without a word of text is a person's too."""
    guard = desk.guard()
    messages: list[Any] = [USER]
    play(guard, messages, asking(block(1)))
    messages += [asking(), {"role": "user", "content": [IMAGE]}]
    play(guard, messages, asking(block(2)))
    assert ["loop", "loop"] == desk.ran


def test_a_program_that_asks_gets_results_only(desk: Desk) -> None:
    """Where code calls a tool, no text stands beside its results; the observation waits."""
    guard = desk.guard(deliver="messages")
    messages: list[Any] = [USER]
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    play(guard, messages, asking(block(1, caller=caller)), asking(block(2, caller=caller)))
    assert ["tool_result"] == [each["type"] for each in messages[-1]["content"]]
    play(guard, messages, asking(block(3, "draw")))
    assert ["tool_result", "text"] == [each["type"] for each in messages[-1]["content"]]


def test_a_reply_after_a_summary(desk: Desk) -> None:
    """Where the history was made shorter, what the model asks for again is delivered without a note."""
    guard = desk.guard()
    messages: list[Any] = [USER]
    summary = {"type": "compaction", "content": "a summary"}
    play(guard, messages, asking(block(1)), asking(summary, block(2)), asking(block(3)))
    assert ["loop"] == desk.ran
    texts = [message["content"][0]["content"] for message in messages[2::2]]
    assert [False, False, True] == [DELIMITER in text for text in texts]


def test_what_the_provider_runs_is_left_alone(desk: Desk) -> None:
    """Server tools and the MCP connector have their results already: nothing is answered or counted."""
    guard = desk.guard()
    guard.next_turn([USER])
    server = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    connector = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "look_up", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    assert [] == guard.tool_results(asking(server, connector, found))
    assert 0 == guard.run.calls


def test_a_member_of_a_toolset_is_answered_as_one(desk: Desk) -> None:
    """The result of a toolset's member names the toolset, and the tool is called by both names."""

    def navigate(word: str) -> str:
        """Go there."""
        return f"at {word}"

    guard = MessagesGuard({"browser.navigate": navigate}, registry=desk.registry)
    guard.next_turn([USER])
    (answer,) = guard.tool_results(asking(block(1, "navigate", toolset_name="browser")))
    (result,) = answer["content"]
    assert ("browser", "at loop") == (result["toolset_name"], result["content"])


def test_a_message_without_calls_has_no_answers(desk: Desk) -> None:
    """A final message needs no results."""
    guard = desk.guard()
    guard.next_turn([USER])
    assert [] == guard.tool_results({"role": "assistant", "content": "done"})


def test_the_state_of_the_task_can_be_given(desk: Desk) -> None:
    """An unmoved state ends the loop, as `Run.turn` would."""
    guard = desk.guard()
    went_on = [guard.next_turn(state={"open": 3}) for _ in range(8)]
    assert [True] * 6 + [False] * 2 == went_on


def test_what_is_no_runner_is_rejected(desk: Desk) -> None:
    """A guard says what to give it, or what to use instead."""
    with pytest.raises(TypeError, match=r"list is not a tool runner .* MessagesGuard"):
        RunnerGuard([])
