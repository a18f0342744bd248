"""One invocation of a LangChain agent under guard: its turns, its tools, what its history tells."""

from __future__ import annotations

import functools
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import repeatguard_sdk.integrations._langchain_messages as reading
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import active
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._records import Known
from repeatguard_sdk.integrations._tool_call import ToolCall

# Where a graph's state keeps the name of its task.
TASK = "repeatguard_task"
# An invocation that fails, or waits for a person who never answers, does not say that it is over. One
# that is forgotten too early is taken up again from its messages.
_MOST_TASKS = 1000


def task_in(state: Any) -> str | None:
    """Return the name of a state's task, `None` if it has none."""
    if isinstance(state, Mapping):
        return state.get(TASK)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    return getattr(state, TASK, None)


class Tasks:
    """The invocations that are under way.

    Args:
        settings: what the host said.
        is_user: likewise.
    """

    def __init__(self, settings: Settings, is_user: Callable[[Any], bool] | None) -> None:
        self._settings = settings
        self._is_user = is_user
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        # Protects `_tasks`: invocations begin, go on and end in any thread.
        self._lock = threading.Lock()

    def of(self, state: Any, *, name: str | None = None) -> Task:
        """Return the task of a state, new where there is none that can go on."""
        name = name or task_in(state) or _response_in(state)
        with self._lock:
            task = self._tasks.pop(name, None)
            if task is None or task.is_stale:
                task = Task(name, self._settings, self._is_user)
            self._tasks[name] = task
            forgotten = [
                self._tasks.popitem(last=False)[1] for _ in range(len(self._tasks) - _MOST_TASKS)
            ]
        for each in forgotten:
            each.conversation.close()
        return task

    def end(self, name: str | None) -> None:
        """End a task, if it is under way."""
        with self._lock:
            task = self._tasks.pop(name or "", None)
        if task is not None:
            task.conversation.close()


def _response_in(state: Any) -> str:
    """Return a name for the task of a state that has no place for one: that of its newest response."""
    for message in reversed(reading.messages_in(state)):
        if isinstance(message, reading.AIMessage):
            return message.id or f"response {id(message)}"
    return uuid.uuid4().hex


