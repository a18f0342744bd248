"""One run of an agent of pydantic-ai under guard: its turns marked, its calls made and counted."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import standing_for
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._pydantic_ai_parts import (
    ModelRetry,
    ToolFailed,
    answered_calls,
    beside,
    function_of,
    may_be_said,
    outcome_of,
    past_call,
    put_behind,
    text_of,
    with_notes,
)
from repeatguard_sdk.integrations._records import Known
from repeatguard_sdk.integrations._tool_call import ToolCall


class CallIds:
    """The ids of the calls that a run has counted.

    Some providers use an id again in their next response: that is another call, and no redelivery.
    """

    def __init__(self) -> None:
        self.counted: set[str] = set()
        self._first: dict[str, tuple[int, int]] = {}

    def of(self, call_id: str, task: int, turn: int) -> str:
        """Return the id of a call, apart from those of other turns.

        Args:
            call_id: the provider's id.
            task: the number of the task that asked for it.
            turn: its turn there; what comes before the first belongs to an earlier response.
        """
        place = (task, turn)
        if self._first.setdefault(call_id, place) == place or turn == 0:
            return call_id
        return f"{call_id} of turn {task}.{turn}"


# A run of a host may last for several runs of the framework.
_ids: weakref.WeakKeyDictionary[Run, CallIds] = weakref.WeakKeyDictionary()
_numbers = itertools.count(1)


class AgentTask:
    """One run of an agent under guard.

    Args:
        settings: what the host said.
        is_user: tells a person's words.
    """

    def __init__(self, settings: Settings, is_user: Callable[[Any], bool]) -> None:
        self.conversation = Conversation(settings)
        self._settings = settings
        self._is_user = is_user
        self._tools: dict[str, Any] = {}
        self._begun = False  # whether the history was taken up
        self._number, self._turn = next(_numbers), 0
        # Calls whose results are on their way through the hooks, and those put off.
        self._under_way: dict[str, list[ToolCall]] = {}
        self._put_off: set[str] = set()
        # What tools gave for a place of its own, where it looks like a user's words.
        self._given: list[Any] = []

    @property
    def is_inside(self) -> bool:
        """Whether this is the body of one of the tools: what it calls is part of that call."""
        run = self.conversation.run
        return standing_for(run) is not run

    @property
    def _ids(self) -> CallIds:
        return _ids.setdefault(self.conversation.run, CallIds())

    def _id(self, call_id: str) -> str:
        return self._ids.of(call_id, self._number, self._turn)

    # -- tools -----------------------------------------------------------------------------------

    def meet(self, tools: Mapping[str, Any]) -> None:
        """Take note of the tools of the next step."""
        self._tools = dict(tools)

    def _know(self, name: str, tool: Any = None) -> Known | None:
        tool = tool or self._tools.get(name)
        if tool is None:
            return None
        definition = tool.tool_def
        metadata: Any = definition.metadata or {}
        return self.conversation.known(
            name,
            function_of(tool),
            annotations=metadata.get("annotations"),
            description=definition.description or "",
        )

    def _offer(self, definitions: Sequence[Any]) -> None:
        known = [(each.name, self._know(each.name)) for each in definitions]
        self.conversation.offer((name, found) for name, found in known if found is not None)

    # -- calls -----------------------------------------------------------------------------------

    async def execute(
        self, ctx: Any, name: str, args: Any, tool: Any, execute: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Call a tool under guard."""
        self._begin(ctx.messages)
        call_id = ctx.tool_call_id
        call = self.conversation.call(name, args, self._id(call_id), self._know(name, tool))
        self._ids.counted.add(self._id(call_id))
        self._under_way.setdefault(call_id, []).append(call)
        try:
            return await call.aguard(execute)
        except (ModelRetry, ToolFailed) as error:
            self._under_way.pop(call_id, None)
            text = call.answer(str(error))
            if text == str(error):
                raise
            raise (ModelRetry if isinstance(error, ModelRetry) else ToolFailed)(text) from error
        except self._settings.control_flow:
            self._under_way.pop(call_id, None)
            self._ids.counted.discard(self._id(call_id))
            self._put_off.add(call_id)
            raise

    async def answered(self, ctx: Any, call: Any, args: Any, result: Any) -> Any:
        """Return the result of a call with what there is to say, wherever it came from."""
        calls = self._under_way.pop(call.tool_call_id, None)
        if calls is None:
            # It was answered in front of the tool, by another capability or a person.
            self._begin(ctx.messages)
            on_purpose = call.tool_call_id in self._put_off
            calls = [await self._made_elsewhere(call, args, result, on_purpose=on_purpose)]
        for made in calls:
            result = with_notes(made, result)
        if beside(result) is not None:
            self._given.append(beside(result))
        return result

    async def _made_elsewhere(
        self, part: Any, args: Any, result: Any, *, on_purpose: bool
    ) -> ToolCall:
        """Count a call whose result came without its tool; not on purpose that is warned of."""
        name, call_id = part.tool_name, part.tool_call_id
        known = self._know(name)
        external = known is not None and self._tools[name].tool_def.kind == "external"
        if known is not None and (external or on_purpose):
            known = known._replace(guards_itself=False, fix="")
        call = self.conversation.call(name, args, self._id(call_id), known)
        self._ids.counted.add(self._id(call_id))
        await call.aguard(lambda: result)
        return call

    # -- turns -----------------------------------------------------------------------------------

    async def next_turn(self, ctx: Any, request_context: Any) -> bool:
        """Mark the boundary before a request; false where the loop must end instead."""
        messages: list[Any] = request_context.messages
        parameters = request_context.model_request_parameters
        self._offer(parameters.function_tools)
        outputs = {each.name for each in parameters.output_tools}
        # What was answered before the user spoke is no matter of this run.
        spoken = self._turn == 0 and ctx.prompt is not None
        notes = [] if spoken else await self._settle(messages, outputs)
        for call in itertools.chain.from_iterable(self._under_way.values()):
            # Another capability did not let the result through.
            call.leave_notes()
        self._under_way.clear()
        self._begun = True
        go_on = self.conversation.next_turn(
            users=self._users(messages), past=lambda: self._past(messages)
        )
        self._turn += 1
        if not go_on:
            return False
        notes += [each["content"] for each in self.conversation.run.messages("openai")]
        put_behind(notes, messages)
        return True

    def _begin(self, messages: Sequence[Any]) -> None:
        """Take up the history, where calls come before the first request, as approved ones do."""
        if not self._begun:
            self._begun = True
            self.conversation.next_turn(
                users=self._users(messages), past=lambda: self._past(messages)
            )

    async def _settle(self, messages: Sequence[Any], outputs: set[str]) -> list[str]:
        """Count the calls of the last response that were answered without their tools.

        Returns:
            What there is to say about them.
        """
        if not self._begun and self.conversation.run.calls == 0:
            # They are part of what is taken up.
            return []
        start = max((n for n, each in enumerate(messages) if each.kind == "response"), default=None)
        if start is None:
            return []
        notes: list[str] = []
        for _, part, answer in answered_calls(messages[start:]):
            if (
                part.tool_name not in outputs
                and self._id(part.tool_call_id) not in self._ids.counted
            ):
                notes += await self._settle_one(part, answer)
        return notes

    async def _settle_one(self, part: Any, answer: Any) -> list[str]:
        outcome = outcome_of(answer)
        if outcome == "interrupted":
            return []
        if outcome == "success":
            # Before the first request here: what a person or another program gave for a call put off.
            on_purpose = self._turn == 0 or part.tool_call_id in self._put_off
            call = await self._made_elsewhere(
                part, part.args, answer.content, on_purpose=on_purpose
            )
            note = call.note_text()
        else:
            call_id = self._id(part.tool_call_id)
            self._ids.counted.add(call_id)
            call = self.conversation.call(part.tool_name, part.args, call_id)
            reason = text_of(answer)
            note = call.refuse(reason, denied=outcome == "denied").removeprefix(reason).strip()
        return [note] if note else []

    # -- the history -----------------------------------------------------------------------------

    def _is_said(self, part: Any) -> bool:
        """Whether a part holds the words of a person."""
        return may_be_said(part) and part.content not in self._given and self._is_user(part)

    def _users(self, messages: Sequence[Any]) -> int:
        return sum(self._is_said(part) for each in messages for part in each.parts)

    def _past(self, messages: Sequence[Any]) -> list[PastCall]:
        """Return the calls since a person spoke that got an answer."""
        said = [n for n, each in enumerate(messages) if any(map(self._is_said, each.parts))]
        recent = messages[said[-1] + 1 if said else 0 :]
        past: list[PastCall] = []
        for place, part, answer in answered_calls(recent):
            found = past_call(place, part, answer, self._tools.get(part.tool_name))
            if found is not None:
                # By their places: some providers use an id again in the next response.
                past.append(attrs.evolve(found, call_id=f"{found.call_id} of message {place}"))
                if self.conversation.run.calls == 0:
                    self._ids.counted.add(self._id(part.tool_call_id))
        return past
