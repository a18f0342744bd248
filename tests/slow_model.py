"""A slow, obvious model of the ladder: one list of lines, read from its end for each call.

Nothing is kept between two calls but the history. Each rule below is one short function with the
rule it stands for; a reader can check it against the README's table.

What the table does not say, and the guard does:

- A new or changed failure of an unknown tool opens an epoch as its answers do.
- Each success of a repeatable unknown tool opens an epoch: it is meant to act again.
- A success of a final tool opens an epoch as a write does. An empty answer of an ask is none: it
  opens nothing and fills no slot.
- A transient failure of a write or final tool (hard) or an unknown tool (soft) opens an epoch,
  counted or not: a time-out says nothing of what was done before it.
- The transient failures of a key that count for nothing are the first two since its last success.
  None enters a `same_outcome` row, and an equal call of the same turn is its retry: it runs.
- Failures of one key are alike by type and text; of transient ones the digits are masked.
- A second success of a write or a final tool in one epoch is the repeat, whatever its receipt says.
- A suspect is convicted only by an equal successful result in the same epoch, and for that epoch:
  in the next one it is a suspect again, unless it has become a call of its own.
- A carried count (a noted key, only unknown calls between) holds for every kind of call but
  bookkeeping. A write or final tool that succeeds is itself the declared change: it starts afresh.
- Live tools and repeatable ones stay on their own row of the table when they fail; live notes come
  at every count from 3 on.
- The results of one turn count once in a `same_outcome` row; the first failure of a turn stands for
  it. A row of blank results of a tool that never said anything needs twice the length. Empties
  count for read, ask and unknown tools only. A row is noted once; where a graver finding falls on
  the same call, that one speaks for it.
- An execution that proves to be the count at which the ladder exits ends the run after it ran.
- A cycle needs two different keys. It outranks the counter, the counter outranks a row.
- Calls beyond a budget are counted, those of one turn once, since the last declared change or user
  message; the fourth ends the run as a fourth failure does.
- A call that never reached its tool climbs the ladder of failures (a live tool's that of live) apart
  from the calls that did; it is a failure in the tool's row (names nobody declared share one) and
  ends no row of empties.
- Where a live tool has given another answer than before since, nothing is served from store (but a
  write that was done, and what a user said): the call runs, and an equal outcome counts on. If the
  model had lost it to a compaction, its count stays.
- A filled slot is answered from the first question on (count 1), with the finding `asked_again`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import attrs

# The table: at which count a call is noted, withheld, and ends the run.
OK = (2, 2, 3)  # read, write, ask, final (ok)
FAILING = (2, 3, 4)  # the same failure again
UNKNOWN = (2, 3, 5)  # unknown effect
LIVE = (3, None, None)  # never withheld
COUNTED = (None, None, None)  # repeatable: never withheld, never noted

TRANSIENT_RETRIES = 2
PERIODS = (2, 3, 4, 5, 6)
EMPTY_RESULTS: list[Any] = [None, "", [], "no results"]
BLANK_RESULTS: list[Any] = [None, ""]


@attrs.frozen
class Tool:
    """As much of a declaration as the model needs; each tool has one parameter of text."""

    name: str
    effect: str = "read"
    slot: bool = False
    repeatable: bool = False
    max_calls: int | None = None

    @property
    def may_be_withheld(self) -> bool:
        return self.effect != "live" and not self.repeatable


@attrs.frozen
class Outcome:
    """What a tool would come to if it ran: a value, an error's text, or a transient error's text."""

    value: Any = None
    error: str = ""
    transient: bool = False

    @property
    def failed(self) -> bool:
        return bool(self.error)

    @property
    def empty(self) -> bool:
        return not self.failed and self.value in EMPTY_RESULTS

    @property
    def blank(self) -> bool:
        return not self.failed and self.value in BLANK_RESULTS

    def alike(self, other: Outcome) -> bool:
        return self._compared() == other._compared()

    def _compared(self) -> tuple[Any, ...]:
        if self.transient:
            return ("transient", re.sub(r"\d+", "#", self.error))
        return ("error", self.error) if self.failed else ("ok", repr(self.value))


@attrs.define(eq=False)
class Line:
    """One thing that happened; for a call, also what the model said of it.

    Attributes:
        what: "call", "refused" (it never reached the tool), "turn", "user_message", "progress",
            "compacted" or "know".
        stands_for: the key whose chain it belongs to: its own, or that of the call it repeats.
        chained: whether the next equal call counts on from this line.
        count: its place in the chain.
        reported: the count that is told: 0 for a line that counts for nothing.
        outcome: what the caller got.
        opens: "hard", "soft" or "": the epoch this line opens, to which it belongs itself.
        drifts: whether a live tool gave another answer than before.
        given: whether the caller got a result that was new to it or given without penalty.
        over_budget: refused because the tool's budget is spent.
        row_noted: whether its row had become worth a note here.
    """

    what: str
    tool: Tool | None = None
    key: Any = None
    fold: Any = None
    turn: int = 0
    fact: str = ""
    known: Any = None
    stands_for: Any = None
    chained: bool = False
    decision: str = "execute"
    executed: bool = False
    count: int = 1
    reported: int = 0
    finding: str | None = None
    outcome: Outcome | None = None
    opens: str = ""
    drifts: bool = False
    given: bool = False
    over_budget: bool = False
    declared: bool = True
    row_noted: bool = False


class SlowModel:
    """Says of each call what the ladder makes of it."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    # -- what the host tells -------------------------------------------------------------------

    def tell(self, event: str) -> None:
        """Take an event: turn, user_message, progress or compacted."""
        opens = "hard" if event in ("user_message", "progress") else ""
        self.lines.append(Line(event, opens=opens))

    def know(self, fact: str, value: Any) -> None:
        """Take a fact."""
        self.lines.append(Line("know", fact=fact, known=value))

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return any(line.decision == "exit" for line in self.lines)

    # -- a call ----------------------------------------------------------------------------------

    def call(self, tool: Tool, text: str, outcome: Outcome) -> Line:
        """Say what becomes of a call that would come to `outcome` if it ran."""
        line = Line("call", tool, key_of(tool, text), fold_of(tool, text), self._turn())
        if tool.slot:
            line.fact = fact_of(text)
        line.stands_for = self._chain_of(line)
        last = self._last(line)
        if (twin := self._in_this_turn(line)) is not None:
            line.decision, line.outcome = "join", twin.outcome
        elif line.fact and self._known(line.fact) is not None:
            self._answer_from_slot(line, last)
        elif self._climb(line, last) != "execute":
            assert last is not None
            self._withhold(line, last.outcome)
        elif tool.max_calls is not None and self._executions(tool) >= tool.max_calls:
            self._refuse_over_budget(line)
        else:
            self._execute(line, last, outcome)
        self.lines.append(line)
        return line

    def refused(self, tool: Tool, text: str, reason: str, *, declared: bool = True) -> Line:
        """Say what becomes of a call that never reached its tool."""
        key = ("refused", key_of(tool, text))
        line = Line("refused", tool, key, turn=self._turn(), stands_for=key, declared=declared)
        line.decision, line.outcome = "refuse", Outcome(error=f"refused: {reason}")
        last = self._last(line)
        if not (self._marked() and self._in_turn_and_epoch(line)):
            self._climb(line, last)
            line.decision = "refuse"
            equal = line.count > 1 and last is not None and last.outcome.alike(line.outcome)
            self._count(line, equal=equal)
            self._look(line, equal=equal)
        self.lines.append(line)
        return line

    # -- the ladder ------------------------------------------------------------------------------

    def _climb(self, line: Line, last: Line | None) -> str:
        """Read the table: the decision before the call runs, and the count if it proves equal."""
        if last is None:
            return "execute"
        if self._is_current(line, last):
            _, withhold, exit_ = ladder(line.tool, last.outcome)
            line.count = last.count + 1
            if self._has_drifted(line, last):
                if self._lost_to_compaction(line):
                    line.count = last.count
            elif exit_ is not None and line.count >= exit_:
                line.decision = "exit"
            elif withhold is not None and line.count >= withhold:
                line.decision = "refuse" if last.outcome.failed else "replay"
        elif self._is_carried(line, last):
            line.count = last.count + 1
        return line.decision

    def _is_current(self, line: Line, last: Line) -> bool:
        """A count starts afresh with a new epoch; bookkeeping's with anything between."""
        if line.tool.effect == "bookkeeping":
            between = [o for o in self._after(last) if o.tool is not None and not is_twin(o)]
            return not self._opened_after(last) and all(same_chain(o, line) for o in between)
        return not self._opened_after(last)

    def _has_drifted(self, line: Line, last: Line) -> bool:
        """The world moves by itself: a live tool gave another answer since."""
        if not line.tool.may_be_withheld or line.tool.effect in ("ask", "bookkeeping"):
            return False
        if line.tool.effect in ("write", "final") and not last.outcome.failed:
            return False
        return any(other.drifts for other in self._after(last))

    def _is_carried(self, line: Line, last: Line) -> bool:
        """A key already noted keeps its count while only unknown calls lie between."""
        note, _, _ = ladder(line.tool, last.outcome)
        noted = note is not None and last.count >= note
        return (
            noted
            and line.tool.effect != "bookkeeping"
            and set(self._opened_after(last)) == {"soft"}
            and (line.tool.effect not in ("write", "final") or last.outcome.failed)
        )

    def _withhold(self, line: Line, outcome: Outcome | None) -> None:
        """Answer from what is stored: free once after a compaction, else at the price of a count."""
        line.outcome = outcome
        if line.count > 1 and self._lost_to_compaction(line):
            line.decision = "refuse" if outcome.failed else "replay"
            line.given = True
            return
        line.chained, line.reported, line.finding = True, line.count, "repeat"
        line.given = line.count == 1  # a fact that is told for the first time
        self._look_for_cycle(line)

    def _answer_from_slot(self, line: Line, last: Line | None) -> None:
        """A filled slot climbs the ladder of a read whatever the epoch; the user is not asked."""
        fact = Outcome(value=self._known(line.fact))
        told = last is not None and last.outcome.alike(fact)
        line.count = last.count + 1 if told else 1
        line.decision = "exit" if line.count >= OK[2] else "replay"
        self._withhold(line, fact)
        if line.finding is not None:
            line.finding = "asked_again"

    def _refuse_over_budget(self, line: Line) -> None:
        """Past its budget a tool is refused."""
        line.over_budget, line.decision, line.finding = True, "refuse", "repeat"
        others = [
            o
            for o in self._since_user()
            if o.over_budget and o.tool == line.tool and "hard" not in self._opened_after(o)
        ]
        line.reported = line.count = len({other.turn for other in [*others, line]})
        if line.count >= FAILING[2]:
            line.decision = "exit"

    def _lost_to_compaction(self, line: Line) -> bool:
        """`compacted` lets each stored result be delivered once more without penalty."""
        for other in reversed(self._since_user()):
            if other.what == "compacted":
                return any(same_chain(o, line) and o.chained for o in self._before(other))
            if same_chain(other, line) and (other.executed or other.given):
                return False
        return False

    # -- an execution ----------------------------------------------------------------------------

    def _execute(self, line: Line, last: Line | None, outcome: Outcome) -> None:
        line.executed, line.outcome = True, outcome
        line.opens = self._opens(line, last)
        if outcome.transient and self._retries(line) < TRANSIENT_RETRIES:
            return
        if line.tool.effect == "live" and last is not None:
            line.drifts = not last.outcome.alike(outcome)
        if (first := self._convicts(line, last)) is not None:
            line.stands_for = first.stands_for
            if self._marked() and first.turn == line.turn:
                # Equal calls of one turn are one call: it adds no count, and no pair.
                line.chained, line.count = True, first.count
                self._look_at_row(line)
                return
            line.count = first.count + 1
            equal = True
        else:
            equal = line.count > 1 and last is not None and repeats(line, last)
        self._count(line, equal=equal)
        self._look(line, equal=equal)

    def _count(self, line: Line, *, equal: bool) -> None:
        line.chained = True
        if not equal:
            # A changed result: a call of its own, from 1.
            line.count, line.stands_for = 1, line.key
        line.reported = line.count

    def _convicts(self, line: Line, last: Line | None) -> Line | None:
        """A suspect with an equal result is a repeat of the first."""
        if line.fold is None or last is not None or line.outcome.failed:
            return None
        for other in self._since_user():
            if (
                other.what == "call"
                and other.chained
                and other.tool == line.tool
                and other.fold == line.fold
                and other.key != line.key
                and self._last(other) is other
                and not self._opened_after(other)
                and not other.outcome.failed
                and other.outcome.alike(line.outcome)
            ):
                return other
        return None

    def _opens(self, line: Line, last: Line | None) -> str:
        """Which epoch an execution opens."""
        effect, outcome = line.tool.effect, line.outcome
        if effect == "unknown":
            changed = last is None or not last.outcome.alike(outcome)
            again = line.tool.repeatable and not outcome.failed
            return "soft" if changed or again or outcome.transient else ""
        if effect in ("write", "final"):
            return "hard" if outcome.transient or not outcome.failed else ""
        if effect == "ask":
            return "hard" if not outcome.failed and not outcome.empty else ""
        return ""

    def _retries(self, line: Line) -> int:
        """How many transient failures the key has had since its last success."""
        tries = [o for o in self._since_user() if o.executed and same_key(o, line)]
        number = 0
        for other in tries:
            number = number + 1 if other.outcome.transient else number
            number = 0 if not other.outcome.failed else number
        return number

    # -- the detectors ---------------------------------------------------------------------------

    def _look(self, line: Line, *, equal: bool) -> None:
        """Ask the counter, the rows and the cycles; the gravest speaks."""
        if equal:
            note, _, exit_ = ladder(line.tool, line.outcome)
            if exit_ is not None and line.count >= exit_:
                line.decision, line.finding = "exit", "repeat"
            elif note is not None and line.count >= note:
                line.finding = "repeat"
        self._look_at_row(line)
        self._look_for_cycle(line)

    def _look_for_cycle(self, line: Line) -> None:
        """The last laps of period 2 to 6 over (key, result) pairs: note at two laps, exit at three."""
        if not in_pairs(line):
            return
        pairs = [other for other in [*self._since_user(), line] if in_pairs(other)]
        for period in PERIODS:
            run = 0
            while run + period < len(pairs) and same_pair(
                pairs[-1 - run], pairs[-1 - run - period]
            ):
                run += 1
            laps = run // period + 1
            keys = {(pair.tool.name, pair.stands_for) for pair in pairs[-period:]}
            if laps >= 2 and run % period == 0 and len(keys) > 1:
                if laps >= 3:
                    line.decision, line.finding = "exit", "cycle"
                elif laps == 2:
                    line.finding = "cycle"
                return

    def _look_at_row(self, line: Line) -> None:
        """Three errors alike, three empties, four failures of one tool: note only, once a row."""
        if not in_rows(line):
            return
        lines = [o for o in [*self._since_user(), line] if in_rows(o) and row_of(o) == row_of(line)]
        if line.outcome.failed:
            row = trailing(lines, lambda other: other.outcome.failed)
            firsts = [other for n, other in enumerate(row) if other.turn not in turns(row[:n])]
            alike = trailing(firsts, lambda other: other.outcome.alike(firsts[-1].outcome))
            worth = len(alike) >= 3 or len(firsts) >= 4
        else:
            row = trailing([o for o in lines if o.what == "call"], found_nothing)
            worth = len(turns(row)) >= (3 if self._has_spoken(line) else 6)
        if worth and not any(other.row_noted for other in row):
            line.row_noted = True
            line.finding = line.finding or "same_outcome"

    def _has_spoken(self, line: Line) -> bool:
        """Whether the tool ever gave a result that is not blank."""
        ran = [o for o in [*self.lines, line] if o.executed and o.tool == line.tool]
        return any(not other.outcome.failed and not other.outcome.blank for other in ran)

    # -- looking back ----------------------------------------------------------------------------

    def _since_user(self) -> list[Line]:
        """A user message clears counts, streaks and stored results."""
        for number in range(len(self.lines), 0, -1):
            if self.lines[number - 1].what == "user_message":
                return self.lines[number:]
        return self.lines

    def _after(self, line: Line) -> list[Line]:
        return self.lines[index(self.lines, line) + 1 :]

    def _before(self, line: Line) -> list[Line]:
        lines = self._since_user()
        return lines[: index(lines, line)]

    def _opened_after(self, line: Line) -> list[str]:
        return [other.opens for other in self._after(line) if other.opens]

    def _marked(self) -> bool:
        return any(line.what == "turn" for line in self.lines)

    def _turn(self) -> int:
        """The present turn; without turn marks each call is a turn of its own."""
        marks = sum(line.what == "turn" for line in self.lines)
        return marks if marks else -1 - len(self.lines)

    def _executions(self, tool: Tool) -> int:
        return sum(line.executed and line.tool == tool for line in self.lines)

    def _known(self, fact: str) -> Any:
        """The fact a slot is filled with: told, or answered; the newest."""
        for line in reversed(self.lines):
            if line.fact != fact:
                continue
            if line.what == "know":
                return line.known
            if line.executed and not line.outcome.failed and not line.outcome.empty:
                return line.outcome.value
        return None

    def _chain_of(self, line: Line) -> Any:
        """The key whose chain a call belongs to: its own, or the one it was convicted to repeat."""
        mine = [o for o in self._since_user() if o.chained and same_key(o, line)]
        if not mine or mine[-1].stands_for == line.key:
            return line.key
        # The verdict ends with its epoch.
        return line.key if self._opened_after(mine[-1]) else mine[-1].stands_for

    def _last(self, line: Line) -> Line | None:
        """The newest line from which the call's chain counts on."""
        found = None
        for other in self._since_user():
            if other.chained and same_chain(other, line):
                found = other
        return found

    def _in_this_turn(self, line: Line) -> Line | None:
        """Equal calls of one turn in one epoch are one call; not live, not repeatable."""
        if not self._marked() or not line.tool.may_be_withheld:
            return None
        return self._in_turn_and_epoch(line)

    def _in_turn_and_epoch(self, line: Line) -> Line | None:
        for other in reversed(self._since_user()):
            if other.turn != line.turn or not same_chain(other, line) or other.over_budget:
                continue
            if not is_retry(other):
                return None if self._opened_after(other) else other
        return None


