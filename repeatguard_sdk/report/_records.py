"""What the records of runs add to a report: what became of the calls, and how the runs ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from repeatguard_sdk._event import RunRecord
from repeatguard_sdk._types import Reason
from repeatguard_sdk.report._values import Answered, EarlyEnds, Filters

DONE = ("executed", "replayed", "joined", "refused")
# By what was done: calls by tool, those of tools without a row of their own under `None`.
Done = dict[str, Counter[str | None]]


class Records:
    """Counts the records of runs.

    Args:
        filters: which events the report is about.
        fired: the runs that had events.
        exited: those of them that an event ended.
        tools: the tools that have events.
        max_turns: the host's limit of turns.

    Attributes:
        runs: how many.
        unrecorded: the runs with events that have no record, as far as records have come by.
        outcomes: how the runs ended.
        done: what became of the calls.
    """

    def __init__(
        self,
        filters: Filters,
        fired: Collection[str],
        exited: Collection[str],
        tools: Collection[str],
        max_turns: int | None,
    ) -> None:
        self._filters = filters
        self._exited = exited
        # What is about no tool shares its empty name with the refusals of unknown tools.
        self._rows = {*tools, *filters.tools} - {""}
        self._max_turns = max_turns
        self._calls = self._stuck = self._turns_left = self._without_turns = 0
        self.runs = 0
        self.unrecorded = set(fired)
        self.outcomes: Counter[Reason] = Counter()
        self.done: Done = {what: Counter() for what in DONE}

    def add(self, run: RunRecord) -> None:
        """Count one record."""
        self.runs += 1
        self._calls += run.calls
        self.unrecorded.discard(run.run_id)
        self.outcomes[run.reason] += 1
        for what, count in self.done.items():
            for tool, calls in getattr(run, what).items():
                count[tool if tool in self._rows else None] += calls
        filtered = self._filters.tools or self._filters.findings
        # With a filter only the ends that it shows are its own.
        if run.reason == "stuck" and (not filtered or run.run_id in self._exited):
            self._stuck += 1
            self._without_turns += run.turns < 1
            if self._max_turns is not None and run.turns > 0:
                self._turns_left += max(self._max_turns - run.turns, 0)

    def answered(self) -> Answered:
        """Return what became of the calls."""
        tools = frozenset(self._filters.tools)
        done = {
            what: sum(count[tool] for tool in tools) if tools else count.total()
            for what, count in self.done.items()
        }
        at_the_end = None
        if not tools:
            # No record counts them, but what is left of all calls can be nothing else.
            at_the_end = max(self._calls - sum(done.values()), 0)
        withheld = sum(done.values()) - done["executed"] + (at_the_end or 0)
        return Answered(
            calls=done["executed"] + withheld,
            at_the_end=at_the_end,
            without_execution=withheld,
            **done,
        )

    def early_ends(self) -> EarlyEnds:
        """Return how many runs were ended."""
        return EarlyEnds(
            runs=self._stuck,
            max_turns=self._max_turns,
            turns_left=None if self._max_turns is None else self._turns_left,
            without_turns=self._without_turns,
        )
