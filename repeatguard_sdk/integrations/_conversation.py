"""One run under an adapter: found or opened, its turns marked, its calls guarded, its end told."""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from repeatguard_sdk._memory import Memory
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._registry import Registry
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import active, mark_stop
from repeatguard_sdk._types import MISSING, Effect
from repeatguard_sdk.events import Event, EventSink
from repeatguard_sdk.integrations._call_ids import ids_of
from repeatguard_sdk.integrations._records import Known, Records, check_effects
from repeatguard_sdk.integrations._tool_call import ToolCall

_numbers = itertools.count(1)

Delivery = Literal["result", "messages"]


@attrs.frozen(kw_only=True)
class Settings:
    """What a host may say about the runs of an adapter.

    Attributes:
        policy, events, memory, registry: as for `Run`; they hold for runs the adapter opens.
        effects: name to effect, for tools that nobody can decorate.
        deliver: "result" puts observations behind the result they are about; "messages" leaves
            them to be sent as messages after all results.
        control_flow: exception types by which the framework leaves a tool without an outcome.
    """

    policy: Policy | None = None
    events: EventSink | Callable[[Event], Any] | None = None
    memory: Memory | None = None
    registry: Registry | None = None
    effects: Mapping[str, Effect] = attrs.field(factory=dict[str, Effect])
    deliver: Delivery = "result"
    control_flow: tuple[type[BaseException], ...] = ()

    def __attrs_post_init__(self) -> None:
        """Reject what cannot work."""
        check_effects(self.effects)
        if self.deliver not in ("result", "messages"):
            msg = f'deliver={self.deliver!r}: write "result" or "messages"'
            raise ValueError(msg)


class Conversation:
    """One agent task of a framework under guard.

    The run is the one whose block the host is in; where there is none, one is opened that lives in no
    context: each call is made in it explicitly.

    Args:
        settings: what the host said.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        here = active.get()
        self.owns_run = not isinstance(here, Run) or not here.guarding
        self.run: Run = self._opened() if self.owns_run else here
        self._take(self.run)
        self._users: int | None = None
        self._number, self._turns = next(_numbers), 0

    def _opened(self) -> Run:
        settings = self._settings
        run = Run(
            policy=settings.policy,
            on_stuck="flag",
            events=settings.events,
            memory=settings.memory,
            registry=settings.registry,
        )
        # In a context of its own, so that it guards nothing but what is called through it.
        contextvars.copy_context().run(run.__enter__)
        return run

    def _take(self, run: Run) -> None:
        run.govern(control_flow=self._settings.control_flow)
        self.records = Records(run, self._settings.effects)

    # -- what the framework gives ----------------------------------------------------------------

    def offer(self, tools: Iterable[tuple[str, Known]]) -> None:
        """Tell which tools the model is given, by the name it sees.

        Args:
            tools: each with what `known` told of it.
        """
        self.run.offer([self.records.shown(known, name) for name, known in tools])

    def known(
        self,
        name: str,
        function: Callable[..., Any] | None = None,
        *,
        annotations: Any = None,
        description: str = "",
        by_name: bool = False,
    ) -> Known:
        """Return what is known of a tool; the parameters are those of `Records.of`."""
        return self.records.of(
            name, function, annotations=annotations, description=description, by_name=by_name
        )

    def next_turn(
        self,
        *,
        users: int | None = None,
        past: Callable[[], Sequence[PastCall]] = tuple,
        state: Any = MISSING,
    ) -> bool:
        """Mark the boundary before a request to the model; false where the loop must end instead.

        Args:
            users: how many messages of the user the history holds; one more than before resets the
                run.
            past: gives the calls since the last of them; asked where the run may not have seen them.
            state: as for `Run.turn`.
        """
        if not self.run.guarding:
            if not self.owns_run:
                # A stream that is read after the block of its run.
                return not self.run.over
            # Closed by the host, and used again.
            self._reopen()
            self._users = None
        if self._users is None:
            self._take_up(past())
        elif users is not None and users > self._users:
            self.user_message()
        if users is not None or self._users is None:
            self._users = users or 0
        self._turns += 1
        self.run.turn(state=state)
        return not self.run.over

    def _take_up(self, past: Sequence[PastCall]) -> None:
        if self.run.calls == 0:
            self.recall(past)
        elif not past:
            # Nothing of this history is newer than the user's words, but the run has seen calls.
            self.user_message()

    def recall(self, past: Iterable[PastCall]) -> None:
        """Count calls of the history as made, oldest first, and execute nothing."""
        self.run.recall(ids_of(self.run).told_apart(past, self._number))

    def user_message(self) -> None:
        """Say that the user spoke; a run of ours that had ended makes place for the next."""
        if self.owns_run and (self.run.over or not self.run.guarding):
            self._reopen()
        else:
            self.run.user_message()

    def _reopen(self) -> None:
        self.close()
        self.run = self._opened()
        self._take(self.run)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None,
        call_id: str | None,
        known: Known | None = None,
    ) -> ToolCall:
        """Return a call that the model asked for.

        Args:
            name, arguments, call_id: as the model gave them.
            known: the tool, as `known` told it; `None` for a name that no tool has.
        """
        if known is not None:
            known = known._replace(tool=self.records.shown(known, name))
        return ToolCall(
            self.run,
            name,
            arguments,
            ids_of(self.run).of(call_id, self._number, self._turns),
            known,
            queued=self._settings.deliver == "messages",
            control_flow=self._settings.control_flow,
        )

    # -- the end ---------------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """What a person should know who takes over; empty while the run goes on."""
        outcome = self.run.outcome
        return "" if outcome is None else outcome.summary

    def stop(self, error: BaseException) -> BaseException:
        """Return the exception that ends the framework's loop, for which the run's block answers."""
        mark_stop(error, self.run)
        return error

    def close(self, error: BaseException | None = None) -> None:
        """End the run, if it is ours."""
        run = self.run
        if self.owns_run and run.guarding:
            kind = None if error is None else type(error)
            contextvars.copy_context().run(run.__exit__, kind, error, None)
