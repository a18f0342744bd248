"""What a run knows of one call, and of one tool: the records its ledger is made of."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple, TypeGuard

from repeatguard_sdk._compiling import mypyc_attr
from repeatguard_sdk._copies import Stored, plain_size
from repeatguard_sdk._flight import Flight
from repeatguard_sdk._types import MISSING, Effect
from repeatguard_sdk.exceptions import RepeatedFailure


class Entry:
    """What the run knows of one key that needs more than a line: seen twice, failed, or joined.

    Attributes:
        tool: the tool's name.
        key: the key of the first call; aliases (suspects that were convicted) share the entry.
        number: number of the call that made it; its identity in the ledger.
        count: equal calls in a row in the present window; the ladder is read from it.
        epoch: the epoch its newest outcome belongs to, -1 for none.
        drift: how often live tools had changed their answers by then.
        turn, turn_epoch: turn and epoch of its newest counted call, -1 before any.
        told_turn: the turn in which its outcome was told once more, after a compaction.
        first_call, first_turn: where the present count began.
        last_call: number of the newest counted call.
        total: calls of this key in the whole run.
        token: identity of the newest outcome, `None` if it has none.
        seen: whether it has had an outcome at all.
        failed: whether that outcome is an error.
        error: the stored error, without traceback.
        transient: whether that error is a transient one.
        noted: whether an observation about it was given in the present count.
        retries: transient failures that counted for nothing.
        generation: the compaction after which its stored result was last delivered.
        stored: the result kept for a replay.
        flight: its running execution.
    """

    # Defaults on the class: a run that repeats makes many of them, and each one set costs.
    count: int = 0
    epoch: int = -1
    drift: int = 0
    turn: int = -1
    turn_epoch: int = -1
    told_turn: int = -1
    first_call: int = 0
    first_turn: int = 0
    last_call: int = 0
    total: int = 0
    token: Hashable = None
    seen: bool = False
    failed: bool = False
    error: BaseException | None = None
    transient: bool = False
    noted: bool = False
    retries: int = 0
    generation: int = 0
    stored: Stored | None = None
    flight: Flight | None = None

    def __init__(self, tool: str, key: Hashable, number: int) -> None:
        self.tool = tool
        self.key = key
        self.number = number


# Epoch, turn, generation and drift: when a call was made. All calls of one moment share one.
Stamp = tuple[int, ...]


TAKEN: Final = object()


# The collector need not look into a million of them: none refers to a run.
@mypyc_attr(acyclic=True)
class FirstCall:
    """A call of a key not seen before: it runs, and then it was made once, with a result.

    A run may make a million of them: this is all it keeps of each.

    Attributes:
        number: which call it is.
        stamp: when it was made.
        token: identity of its result; `None` while it runs.
        kept: the result, a `Stored` of it, or `MISSING`; a short text is its own token. `TAKEN` where
            the ledger has an entry of the key instead, or has forgotten it.
    """

    __slots__ = ("kept", "number", "stamp", "token")

    def __init__(self, number: int, stamp: Stamp) -> None:
        self.number = number
        self.stamp = stamp
        self.token: Hashable = None
        self.kept: Any = MISSING


class Delivered(NamedTuple):
    """What the call id of a tool call came to.

    Attributes:
        tool, key: which call it was.
        turn: the turn it was made in.
        failures: how often it failed in a row, 0 if it has its answer.
        stored: the result it was answered with, if that was kept.
        error: the error it was answered with, without being run.
        call: its number.
    """

    tool: str
    key: Hashable
    turn: int
    failures: int
    stored: Stored | None
    error: BaseException | None
    call: int


class ToolState:
    """What the run knows of one tool, whatever the arguments.

    Attributes:
        owner: the function behind the name; another one of that name has a state of its own.
        changes: whether a call of it may change the world.
        once: by key, the calls made once, and those that are running for the first time.
        entries: by key, the others.
        aliases: by key, a suspect's verdict: the entry it repeats, and the epoch that holds for.
        results: result to the key, or to fold and key of each call, that had it in `results_epoch`.
        flights: number to flight, of running first calls that others wait for.
        executed: how often it ran; its budget is counted here.
        errors, empties, failures: lengths of the present rows of outcomes.
        error_token: the error that `errors` counts.
        failures_noted, empties_noted: whether the present row was spoken of.
        failed_turn, empty_turn: the turn that was last counted in it.
        has_spoken: whether it ever gave a result that is not blank.
        found_call, found_entry: newest call whose result found something, and its entry's number.
        exhausted: the epoch in which a call of it was replayed or refused, -1 for none.
        denied: whether a call of it was refused before it reached the tool.
        over_budget: turns with calls beyond its budget since the last declared change, in
            `budget_epoch`; `budget_turn` is the newest of them.
    """

    __slots__ = (
        "aliases",
        "budget_epoch",
        "budget_turn",
        "changes",
        "denied",
        "empties",
        "empties_noted",
        "empty_turn",
        "entries",
        "error_token",
        "errors",
        "executed",
        "exhausted",
        "failed_turn",
        "failures",
        "failures_noted",
        "flights",
        "found_call",
        "found_entry",
        "has_spoken",
        "joined",
        "name",
        "once",
        "over_budget",
        "owner",
        "refused",
        "replayed",
        "results",
        "results_epoch",
    )

    def __init__(self, name: str, owner: Hashable = "", changes: bool = False) -> None:
        self.name = name
        self.owner = owner
        self.changes = changes
        self.once: dict[Hashable, FirstCall] = {}
        self.entries: dict[Hashable, Entry] = {}
        self.aliases: dict[Hashable, tuple[Entry, int]] = {}
        self.results: dict[Hashable, Any] = {}
        self.results_epoch = 0
        self.flights: dict[int, Flight] = {}
        self.executed = 0
        self.replayed = 0
        self.refused = 0
        self.joined = 0
        self.errors = 0
        self.empties = 0
        self.failures = 0
        self.error_token: Hashable = None
        self.failures_noted = False
        self.empties_noted = False
        self.failed_turn: int | None = None
        self.empty_turn: int | None = None
        self.has_spoken = False
        self.found_call = 0
        self.found_entry = 0
        self.exhausted = -1
        self.denied = False
        self.over_budget = 0
        self.budget_turn = -1
        self.budget_epoch = -1

    def end_failures(self) -> None:
        """Forget the present row of failures."""
        self.errors = self.failures = 0
        self.error_token = self.failed_turn = None
        self.failures_noted = False

    def end_empties(self) -> None:
        """Forget the present row of results that found nothing."""
        self.empties = 0
        self.empty_turn = None
        self.empties_noted = False

    def end_rows(self) -> None:
        """Forget both rows."""
        self.end_failures()
        self.end_empties()

    def begin_run(self) -> None:
        """Begin another run: counts and budgets start anew."""
        self.end_rows()
        self.executed = self.replayed = self.refused = self.joined = 0
        self.over_budget = 0
        self.exhausted = self.budget_turn = -1
        self.denied = False
        for entry in self.entries.values():
            entry.count = min(entry.count, 1)
            entry.noted = False
            entry.turn = -1
            entry.retries = 0

    def forget(self) -> None:
        """Forget calls and rows; what was executed stays counted."""
        for first in self.once.values():
            first.kept = TAKEN
        self.once.clear()
        self.entries.clear()
        self.aliases.clear()
        self.results.clear()
        self.end_rows()
        self.exhausted = self.budget_turn = -1
        self.over_budget = 0
        self.denied = False


class KnownTool:
    """A tool that a run has met, as its calls are begun.

    Attributes:
        state: what the run knows of the tool.
        short: whether its first calls may take the short way.
        key: makes a call's key.
        effect: what a call of it may do.
        longest: letters of a text that is kept as it is; -1 if no result is, for its parts count apart.
        usual: whether the tool does not say itself which results found nothing.
    """

    __slots__ = ("effect", "key", "longest", "short", "state", "usual")

    def __init__(
        self,
        state: ToolState,
        effect: Effect,
        key: Callable[..., tuple[Hashable, ...]],
        longest: int,
        usual: bool,
        short: bool,
    ) -> None:
        self.state = state
        self.short = short
        self.effect: Effect = effect
        self.key = key
        self.longest = longest
        self.usual = usual


# A first call while it runs: its `KnownTool`, its key and its `FirstCall`.
Begun = tuple[Any, ...]


def size_of(value: Any) -> int:
    """Return the bytes charged for a result that was kept as it is, or copied."""
    return value.size if _is_stored(value) else plain_size(value)


def _as_stored(value: Any) -> Stored:
    return value if _is_stored(value) else Stored(value, plain_size(value), True)


def _is_stored(value: Any) -> TypeGuard[Stored]:
    return isinstance(value, Stored)


def entry_of(state: ToolState, key: Hashable, known: FirstCall) -> Entry:
    """Make the entry of a call that was made once, or that runs for the first time."""
    entry = Entry(state.name, key, known.number)
    epoch, turn, generation, drift = known.stamp
    if known.token is None:
        entry.flight = state.flights[known.number] = Flight(epoch, drift)
        return entry
    entry.epoch = entry.turn_epoch = epoch
    entry.turn = entry.first_turn = turn
    entry.generation, entry.drift = generation, drift
    entry.first_call = entry.last_call = known.number
    entry.count = entry.total = 1
    entry.token, entry.seen = known.token, True
    if known.kept is not MISSING:
        entry.stored = _as_stored(known.kept)
    return entry


def result_of(entry: Entry | None) -> Any:
    """Return what is kept of an entry's outcome, for a preview only."""
    if entry is None or not entry.seen:
        return MISSING
    if entry.failed:
        # A stand-in for an error, or for a refusal, is its text: its own name says nothing.
        error = entry.error
        return str(error) if isinstance(error, RepeatedFailure) else error
    return entry.stored.value if entry.stored is not None else MISSING
