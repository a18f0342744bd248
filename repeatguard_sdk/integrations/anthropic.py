"""Anthropic: the guard in a loop written by hand over Messages, and around the client's tool runner.

A guard executes the tool calls of each response, or sees to it that the runner executes them under guard,
marks the turns, sees from the messages when the user spoke, and ends the loop. What the provider runs
itself (server tools, the MCP connector) passes it by: it is seen in the messages, and not guarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import repeatguard_sdk.integrations._anthropic_content as content
from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._run import Run
from repeatguard_sdk._types import MISSING, is_mapping
from repeatguard_sdk.integrations._anthropic_runner import RunnerGuard
from repeatguard_sdk.integrations._conversation import Settings
from repeatguard_sdk.integrations._loop import Answered, Asked, Loop, Tools
from repeatguard_sdk.integrations._tool_call import ToolCall

__all__ = ["MessagesGuard", "RunnerGuard"]


class _BlocksLoop(Loop):
    """A loop whose tools may return blocks: images, documents."""

    def content(self, call: ToolCall, result: Any) -> Any:
        """Return blocks as they are, with ours behind them, and anything else as text."""
        if not content.are_blocks(result):
            return super().content(call, result)
        return content.with_note(result, call)


class MessagesGuard:
    """Guards a loop over `client.messages`, or `client.beta.messages`; any client of that API will do.

    Args:
        tools: functions, decorated or not, what `@beta_tool` made of them, or a mapping from the names
            the model sees.
        settings: policy, events, memory, registry, effects, deliver, control_flow.

    Example:
        >>> def look_up(word: str) -> str:
        ...     "Look a word up."
        ...     return f"page of {word}"
        >>> guard = MessagesGuard([look_up])
        >>> guard.next_turn([{"role": "user", "content": "What is a loop?"}])
        True
        >>> call = {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"word": "loop"}}
        >>> (answer,) = guard.tool_results({"role": "assistant", "content": [call]})
        >>> answer["content"]
        [{'type': 'tool_result', 'tool_use_id': 'toolu_1', 'content': 'page of loop'}]
    """

    def __init__(self, tools: Tools, **settings: Any) -> None:
        self._loop = _BlocksLoop(_functions_of(tools), Settings(**settings))

    @property
    def run(self) -> Run:
        """The run: that of the host's block, or one of the guard's own."""
        return self._loop.conversation.run

    def close(self) -> None:
        """End the guard's own run, so that its record goes to the sink; a host's run is left alone."""
        self._loop.conversation.close()

    def next_turn(self, messages: Sequence[Any] | None = None, *, state: Any = MISSING) -> bool:
        """Mark the boundary before a request to the model; false where the loop must end instead.

        Args:
            messages: the history, as it will be sent: a user's message that is new resets the counts,
                and calls that were made before this guard are taken up.
            state: as for `Run.turn`.
        """
        given = messages or ()

        def remember(asked: Asked, result: Any, turn: int) -> PastCall | None:
            return None if result is None else self._loop.past(asked, content.text_of(result), turn)

        users = None if messages is None else sum(map(content.is_user, given))
        return self._loop.next_turn(
            users=users, past=lambda: content.past_of(given, remember), state=state
        )

    def tool_results(self, message: Any) -> list[dict[str, Any]]:
        """Execute the tool calls of a response and return the messages to append after it.

        Args:
            message: what `client.messages.create` returned, or a mapping like it.

        Returns:
            One message with a result for every call, or none where nothing was asked for.
        """
        blocks = self._asked_by(message)
        return self._as_messages(blocks, self._loop.answer(list(map(content.as_asked, blocks))))

    async def atool_results(self, message: Any) -> list[dict[str, Any]]:
        """Execute the tool calls as `tool_results` does, at once, awaiting coroutine functions."""
        blocks = self._asked_by(message)
        answered = await self._loop.aanswer(list(map(content.as_asked, blocks)))
        return self._as_messages(blocks, answered)

    def _asked_by(self, message: Any) -> list[Any]:
        if content.is_compacted(content.blocks_of(message)):
            self.run.compacted()
        return content.asked_by(message)

    def _as_messages(self, asked: list[Any], answered: list[Answered]) -> list[dict[str, Any]]:
        if not asked:
            return []
        results: list[dict[str, Any]] = []
        for block, each in zip(asked, answered, strict=True):
            result = {"type": "tool_result", "tool_use_id": each.call_id, "content": each.text}
            toolset = content.get(block, "toolset_name")
            named = {} if toolset is None else {"toolset_name": toolset}
            results.append({**result, **named, **({"is_error": True} if each.failed else {})})
        if self._loop.settings.deliver == "messages":
            results += content.notes_behind(asked, self.run)
        return [{"role": "user", "content": results}]


def _functions_of(tools: Tools) -> Tools:
    """Return the functions of what `@beta_tool` made, by the names it gave them; all else as it is."""
    if is_mapping(tools):
        return tools
    given: list[Any] = list(tools)
    if given and all(hasattr(tool, "input_schema") for tool in given):
        return {tool.name: tool.func for tool in given}
    return [tool.func if hasattr(tool, "input_schema") else tool for tool in given]