# -- identities ------------------------------------------------------------------------------------


def key_of(tool: Tool, text: str) -> Any:
    """Reads, asks, live and final calls compare text without outer white space, others by the byte."""
    if tool.slot:
        return ("slot", fact_of(text))
    return text.strip() if tool.effect in ("read", "ask", "live", "final") else text


def fold_of(tool: Tool, text: str) -> Any:
    """All text collapsed and lower-cased; it raises suspicion for reads and asks only."""
    if tool.effect not in ("read", "ask") or tool.slot:
        return None
    return " ".join(text.split()).lower()


def fact_of(text: str) -> str:
    """The name of a fact: its words in lower case."""
    return "_".join(re.findall(r"[a-z0-9]+", text.lower()))


def ladder(tool: Tool, outcome: Outcome) -> tuple[int | None, int | None, int | None]:
    """The row of the table that holds for a call after an outcome."""
    if tool.repeatable:
        return COUNTED
    if tool.effect == "live":
        return LIVE
    if outcome.failed:
        return FAILING
    return UNKNOWN if tool.effect in ("unknown", "bookkeeping") else OK


def repeats(line: Line, last: Line) -> bool:
    """Whether an execution repeats the newest one of its chain."""
    if line.tool.effect in ("write", "final") and not line.outcome.failed:
        return not last.outcome.failed
    return last.outcome.alike(line.outcome)