class Task:
    """One invocation of an agent under guard.

    Args:
        name: under which it is found again.
        settings: what the host said.
        is_user: likewise.
    """

    def __init__(
        self, name: str, settings: Settings, is_user: Callable[[Any], bool] | None
    ) -> None:
        self.name = name
        self.conversation = Conversation(settings)
        self.control_flow = settings.control_flow
        self._is_user = is_user
        self._began = False
        # What the history holds, while nobody has told which tools there are.
        self._owed: list[Any] = []
        self._known: dict[str, tuple[Known, Any]] = {}
        # Calls that have been counted, by id, and those whose notes have found no place yet.
        self._counted: set[str] = set()
        self._late: list[tuple[str, ToolCall]] = []
        self._answered: list[str] = []
        self._cleared: set[str] = set()
        # Protects the start of a task that begins with several tool calls at once.
        self._lock = threading.RLock()

    @property
    def is_stale(self) -> bool:
        """Whether its run is another one than the host's here, or its block has been left."""
        here = active.get()
        if isinstance(here, Run) and here.guarding:
            return here is not self.conversation.run
        return not self.conversation.run.guarding

    # -- turns -----------------------------------------------------------------------------------

    def is_rewound(self, messages: Sequence[Any]) -> bool:
        """Tell whether the history has lost its end since the last turn, as from an older checkpoint."""
        now, before = reading.results_in(messages), self._answered
        self._answered = list(now)
        missing = [call_id for call_id in before if call_id not in now]
        if missing and before[-1] in missing and not set(now) - set(before):
            return True
        if missing and self.conversation.run.guarding:
            # It was summarized: the model does not have those results any more.
            self.conversation.run.compacted()
        return False

    def next_turn(self, messages: Sequence[Any]) -> bool:
        """Mark the boundary before a request; false where the loop must end instead."""
        people = [
            place
            for place, message in enumerate(messages)
            if reading.is_person(message) and (self._is_user is None or self._is_user(message))
        ]
        recent = messages[people[-1] + 1 if people else 0 :]
        if not self._began:
            self._began = True
            self._counted.update(reading.results_in(messages))
            if not self._known and not self.conversation.run.calls:
                self._owed = list(recent)
                return self.conversation.next_turn(users=len(people))
        return self.conversation.next_turn(users=len(people), past=lambda: self._past(recent))

    def begin(self, messages: Sequence[Any], request: Any, *, asynchronous: bool) -> Known | None:
        """Take up a task that begins with a tool call, as after an approval in another process.

        Args:
            messages: the history.
            request: the framework's account of the call.
            asynchronous: whether it is made in an event loop.

        Returns:
            What is known of the tool, `None` for a name that none has.
        """
        with self._lock:
            if not self._began:
                self._answered = list(reading.results_in(messages))
                self.next_turn(messages)
            tools = getattr(request.runtime, "tools", None)
            if tools and not self._known:
                # Nobody told which of them the model is given.
                self.offer(tools, asynchronous=asynchronous)
            known = None if request.tool is None else self.know(request.tool, asynchronous)
            self._recall_owed()
        return known

    def _past(self, messages: Sequence[Any]) -> list[Any]:
        answers = reading.results_in(messages)
        return [
            reading.past_call(turn, asked, answers[asked["id"]], *self._found(asked["name"]))
            for turn, asked in reading.asked_in(messages)
            if asked["id"] in answers and not reading.is_edited(answers[asked["id"]])
        ]

    def settle(self, messages: Sequence[Any]) -> list[Any]:
        """Count the calls that were answered without having come by, and place late notes.

        Returns:
            The messages of the history that have a note now.
        """
        if not self._began:
            return []
        answers = reading.results_in(messages)
        late, self._late = self._late, []
        changed: dict[str, Any] = {}
        for _, asked in reading.asked_in(messages):
            answer = answers.get(asked["id"])
            if answer is None or asked["id"] in self._counted:
                continue
            self._counted.add(asked["id"])
            if answer.status == "error":
                call = self.conversation.call(asked["name"], asked["args"], asked["id"])
                call.refuse(reading.reason_in(answer), denied=reading.is_denied(answer))
            else:
                # Somebody else gave its result: a person, or a middleware in front of this one.
                known = self.conversation.known(asked["name"])
                call = self.conversation.call(asked["name"], asked["args"], asked["id"], known)
                call.guard(functools.partial(reading.kept_of, answer))
            late.append((asked["id"], call))
        for call_id, call in late:
            answer = changed.get(call_id) or answers.get(call_id)
            noted = None if answer is None else reading.noted(answer, call)
            if noted is not None and noted is not answer:
                changed[call_id] = noted
        return list(changed.values())

    def late(self, call_id: str, call: ToolCall) -> None:
        """Remember a call whose result is written by others; its notes are placed in the history."""
        self._late.append((call_id, call))

    def came_by(self, call_id: str) -> None:
        """Note that a call is counted where it is made."""
        self._counted.add(call_id)

    def farewell(self) -> Any:
        """Return the agent's last message: why the loop ended."""
        outcome = self.conversation.run.outcome
        reason = "stuck" if outcome is None else outcome.reason
        return reading.AIMessage(
            self.conversation.summary, response_metadata={"repeatguard": reason}
        )

    def lost(self, messages: Sequence[Any]) -> None:
        """Take note of results that are cleared from a request, though the history has them."""
        cleared = {
            call_id
            for call_id, answer in reading.results_in(messages).items()
            if reading.is_cleared(answer)
        }
        if cleared - self._cleared and self.conversation.run.guarding:
            self.conversation.run.compacted()
        self._cleared |= cleared

    # -- tools -----------------------------------------------------------------------------------

    def offer(self, tools: Sequence[Any], *, asynchronous: bool) -> bool:
        """Tell which tools there are; false where the history turns out to be a loop."""
        conversation = self.conversation
        # A provider's own tools are mappings; they are run elsewhere.
        named = [tool for tool in tools if hasattr(tool, "name")]
        conversation.offer((tool.name, self.know(tool, asynchronous)) for tool in named)
        return self._recall_owed()

    def _recall_owed(self) -> bool:
        with self._lock:
            past = self._past(self._owed)
            self._owed = []
            if past:
                self.conversation.recall(past)
                return self.conversation.next_turn()
        return not self.conversation.run.over

    def know(self, tool: Any, asynchronous: bool) -> Known:
        """Return what is known of a tool."""
        known = self.conversation.known(
            tool.name,
            reading.function_of(tool, asynchronous=asynchronous),
            annotations=reading.annotations_of(tool),
            description=tool.description,
        )
        self._known[tool.name] = (known, tool)
        return known

    def _found(self, name: str) -> tuple[Known | None, Any]:
        return self._known.get(name, (None, None))
