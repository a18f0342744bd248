"""One guarded call on its way through the guard: a mutable record that lives as long as the call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from repeatguard_sdk._call import CallDecision, Finding
from repeatguard_sdk._entry import Begun, Entry, ToolState
from repeatguard_sdk._flight import Flight, Landing
from repeatguard_sdk._observation import Observation
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._shown import Shown
from repeatguard_sdk._types import MISSING, Decision, Effect, Mode

if TYPE_CHECKING:
    from repeatguard_sdk._wording import ObservationFacts

# What the row of outcomes is said of that all unknown names share.
_NAMELESS = "tools that do not exist"
# What the ledger keeps is not looked up for a call of which there is nothing to say.
UNREAD: Final = object()


class Admission:
    """What was decided for one call, and later what came of it.

    Attributes:
        tool, effect, state: the tool, what it may do, and what the ledger knows of it.
        number, turn: which call; see `CallDecision`.
        mode: the mode that holds for it.
        args, kwargs: the arguments as given.
        decision, would: what is done, and what ``enforce`` would do.
        executed: whether the tool runs.
        key: its identity; `None` for a call without one.
        entry: what the ledger knows of its key; `None` for a call without identity.
        call_id: the provider's id, if the host gave one.
        counts: whether it counts at all; a redelivered call id and a retry do not.
        count: how many equal calls this makes.
        epoch, drift: what they were when it was admitted.
        flight: set while it runs and others may join it.
        joined, waiter: set when it waits for another call's flight.
        landed: whether its execution has ended, whatever came of it.
        value: the stored result to answer with, `MISSING` if there is none.
        error: the stored error to raise instead.
        kept: what the ledger kept of its key's outcome, for a preview; `UNREAD` where nobody looked.
        first_call, first_failed: the call that it repeats, 0 for none, and whether that had failed.
        given: the arguments of a call that never came to its tool, as they were.
        known: the fact that answered a question.
        told: whether `value` is a sentence of ours that stands in for a result.
        reason: why the call never reached its tool.
        fact: the name of the known fact that answers a question.
        began: call and turn where it began, for a finding that is about no call.
        silent: whether the ladder gives no note at this count.
        budget: set when the tool's budget is spent.
        finding: what was found.
        tell: tells what its observation is written from; `None` if there is nothing to say.
        differed: whether its result differed from the stored one; `None` where that is not known.
    """

    # Defaults on the class: most calls set few of them, and each one set costs.
    decision: Decision = "execute"
    would: Decision = "execute"
    counts: bool = True
    count: int = 1
    executed: bool = False
    entry: Entry | None = None
    key: Hashable = None
    fold: Hashable = None
    shown: Shown | None = None
    flight: Flight | None = None
    joined: Flight | None = None
    waiter: Future[Landing] | None = None
    landed: bool = False
    value: Any = MISSING
    error: BaseException | None = None
    told: bool = False
    kept: Any = UNREAD
    first_call: int = 0
    first_failed: bool = False
    given: Mapping[str, Any] | None = None
    known: Any = MISSING
    reason: str = ""
    fact: str = ""
    budget: int | None = None
    finding: Finding | None = None
    tell: Callable[[Any], ObservationFacts] | None = None
    differed: bool | None = None
    call_id: str | None = None
    drift: int = 0
    silent: bool = False
    began: tuple[int, int] | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, tool: Tool, state: ToolState, number: int, turn: int, epoch: int, mode: Mode
    ) -> None:
        self.tool = tool
        self.effect: Effect = tool.spec.effect
        self.state = state
        self.number = number
        self.turn = turn
        self.epoch = epoch
        self.mode: Mode = mode
        self._observation: Observation | None = None

    @property
    def observation(self) -> Observation | None:
        """The text for the model, if there is one; made when it is first asked for."""
        if self._observation is None and self.tell is not None and self.finding is not None:
            finding = self.finding
            self._observation = Observation(
                self.tell,
                self,
                finding=finding.kind,
                tool=self.name_for(finding),
                call=self.number,
                count=finding.count,
                first_call=self.first_call,
            )
        return self._observation

    def name_for(self, finding: Finding) -> str:
        """Return what an observation calls the tool."""
        if finding.kind == "same_outcome" and not self.state.name:
            return _NAMELESS
        return self.tool.spec.name

    def arguments(self) -> Mapping[str, Any]:
        """Return the bound arguments, for a preview."""
        if self.shown is not None:
            return self.shown.arguments()
        if self.tool.spec.signature is None:
            # Nobody declared it: what the model wrote is all there is.
            return dict(self.kwargs)
        try:
            return self.tool.keys.arguments(*self.args, **self.kwargs)
        except Exception:
            # Arguments that do not fit the signature have no names to show.
            return dict(self.kwargs)

    @property
    def ends_run(self) -> bool:
        """Whether this call ends its run."""
        return self.decision == "exit"

    def freeze(self) -> CallDecision:
        """Return what became of the call, as a value."""
        return CallDecision(
            call=self.number,
            turn=self.turn,
            tool=self.tool.spec.name,
            decision=self.decision,
            would=self.would,
            executed=self.executed,
            count=self.count if self.counts else 0,
            finding=self.finding,
            observation=self.observation,
        )


def first_decision(begun: Begun) -> CallDecision:
    """Return what became of a first call that needed no admission."""
    known, _, first = begun
    return CallDecision(
        call=first.number,
        turn=first.stamp[1],
        tool=known.state.name,
        decision="execute",
        would="execute",
        executed=True,
        count=1,
        finding=None,
        observation=None,
    )
