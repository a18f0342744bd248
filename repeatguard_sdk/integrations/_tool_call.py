"""One tool call of a framework: executed under guard once, whoever declared the tool, and answered."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from repeatguard_sdk._dispatch import as_mapping, parse_arguments
from repeatguard_sdk._observation import Observation, append_to_result
from repeatguard_sdk._recalling import with_hidden
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import standing_for
from repeatguard_sdk.integrations._records import Known

_CACHED = (
    "a result came back though the guard was not asked, as from a cache in front of it; remove the "
    "cache, or put it below @guarded_tool"
)


class ToolCall:
    """One call on its way through an adapter.

    `guard` or `aguard` executes it; `answer` adds what there is to say to the text of its result.

    Args:
        run: the run it belongs to.
        name: the tool's name as the model wrote it.
        arguments: as the model gave them, parsed or not.
        call_id: the provider's id.
        known: what is known of the tool; `None` for a name that no tool has.
        queued: whether observations wait in the run's queue instead of for `answer`.
        control_flow: exception types that leave the call without an outcome.

    Attributes:
        name: the tool's name.
    """

    def __init__(
        self,
        run: Run,
        name: str,
        arguments: Mapping[str, Any] | str | None,
        call_id: str | None,
        known: Known | None,
        *,
        queued: bool,
        control_flow: tuple[type[BaseException], ...] = (),
    ) -> None:
        self.name = name
        self._run = run
        self._arguments = arguments
        self._known = known
        self._control_flow = control_flow
        self._hosted = run.hosted_call(call_id, queued=queued)
        if known is not None and known.guards_itself:
            self._hosted.tool = known.tool

    # -- executing -------------------------------------------------------------------------------

    def guard(self, execute: Callable[[], Any]) -> Any:
        """Execute the call, or answer it as the guard decides; what the tool raises is raised.

        Args:
            execute: runs the tool as the framework would.
        """
        known = self._known
        if self._is_inside:
            return execute()
        with self._open():
            if known is not None and not known.guards_itself:
                self._warn(known.fix)
                return self._run.call(known.tool, lambda *_, **__: execute(), (), self._named())
            result = execute()
            return self._counted(result)

    async def aguard(self, execute: Callable[[], Awaitable[Any] | Any]) -> Any:
        """Execute the call as `guard` does, awaiting what `execute` returns."""
        known = self._known

        async def body(*_: Any, **__: Any) -> Any:
            result = execute()
            return await result if inspect.isawaitable(result) else result

        if self._is_inside:
            return await body()
        with self._open():
            if known is not None and not known.guards_itself:
                self._warn(known.fix)
                return await self._run.acall(known.tool, body, (), self._named())
            result = await body()
            return self._counted(result)

    @property
    def _is_inside(self) -> bool:
        """Whether this is the body of a tool of the same run: a tool that calls tools is one call."""
        return standing_for(self._run) is not self._run

    def refuse(self, reason: str, *, denied: bool = False) -> str:
        """Count the call as one that never reached its tool, and return what the model should read.

        Args:
            reason: what the framework tells the model.
            denied: whether a person or a rule forbade it.
        """
        with self._hosted.open():
            self._refused(reason, denied=denied)
        return self.answer(reason)

    def _refused(self, reason: str, *, denied: bool = False) -> None:
        self._hosted.reached = True
        if not self._run.guarding:
            # A stream that is read after the block of its run.
            return
        call_id = self._hosted.call_id
        self._run.refused(self.name, self._arguments, reason, denied=denied, call_id=call_id)

    @contextmanager
    def _open(self) -> Generator[None, None, None]:
        """Be the call the run is asked about; one that fails before its guard was refused."""
        with self._hosted.open():
            try:
                yield
            except Exception as error:
                if not self._hosted.reached and not isinstance(error, self._control_flow):
                    self._refused(str(error) or type(error).__name__)
                raise

    def _counted(self, result: Any) -> Any:
        """Count a call whose result came without its guard: as made now, with that result."""
        known = self._known
        if known is None or self._hosted.reached or not self._run.guarding:
            return result
        self._warn(_CACHED)
        return self._run.call(known.tool, lambda *_, **__: result, (), self._named())

    def _named(self) -> dict[str, Any]:
        assert self._known is not None
        parsed = parse_arguments(self._arguments)
        arguments = as_mapping(self._arguments) if isinstance(parsed, str) else parsed
        return with_hidden(self._known.tool, arguments)

    def _warn(self, fix: str) -> None:
        if fix:
            self._run.bypassed(self.name, fix)

    # -- answering -------------------------------------------------------------------------------

    @property
    def executed(self) -> bool:
        """Whether the tool ran."""
        admission = self._hosted.admission
        return admission is None or bool(admission.executed)

    @property
    def spoken(self) -> str | None:
        """The guard's own sentence, if it answered with one: not valid as a typed tool's result."""
        return self._hosted.spoken

    def notes(self) -> list[Observation]:
        """Drain what there is to say to the model after this call."""
        waiting = self._hosted.observations
        if waiting is None:
            return []
        drained = [*waiting, *self._run.observations()]
        waiting.clear()
        return drained

    def answer(self, text: str) -> str:
        """Return the text of the result with what there is to say behind it.

        Args:
            text: the result, or the error, as the framework tells it to the model.
        """
        notes = list({note.text: note for note in self.notes()}.values())
        for note in notes:
            text = append_to_result(text, note)
        return text

    def note_text(self) -> str:
        """Return what there is to say as a text of its own, empty if that is nothing."""
        return self.answer("").strip()

    def leave_notes(self) -> None:
        """Leave what there is to say to the next place: this call's result can hold no text."""
        self._run.requeue(self.notes())
