"""One tool call of a LangChain agent on its way through the middleware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import wrapt

import repeatguard_sdk.integrations._langchain_messages as reading
from repeatguard_sdk.integrations._langchain_task import Task
from repeatguard_sdk.integrations._tool_call import ToolCall

_ObjectProxy: Any = wrapt.ObjectProxy


class _Failed(Exception):
    """A result that says that the tool failed.

    Attributes:
        content: what the model reads.
    """

    def __init__(self, content: Any) -> None:
        super().__init__(content)
        self.content = content

    def __str__(self) -> str:
        return reading.text_of(self.content)


class Way:
    """The way of one tool call through the middleware.

    Args:
        task: the invocation it belongs to.
        request: the framework's account of the call.
        asynchronous: whether it is made in an event loop.
    """

    def __init__(self, task: Task, request: Any, *, asynchronous: bool) -> None:
        self._task = task
        self._asked: Mapping[str, Any] = request.tool_call
        self._tool = request.tool
        self._result: Any = None
        messages = reading.messages_in(request.state)
        known = task.begin(messages, request, asynchronous=asynchronous)
        self._guards_itself = known is not None and known.guards_itself
        name, call_id = self._asked["name"], self._asked["id"]
        task.came_by(call_id)
        arguments = reading.arguments_of(self._asked, request.state)
        self.call = task.conversation.call(name, arguments, call_id, known)
        self.request = request
        if self._guards_itself:
            self.request = request.override(tool=_Addressed(self._tool, self.call))

    def keep(self, result: Any) -> Any:
        """Take what the framework made of the tool's result, and return what the guard should keep.

        Raises:
            _Failed: it says that the tool failed.
        """
        self._result = result
        answer = reading.answer_in(result, self._asked["id"])
        if answer is not None and answer.status == "error":
            raise _Failed(answer.content)
        return reading.kept_of(answer)

    def answered(self, kept: Any) -> Any:
        """Return the result of the call with what there is to say to the model.

        Args:
            kept: what the guard gave: as `keep` made it, now or for an earlier call.
        """
        if self._result is not None:
            return self._noted(self._result)
        if isinstance(kept, Mapping):
            return self._noted(self._message(kept["content"], artifact=kept["artifact"]))  # pyright: ignore[reportUnknownArgumentType]
        return self._noted(self._message(kept))

    def failed(self, error: Exception) -> Any:
        """Return the message about a failure, or raise it where others are to write that."""
        if isinstance(error, _Failed):
            return self._noted(self._result or self._message(error.content, status="error"))
        if self.call.spoken is not None:
            # The framework found that it is no result of this tool; the model is to read it.
            return self._noted(self._message(self.call.spoken))
        if not isinstance(error, self._task.control_flow):
            self._task.late(self._asked["id"], self.call)
        raise error

    def _message(self, content: Any, **more: Any) -> Any:
        name, call_id = self._asked["name"], self._asked["id"]
        return reading.ToolMessage(content, name=name, tool_call_id=call_id, **more)

    def _noted(self, result: Any) -> Any:
        answer = reading.answer_in(result, self._asked["id"])
        if answer is None or getattr(self._tool, "return_direct", False):
            # No model reads it: it is nothing, or goes to the user as it is.
            self.call.leave_notes()
            return result
        noted = reading.noted(answer, self.call)
        return result if noted is answer else reading.exchanged(result, answer, noted)


class _Addressed(_ObjectProxy):  # type: ignore[misc]
    """A tool with a guard of its own: what that replays is addressed to the call that gets it.

    A message or a command holds the id of the call it was made for, which the framework checks. Of a
    command only the message is given again: the state has its update.
    """

    def __init__(self, tool: Any, call: ToolCall) -> None:
        _ObjectProxy.__init__(self, tool)
        self._self_call = call

    def invoke(self, asked: Any, *args: Any, **kwargs: Any) -> Any:
        """Invoke the tool."""
        return self._self_addressed(asked, self.__wrapped__.invoke(asked, *args, **kwargs))

    async def ainvoke(self, asked: Any, *args: Any, **kwargs: Any) -> Any:
        """Invoke the tool in an event loop."""
        return self._self_addressed(asked, await self.__wrapped__.ainvoke(asked, *args, **kwargs))

    def _self_addressed(self, asked: Any, result: Any) -> Any:
        answer = reading.answer_in(result)
        if self._self_call.executed or (
            isinstance(result, reading.ToolMessage) and result.tool_call_id == asked["id"]
        ):
            return result
        content = reading.kept_of(None) if answer is None else answer.content
        message = reading.ToolMessage(
            content, name=asked["name"], tool_call_id=asked["id"], status="success"
        )
        if answer is not None:
            message.artifact, message.status = answer.artifact, answer.status
        return message
