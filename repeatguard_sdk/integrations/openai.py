"""OpenAI: the guard in a loop written by hand over Chat Completions or Responses, and in the tool runner.

A guard executes the tool calls of each response, marks the turns, sees from the messages when the user
spoke, and says when the loop must end. Any client of these APIs will do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any

from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._run import Run
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.integrations._conversation import Settings
from repeatguard_sdk.integrations._loop import Answered, Asked, Loop, Tools
from repeatguard_sdk.integrations._openai_items import answered, get, is_text, is_user, text_of


class _Guard:
    """What both APIs have in common.

    Args:
        tools: functions, decorated or not, or a mapping from the names the model sees.
        settings: see `Settings`: policy, events, memory, registry, effects, deliver, control_flow.
    """

    def __init__(self, tools: Tools, **settings: Any) -> None:
        self._loop = Loop(tools, Settings(**settings))

    @property
    def run(self) -> Run:
        """The run: that of the host's block, or one of the guard's own."""
        return self._loop.conversation.run

    def close(self) -> None:
        """End the guard's own run, so that its record goes to the sink; a host's run is left alone."""
        self._loop.conversation.close()


class ChatGuard(_Guard):
    """Guards a loop over `client.chat.completions`.

    Args:
        tools: functions, decorated or not, or a mapping from the names the model sees.
        settings: policy, events, memory, registry, effects, deliver, control_flow.

    Example:
        >>> def look_up(word: str) -> str:
        ...     "Look a word up."
        ...     return f"no entry for {word}"
        >>> guard = ChatGuard([look_up])
        >>> guard.next_turn([{"role": "user", "content": "What is a loop?"}])
        True
        >>> call = {"id": "call_1", "function": {"name": "look_up", "arguments": '{"word": "loop"}'}}
        >>> guard.tool_messages({"role": "assistant", "tool_calls": [call]})
        [{'role': 'tool', 'tool_call_id': 'call_1', 'content': 'no entry for loop'}]
    """

    def next_turn(self, messages: Sequence[Any] | None = None, *, state: Any = MISSING) -> bool:
        """Mark the boundary before a request to the model; false where the loop must end instead.

        Args:
            messages: the history, as it will be sent: a user's message that is new resets the counts,
                and calls that were made before this guard are taken up.
            state: as for `Run.turn`.
        """
        given = messages or ()

        def past() -> list[PastCall]:
            return _past_of_chat(self._loop, given)

        users = None if messages is None else sum(map(is_user, given))
        return self._loop.next_turn(users=users, past=past, state=state)

    def tool_messages(self, message: Any) -> list[dict[str, Any]]:
        """Execute the tool calls of a response and return the messages to append after it.

        Args:
            message: `response.choices[0].message`, or a mapping like it.
        """
        return self._as_messages(self._loop.answer(_asked_in_chat(message)))

    async def atool_messages(self, message: Any) -> list[dict[str, Any]]:
        """Execute the tool calls as `tool_messages` does, at once, awaiting coroutine functions."""
        return self._as_messages(await self._loop.aanswer(_asked_in_chat(message)))

    def _as_messages(self, done: list[Answered]) -> list[dict[str, Any]]:
        results = [
            {"role": "tool", "tool_call_id": each.call_id, "content": each.text} for each in done
        ]
        if self._loop.settings.deliver == "messages":
            results += self.run.messages("openai")
        return results


class ResponsesGuard(_Guard):
    """Guards a loop over `client.responses`.

    Args:
        tools: functions, decorated or not, or a mapping from the names the model sees.
        settings: policy, events, memory, registry, effects, deliver, control_flow.
    """

    def next_turn(self, items: Any = None, *, state: Any = MISSING) -> bool:
        """Mark the boundary before a request to the model; false where the loop must end instead.

        Args:
            items: the input, as it will be sent: a user's message that is new resets the counts, and
                calls that were made before this guard are taken up.
            state: as for `Run.turn`.
        """
        given: Sequence[Any] = (
            [{"role": "user", "content": items}] if isinstance(items, str) else items
        )
        given = given or ()

        def past() -> list[PastCall]:
            return _past_of_items(self._loop, given)

        users = None if items is None else sum(map(is_user, given))
        return self._loop.next_turn(users=users, past=past, state=state)

    def tool_outputs(self, response: Any) -> list[dict[str, Any]]:
        """Execute the function calls of a response and return the items to send after its output.

        Args:
            response: what `client.responses.create` returned, or a mapping like it.
        """
        items = get(response, "output") or ()
        return self._as_items(self._loop.answer(_asked_in_items(items)), items)

    async def atool_outputs(self, response: Any) -> list[dict[str, Any]]:
        """Execute the calls as `tool_outputs` does, at once, awaiting coroutine functions."""
        items = get(response, "output") or ()
        return self._as_items(await self._loop.aanswer(_asked_in_items(items)), items)

    def watch(self, turns: Any, items: list[Any] | None = None) -> Generator[Any, None, None]:
        """Guard a `ResponsesToolRunner`: yield its turns, each with its results, and end before it loops.

        The guard executes the functions and hands the results to the turn, so that each of them must be
        registered with ``allow_output_override=True``.

        Args:
            turns: what `runner.iterate(client, params)` returned.
            items: the input so far, as for `next_turn`; gets what each turn adds to it.
        """
        history = [] if items is None else items
        try:
            while self.next_turn(items):
                turn = next(turns, None)
                if turn is None:
                    return
                outputs = [] if turn.final else self.tool_outputs(turn.response)
                self._supply(turn, outputs, history)
                yield turn
        finally:
            # Not left to the collector: the runner is busy until then.
            turns.close()

    async def awatch(self, turns: Any, items: list[Any] | None = None) -> AsyncGenerator[Any, None]:
        """Guard an `AsyncResponsesToolRunner` as `watch` does the other one."""
        history = [] if items is None else items
        try:
            while self.next_turn(items):
                turn = await anext(turns, None)
                if turn is None:
                    return
                outputs = [] if turn.final else await self.atool_outputs(turn.response)
                self._supply(turn, outputs, history)
                yield turn
        finally:
            await turns.aclose()

    @staticmethod
    def _supply(turn: Any, outputs: list[dict[str, Any]], history: list[Any]) -> None:
        results = [item for item in outputs if item.get("type") != "message"]
        if results:
            turn.supply_outputs(results)
        for note in outputs[len(results) :]:
            turn.append_user_text(note["content"][0]["text"])
        history += [*turn.response.output, *outputs]

    def _as_items(self, done: list[Answered], items: Sequence[Any]) -> list[dict[str, Any]]:
        kinds = {get(item, "call_id"): get(item, "type") for item in items}
        outputs = [
            {"type": f"{kinds[each.call_id]}_output", "call_id": each.call_id, "output": each.text}
            for each in done
        ]
        if self._loop.settings.deliver == "messages":
            outputs += self.run.messages("openai-responses")
        return outputs


# -- reading messages and items --------------------------------------------------------------------


def _since_the_user(items: Sequence[Any]) -> Sequence[Any]:
    last = max((place for place, each in enumerate(items) if is_user(each)), default=-1)
    return items[last + 1 :]


def _asked_in_chat(message: Any) -> list[Asked]:
    asked: list[Asked] = []
    for call in get(message, "tool_calls") or ():
        custom, function = get(call, "custom"), get(call, "function")
        given = {"input": get(custom, "input")} if custom else get(function, "arguments")
        asked.append(Asked(get(custom or function, "name"), given, get(call, "id")))
    return asked


def _past_of_chat(loop: Loop, messages: Sequence[Any]) -> list[PastCall]:
    recent = _since_the_user(messages)
    results = {
        get(each, "tool_call_id"): get(each, "content")
        for each in recent
        if get(each, "role") == "tool"
    }
    return [
        loop.past(asked, _whole_text(results[asked.call_id]), turn)
        for turn, message in enumerate(recent)
        for asked in _asked_in_chat(message)
        if asked.call_id in results
    ]


def _whole_text(content: Any) -> str | None:
    return text_of(content) if is_text(content) else None


def _asked_in_items(items: Sequence[Any]) -> list[Asked]:
    asked: list[Asked] = []
    for item in items:
        if get(item, "type") == "function_call":
            asked.append(Asked(get(item, "name"), get(item, "arguments"), get(item, "call_id")))
        elif get(item, "type") == "custom_tool_call":
            given = {"input": get(item, "input")}
            asked.append(Asked(get(item, "name"), given, get(item, "call_id")))
    return asked


def _past_of_items(loop: Loop, items: Sequence[Any]) -> list[PastCall]:
    return [
        loop.past(asked, text, turn)
        for item, text, turn in answered(_since_the_user(items))
        for asked in _asked_in_items([item])
    ]
