"""What is counted while the events go by; each tally turns into a value at the end."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from typing import get_args

from repeatguard_sdk._event import RepeatEvent
from repeatguard_sdk._suspicion import SUSPECTED_CAUSES
from repeatguard_sdk._types import Effect, FindingKind, Mode, SuspectedCause
from repeatguard_sdk.report._rates import Rate, rate_of
from repeatguard_sdk.report._values import (
    CauseCount,
    CountRate,
    Day,
    FindingCount,
    NextSteps,
    ResultGroup,
    WouldHave,
)

MAX_GROUPS = 200
MAX_DAYS = 4_000
HIGHEST_COUNT = 5
NO_RULE = "No rule fits: nothing came back, or what came back says nothing of why."

_CAUSES: tuple[SuspectedCause, ...] = tuple(SUSPECTED_CAUSES)
_FINDINGS: tuple[FindingKind, ...] = get_args(FindingKind)
_EFFECTS: tuple[Effect, ...] = get_args(Effect)
_ENDED = ("other_call", "answered")
# The last second that `datetime` can tell.
_LAST = 253_402_300_799.0


def most_frequent_cause(causes: Counter[SuspectedCause | None]) -> SuspectedCause | None:
    """Return the cause that most events have, of equal ones the first of the rules."""
    named: list[SuspectedCause] = [cause for cause in _CAUSES if causes[cause]]
    return max(named, key=lambda cause: causes[cause], default=None)


def cause_counts(causes: Counter[SuspectedCause | None]) -> tuple[CauseCount, ...]:
    """Return the causes with their rules, most frequent first."""
    counts = [
        CauseCount(
            cause=cause,
            events=causes[cause],
            rule=NO_RULE if cause is None else SUSPECTED_CAUSES[cause],
        )
        for cause in (*_CAUSES, None)
        if causes[cause]
    ]
    return tuple(sorted(counts, key=lambda count: -count.events))


def finding_counts(findings: Counter[FindingKind]) -> tuple[FindingCount, ...]:
    """Return the detectors, most frequent first."""
    total = findings.total()
    counts = [
        FindingCount(finding=kind, events=findings[kind], share=findings[kind] / total)
        for kind in _FINDINGS
        if findings[kind]
    ]
    return tuple(sorted(counts, key=lambda count: -count.events))


def most_frequent_effect(effects: Counter[Effect]) -> Effect:
    """Return the effect that most events name, of equal ones the first of the README."""
    return max(_EFFECTS, key=lambda effect: effects[effect])


class Group:
    """Counts the events behind which stands one result.

    Attributes:
        events: how many.
    """

    __slots__ = ("_causes", "_digest", "_failed", "_first", "events")

    def __init__(self, event: RepeatEvent) -> None:
        self.events = 0
        self._digest = event.result_digest
        self._failed = event.failed
        self._first: tuple[float, str] | None = None
        self._causes: Counter[SuspectedCause | None] = Counter()

    def add(self, event: RepeatEvent) -> None:
        """Count one event."""
        self.events += 1
        self._causes[event.suspected_cause] += 1
        seen = (event.at if math.isfinite(event.at) else math.inf, event.preview)
        # Not the first to come by: the order of the files must not matter.
        if event.preview and (self._first is None or seen < self._first):
            self._first = seen

    def value(self, total: int) -> ResultGroup:
        """Return what was counted, as a part of so many events."""
        return ResultGroup(
            preview="" if self._first is None else self._first[1],
            result_digest=self._digest,
            failed=self._failed,
            events=self.events,
            share=self.events / total,
            suspected_cause=most_frequent_cause(self._causes),
        )


class Groups:
    """Counts a tool's events by what stood behind them; past `MAX_GROUPS` results only how many.

    Attributes:
        others: events of the results beyond those.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[str, bool, str], Group] = {}
        self.others = 0

    def add(self, event: RepeatEvent) -> None:
        """Count one event."""
        digest = event.result_digest
        key = (digest, event.failed, "" if digest else event.preview)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= MAX_GROUPS:
                self.others += 1
                return
            group = self._groups[key] = Group(event)
        group.add(event)

    def values(self, total: int) -> tuple[ResultGroup, ...]:
        """Return the groups, most frequent first."""
        groups = [group.value(total) for group in self._groups.values()]
        return tuple(
            sorted(groups, key=lambda group: (-group.events, group.preview, group.result_digest))
        )


class Steps:
    """Counts what the model did after the events of one style and mode."""

    def __init__(self) -> None:
        self._did: Counter[str | None] = Counter()
        self._by_count: dict[int, Counter[bool]] = {}

    def add(self, event: RepeatEvent) -> None:
        """Count one event."""
        self._did[event.did] += 1
        if event.did in _ENDED or event.did == "same_call":
            count = min(event.count, HIGHEST_COUNT)
            self._by_count.setdefault(count, Counter())[event.did in _ENDED] += 1

    @property
    def ended(self) -> Rate:
        """How many ended the repetition, of those whose next step tells."""
        ended = sum(self._did[step] for step in _ENDED)
        return rate_of(ended, ended + self._did["same_call"])

    def value(self, style: str, mode: Mode) -> NextSteps:
        """Return what was counted."""
        did = self._did
        return NextSteps(
            style=style,
            mode=mode,
            events=did.total(),
            other_call=did["other_call"],
            answered=did["answered"],
            same_call=did["same_call"],
            over=did["ended"],
            unknown=did[None],
            ended=self.ended,
            by_count=tuple(
                CountRate(count=count, ended=rate_of(known[True], known.total()))
                for count, known in sorted(self._by_count.items())
            ),
        )


class Would:
    """Counts what ``enforce`` would have done where a softer mode let a call run."""

    def __init__(self) -> None:
        self._would: Counter[str] = Counter()
        self._differed: Counter[bool | None] = Counter()
        self._ended: set[str] = set()

    def add(self, event: RepeatEvent) -> None:
        """Count one event, if it is of a softer mode."""
        if event.mode == "enforce" or event.would == event.decision:
            return
        self._would[event.would] += 1
        if event.would == "replay":
            self._differed[event.differed] += 1
        elif event.would == "exit":
            self._ended.add(event.run_id)

    def value(self) -> WouldHave:
        """Return what was counted."""
        return WouldHave(
            replayed=self._would["replay"],
            equal=self._differed[False],
            differed=self._differed[True],
            unknown=self._differed[None],
            refused=self._would["refuse"],
            exited=self._would["exit"],
            runs_ended=len(self._ended),
        )


class Days:
    """Counts events and runs by day; a time that is none is left out, and so are days past 4,000."""

    def __init__(self) -> None:
        self._days: dict[int, list[int]] = {}

    def add_event(self, at: float) -> None:
        """Count one event."""
        self._add(at, 0)

    def add_run(self, started: float) -> None:
        """Count one run."""
        self._add(started, 1)

    def _add(self, at: float, place: int) -> None:
        if not (math.isfinite(at) and 0 <= at <= _LAST):
            return
        day = int(at // 86_400)
        if day in self._days or len(self._days) < MAX_DAYS:
            self._days.setdefault(day, [0, 0])[place] += 1

    def values(self) -> tuple[Day, ...]:
        """Return the days on which there was anything, oldest first."""
        start = datetime.date(1970, 1, 1)
        return tuple(
            Day(
                day=(start + datetime.timedelta(days=day)).isoformat(),
                events=counts[0],
                runs=counts[1],
            )
            for day, counts in sorted(self._days.items())
        )