def same_key(one: Line, other: Line) -> bool:
    """Whether two lines are calls of one tool with one key."""
    return one.tool == other.tool and one.key == other.key and one.what == other.what


def same_chain(one: Line, other: Line) -> bool:
    """Whether two lines count together."""
    return (one.what, one.tool, one.stands_for) == (other.what, other.tool, other.stands_for)


def is_retry(line: Line) -> bool:
    """Whether an execution failed transiently and counts for nothing."""
    return line.executed and line.outcome.transient and not line.chained


def is_twin(line: Line) -> bool:
    """Whether a call is one with an equal call of its turn."""
    return line.decision == "join" or (line.what == "refused" and line.reported == 0)


def in_pairs(line: Line) -> bool:
    """Live and repeatable calls and transient failures are no part of a cycle, nor is bookkeeping."""
    if line.what not in ("call", "refused") or line.tool.effect in ("live", "bookkeeping"):
        return False
    if line.tool.repeatable or line.outcome is None or line.outcome.transient:
        return False
    return line.reported > 0 and not line.over_budget


def same_pair(one: Line, other: Line) -> bool:
    """Whether two lines are equal (key, result) pairs."""
    return same_chain(one, other) and one.outcome.alike(other.outcome)


def in_rows(line: Line) -> bool:
    """What counts in a row: what a tool came to, and calls that never reached it."""
    if line.tool is None or line.tool.effect == "bookkeeping" or line.tool.repeatable:
        return False
    if line.what == "refused":
        return line.reported > 0
    return line.executed and not line.outcome.transient


def row_of(line: Line) -> str:
    """Names nobody declared share one row."""
    return line.tool.name if line.declared else ""


def found_nothing(line: Line) -> bool:
    """Empties count for read, ask and unknown tools only."""
    return line.outcome.empty and line.tool.effect in ("read", "ask", "unknown")


def trailing(lines: list[Line], rule: Any) -> list[Line]:
    """The longest end of a list of which a rule holds throughout."""
    start = len(lines)
    while start and rule(lines[start - 1]):
        start -= 1
    return lines[start:]


def turns(lines: list[Line]) -> set[int]:
    """The turns some lines belong to."""
    return {line.turn for line in lines}


def index(lines: list[Line], line: Line) -> int:
    """The place of a line; lines are told apart by identity."""
    return next(_places(lines, line))


def _places(lines: list[Line], line: Line) -> Iterator[int]:
    for number, other in enumerate(lines):
        if other is line:
            yield number
