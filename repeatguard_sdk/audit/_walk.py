"""One recorded run through the guard's own engine, call by call, as it would have met it live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._calling import CallPath
from repeatguard_sdk._engine import Engine
from repeatguard_sdk._identity import Identity
from repeatguard_sdk._ledger import Ledger
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._refusing import count_refused
from repeatguard_sdk._registry import Registry
from repeatguard_sdk._reporting import Reporter
from repeatguard_sdk._scope import call_ids
from repeatguard_sdk._scripted import scripted_error
from repeatguard_sdk._settling import success
from repeatguard_sdk._telling import Teller
from repeatguard_sdk._toolset import Toolset
from repeatguard_sdk._turning import open_turn
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._plan import PlannedCall, PlannedStep, Steps
from repeatguard_sdk.audit._recorded import Happening
from repeatguard_sdk.audit._run_audit import Ended, Verdict


class Walk:
    """Takes the calls of one run in the place of their tools.

    Args:
        policy: the policy of the run.
        shared_ids: provider's ids that more than one call of the run has: redeliveries.
    """

    def __init__(self, policy: Policy, shared_ids: frozenset[str]) -> None:
        # Nowhere, whatever the environment says: what is found here did not happen in a run.
        reporter = Reporter("", (), lambda: 0.0, log_too=True)
        engine = Engine(policy, None, lambda tool, why: None, Ledger())
        toolset = Toolset(None, Registry())
        self._engine = engine
        # There is no run, and nobody is told anything: it all happened long ago.
        self._teller = Teller(None, engine, reporter, toolset, "flag", "queue")
        self._teller.recalling = True
        self._path = CallPath(None, engine, reporter, self._teller)
        self._firsts = self._path.firsts
        self._shared_ids = shared_ids
        self._turn: int | None = None

    @property
    def ended(self) -> Ended | None:
        """How the guard would have ended the run, "stuck" or "finished"; `None` if it would not."""
        if self._engine.ended is None:
            return None
        return "stuck" if self._engine.stuck else "finished"

    def verdicts(self, steps: Sequence[PlannedStep]) -> Iterator[Verdict]:
        """Yield a verdict for each call that would not just have been executed, up to the exit."""
        for step in steps:
            if isinstance(step, str):
                self._happened(step)
                continue
            if step.recorded.turn != self._turn:
                self._turn = step.recorded.turn
                open_turn(self._engine, MISSING, ())
            admission = self._take(step)
            if admission is not None:
                verdict = self._judge(step, admission)
                if verdict is not None:
                    yield verdict
            if self._engine.ended is not None:
                return

    def skip(self, steps: Steps, effects: Mapping[str, tuple[str, str]]) -> None:
        """Take note of steps in which nothing can be found; a person speaks before and after them.

        Args:
            steps: what is skipped.
            effects: by tool, its effect.
        """
        self._turn = None
        self._engine.finished = self._engine.finished or any(
            effects[step.tool][0] == "final" and step.error is None and step.result is not MISSING
            for step in steps
            if not isinstance(step, str)
        )

    def _happened(self, what: Happening) -> None:
        if what == "user_message":
            self._engine.user_spoke()
        elif what == "external_change":
            self._engine.moved_on()
        else:
            with self._engine.lock:
                self._engine.ledger.open_generation()

    def _take(self, step: PlannedCall) -> Admission | None:
        """Guard one call; `None` if it was executed as the first of its kind."""
        tool, arguments, result = step.tool, step.arguments, step.result
        if step.recorded.refused or isinstance(arguments, str):
            return self._refused(step)
        call_id = step.recorded.call_id
        if call_id is not None and call_id in self._shared_ids:
            token = call_ids.set(call_id)
            try:
                return self._in_full(step, arguments, None)
            finally:
                call_ids.reset(token)
        identity: Identity | None = None
        if step.error is None and result is not MISSING:
            first = self._firsts.begin(tool, (), arguments)
            if isinstance(first, tuple):
                if self._firsts.settle(first, tool, result):
                    return None
                self._path.returned(first, tool, (), arguments, result)
                return self._newest_admission()
            if isinstance(first, Admission):
                return first
            identity = first
        return self._in_full(step, arguments, identity)

    def _in_full(
        self, step: PlannedCall, arguments: Mapping[str, Any], identity: Identity | None
    ) -> Admission | None:
        """Do as `call` does, with the outcome at hand: nothing is raised, nothing waits."""
        tool = step.tool
        admission = self._path.admit(tool, (), arguments, None, identity)
        if admission is None:
            self._path.passed_by(tool)
        elif admission.executed:
            self._settle(admission, step, arguments)
        return admission

    def _settle(
        self, admission: Admission, step: PlannedCall, arguments: Mapping[str, Any]
    ) -> None:
        if step.error is not None:
            self._path.failed(admission, scripted_error(step.error))
        elif step.result is MISSING:
            # The transcript ends before it: as if it had been killed.
            self._engine.abandon(admission)
        else:
            self._path.returned(admission, step.tool, (), arguments, step.result)

    def _refused(self, step: PlannedCall) -> Admission:
        arguments, recorded = step.arguments, step.recorded
        given = {"arguments": arguments} if isinstance(arguments, str) else arguments
        return count_refused(
            self._engine,
            step.tool,
            recorded.tool,
            given,
            step.error or "refused",
            denied=False,
            call_id=recorded.call_id,
        )

    def _judge(self, step: PlannedCall, call: Admission) -> Verdict | None:
        finding = call.finding
        if finding is None and (
            call.decision == "execute" or (call.decision == "refuse" and step.recorded.refused)
        ):
            return None
        return Verdict(
            step.number,
            step.recorded.tool,
            call.decision,
            None if finding is None else finding.kind,
            call.count if finding is None else finding.count,
            self._teller.speaks_of(call) and call.decision != "exit",
            _differs(step, call),
            call.tool.spec.effect in ("write", "final"),
        )

    def _newest_admission(self) -> Admission | None:
        last = self._path.last
        return None if isinstance(last, tuple) else last


def _differs(step: PlannedCall, call: Admission) -> bool | None:
    """Tell whether the recorded outcome is another one than the guard would have given."""
    if call.decision not in ("replay", "join", "refuse") or step.recorded.refused or call.fact:
        return None
    entry = call.entry
    if entry is None or not entry.seen or (step.error is None and step.result is MISSING):
        return None
    if (step.error is not None) != entry.failed:
        return True
    if step.error is not None:
        return None if entry.error is None else str(scripted_error(step.error)) != str(entry.error)
    return success(step.result, call.tool.spec, -1).token != entry.token
