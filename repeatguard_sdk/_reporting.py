"""What a run tells its sink: interventions, warnings, and the record at its end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._call import BUDGET_SPENT, identical_cause
from repeatguard_sdk._canonical import digest
from repeatguard_sdk._default_sink import default_sink
from repeatguard_sdk._emitting import Emitter, GivenSink, emitter
from repeatguard_sdk._following import Following
from repeatguard_sdk._ledger import Ledger
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._text import quote
from repeatguard_sdk._types import MISSING, NextStep, Reason, SuspectedCause, is_sequence

if TYPE_CHECKING:
    from repeatguard_sdk._event import RepeatEvent

_PREVIEW = 200
_READ_FOR_CAUSE = 2_000
_MAX_NAMES = 64
# Where warnings go where the program names no sink: a developer should not miss them.
_LOG = logging.getLogger("repeatguard_sdk")


def _cause(call: Admission) -> str:
    """Say what would have been done for, where it was not found to be so."""
    if call.budget is not None:
        return BUDGET_SPENT
    if call.differed:
        return "identical call, other result"
    return identical_cause(failed=call.entry is not None and call.entry.failed)


def _suspected(call: Admission, result: Any) -> SuspectedCause | None:
    """Guess why it is repeated; there is nothing to go by where nothing came back."""
    if result is MISSING:
        return None
    # Imported here: its patterns are for events, and a run without a sink has none.
    from repeatguard_sdk._suspicion import suspect_cause

    if isinstance(result, BaseException):
        result = f"{type(result).__name__}: {quote(str(result), _READ_FOR_CAUSE)}"
    text = result if isinstance(result, str) else quote(result, _READ_FOR_CAUSE)
    failed = call.entry is not None and call.entry.failed
    return suspect_cause(
        text, failed=failed, unknown_tool=bool(call.reason) and not call.state.name
    )


def _clamped(result: Any) -> str:
    """Show a result in `_PREVIEW` characters, what says that it was cut included."""
    shown = quote(result, _PREVIEW)
    return shown if len(shown) <= _PREVIEW else quote(result, _PREVIEW - 32)


class Reporter:
    """Sends the events of one run; without a sink it only counts them.

    Args:
        run_id: goes into every event.
        sink: where they go; one, several or, as an empty list, none. Default: where `default_sink`
            says, if anywhere.
        clock: seconds.
        log_too: whether warnings go to the log though a sink is given; without one they do.

    Attributes:
        following: the interventions whose follow-up is awaited.
    """

    def __init__(
        self,
        run_id: str,
        sink: GivenSink | Sequence[GivenSink] | None,
        clock: Callable[[], float],
        *,
        log_too: bool = False,
    ) -> None:
        self._run_id = run_id
        given = default_sink() if sink is None else sink
        nowhere = given is None or (is_sequence(given) and not given)
        self._log_too = sink is None or log_too
        self._sink: Emitter | None = None if given is None or nowhere else emitter(given)
        self.following = self._new_following()
        self._clock = clock
        self._started = 0.0
        self._interventions = 0
        self._faulted = False
        self._bypassed: set[str] = set()
        self.clock_warned = False

    @property
    def dropped(self) -> int:
        """Events the sink raised on, or had no room for."""
        return 0 if self._sink is None else self._sink.dropped

    def _now(self) -> float:
        try:
            return self._clock()
        except Exception:
            # No clock of a host's can cost a call its result.
            return 0.0

    def start(self) -> None:
        """Note when the run began."""
        self._started = self._now()

    def intervention(self, call: Admission, *, result: Any, style: str) -> None:
        """Send what was found about a call, or what would have been done."""
        self._interventions += 1
        if self._sink is None:
            return
        event = self._event(call, result, style)
        self._sink.emit(event)
        if event.did is None:
            self.following.begin(event, call)

    def _event(self, call: Admission, result: Any, style: str) -> RepeatEvent:
        # Imported here, as the other events: a run without a sink has none.
        from repeatguard_sdk._event import RepeatEvent

        finding, entry, spec = call.finding, call.entry, call.tool.spec
        return RepeatEvent(
            run_id=self._run_id,
            number=self._interventions,
            at=self._now(),
            call=call.number,
            turn=call.turn,
            call_id=call.call_id,
            tool=spec.name,
            effect=spec.effect,
            arguments=tuple(str(name) for name in list(call.arguments())[:_MAX_NAMES]),
            finding=finding.kind if finding is not None else "repeat",
            decision=call.decision,
            would=call.would,
            count=finding.count if finding is not None else call.count,
            cause=finding.cause if finding is not None else _cause(call),
            key_digest="" if call.key is None else digest(call.key),
            result_digest="" if entry is None or entry.token is None else digest(entry.token),
            preview="" if result is MISSING else _clamped(result),
            failed=entry is not None and entry.failed,
            suspected_cause=_suspected(call, result),
            style=style,
            mode=call.mode,
            differed=call.differed,
            # Nothing can follow it in the run; a model that goes on is answered, not guarded.
            did="ended" if call.ends_run else None,
        )

    def saw_call(self, call: Admission) -> None:
        """Take note of a call that may tell what followed an intervention."""
        try:
            self.following.saw_call(call)
        except Exception:
            # A key that cannot be compared; what followed stays unknown.
            self.following = self._new_following()

    def _new_following(self) -> Following:
        # Not a method of this reporter, which would then be freed by the collector only.
        return Following(None if self._sink is None else self._sink.emit)

    def conclude(self, did: NextStep) -> None:
        """Take note that the model answered, or that the run is at its end."""
        self.following.conclude(did)

    def warn_uncountable(self, tool: Tool, why: str) -> None:
        """Say, once a tool, that a call of it cannot be compared."""
        self._warn(tool.spec.name, f"a call cannot be compared and was let through: {why}")

    def warn_clock(self, fields: tuple[str, ...]) -> None:
        """Say, once a run, that a state always changes because it holds a clock or a random id."""
        if not self.clock_warned:
            self.clock_warned = True
            names = ", ".join(fields)
            self._warn(
                "",
                f"the state given to run.turn changed only in {names}, which looks like a clock "
                f"or a random id; write run.turn(state=..., ignore={list(fields)!r})",
            )

    def warn_bypassed(self, tool: str, fix: str) -> None:
        """Say, once a tool, that its calls do not go through its guard, and what to write instead."""
        if tool not in self._bypassed:
            self._bypassed.add(tool)
            self._warn(tool, f"a call went past the guard of this tool: {fix}")

    def fault(self, tool: Tool, error: Exception) -> None:
        """Say, once a run, that the guard itself went wrong; the call was let through."""
        if not self._faulted:
            self._faulted = True
            name = type(error).__name__
            what = f"the guard failed and let the call through: {name}: {error}"
            self._warn(tool.spec.name, what, error)

    def _warn(self, tool: str, what: str, fault: Exception | None = None) -> None:
        if self._log_too:
            _LOG.warning("%s: %s", tool or "the run", what)
        if self._sink is not None:
            from repeatguard_sdk._event import GuardWarning

            self._sink.emit(
                GuardWarning(run_id=self._run_id, at=self._now(), tool=tool, what=what, fault=fault)
            )

    def wait(self, seconds: float) -> None:
        """Wait so long for a sink that is called in a thread of its own."""
        if self._sink is not None:
            self._sink.close(seconds)

    def end(self, ledger: Ledger, reason: Reason) -> None:
        """Send what followed the last interventions, and the record of the run."""
        if self._sink is None:
            return
        from repeatguard_sdk._event import RunRecord

        self.conclude("answered" if reason in ("completed", "finished") else "ended")
        tools = ledger.tools.values()
        self._sink.emit(
            RunRecord(
                run_id=self._run_id,
                started=self._started,
                ended=self._now(),
                calls=ledger.calls - ledger.calls_before,
                turns=ledger.turn - ledger.turns_before,
                executed={tool.name: tool.executed for tool in tools if tool.executed},
                replayed={tool.name: tool.replayed for tool in tools if tool.replayed},
                joined={tool.name: tool.joined for tool in tools if tool.joined},
                refused={tool.name: tool.refused for tool in tools if tool.refused},
                events=self._interventions,
                reason=reason,
            )
        )
