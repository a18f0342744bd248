"""Runs out of documents of which each may hold the whole history so far of one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import attrs

from repeatguard_sdk.audit._recorded import Fault, RecordedRun
from repeatguard_sdk.audit.readers._talk import Answered, Called, Entry, Said, steps_of

OPEN = 64  # runs that may grow at a time
_NEIGHBOURS = 4  # of these, how many are looked at for a history that lost its beginning


@attrs.frozen
class Part:
    """What one document tells of a run.

    Attributes:
        entries: in order.
        sure: how many of them were in the request; the rest is the model's response, which the
            next request may hold in another form, or not at all.
        run_id: the document's name of the run.
        names: the ids of the response and its conversation, by which another document may
            continue it.
        after: of these, the one that it continues itself; it holds only what came since.
        piece: one message of a run, whose others are documents of their own. Those with an equal
            `run_id` belong together.
        opens: a piece with which a run begins, such as a system message.
    """

    entries: list[Entry]
    sure: int = -1
    run_id: str | None = None
    names: tuple[str, ...] = ()
    after: str | None = None
    piece: bool = False
    opens: bool = False


@attrs.define(eq=False)
class _Open:
    """A run that may grow."""

    line: int
    run_id: str | None
    entries: list[Entry]
    hashes: list[int]
    sure: int
    prefixes: list[int] = attrs.field(factory=list[int])
    lost: dict[int, None] = attrs.field(factory=dict[int, None])  # places of compactions
    began: int = 0  # where the newest history begins in it
    piece: bool = False
    has_opened: bool = False
    names: list[str] = attrs.field(factory=list[str])


class Histories:
    """Puts documents together to runs, a bounded number of which may grow at a time.

    A log of requests holds the whole history so far in each. A document whose beginning is all of
    a known history continues it; one that is all the beginning of a known one adds nothing. What
    is compared are the calls with their ids, the answers and what a person said, so that cache
    marks or the order of fields do not matter. A history that lost its beginning (the host cut
    it) is known by what it still shares with the end of a recent one, at least one answer; that
    the model no longer sees the rest is a "compaction".
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._open: OrderedDict[int, _Open] = OrderedDict()  # by id(), the oldest first
        self._known: dict[int, _Open] = {}  # hash of the beginning of a history
        self._named: dict[str, _Open] = {}
        self._pieces: dict[str | None, _Open] = {}

    def add(self, line: int, part: Part) -> Iterator[RecordedRun | Fault]:
        """Take what a document tells; yield the runs that can no longer grow."""
        if part.piece:
            yield from self._add_piece(line, part)
            return
        found = self._named.get(part.after) if part.after is not None else None
        hashes = list(map(_identity, part.entries))
        if found is not None:
            self._append(found, part.entries, hashes)
        else:
            found = self._place(line, part, hashes)
        found.run_id = found.run_id or part.run_id
        for name in part.names:
            found.names.append(name)
            self._named[name] = found
        self._open.pop(id(found), None)
        self._open[id(found)] = found
        yield from self._shrink()

    def close(self) -> Iterator[RecordedRun | Fault]:
        """Yield the runs that are left, in the order of their lines."""
        for run in sorted(self._open.values(), key=lambda run: run.line):
            yield self._recorded(run)
        self._open.clear()

    def _shrink(self) -> Iterator[RecordedRun | Fault]:
        while len(self._open) > OPEN:
            _, oldest = self._open.popitem(last=False)
            yield self._closed(oldest)

    def _closed(self, run: _Open) -> RecordedRun | Fault:
        for prefix in run.prefixes:
            if self._known.get(prefix) is run:
                del self._known[prefix]
        for name in run.names:
            if self._named.get(name) is run:
                del self._named[name]
        if run.piece and self._pieces.get(run.run_id) is run:
            del self._pieces[run.run_id]
        return self._recorded(run)

    def _recorded(self, run: _Open) -> RecordedRun | Fault:
        entries: list[Entry] = []
        for place, entry in enumerate(run.entries):
            if place in run.lost:
                entries.append("compaction")
            entries.append(entry)
        try:
            steps = steps_of(entries)
        except Exception as error:
            return Fault(self._path, run.line, f"cannot be read as a run: {error!r}")
        return RecordedRun(run.run_id or f"{self._path}:{run.line}", steps, run.line)

    # -- whole histories -------------------------------------------------------------------------

    def _place(self, line: int, part: Part, hashes: list[int]) -> _Open:
        """Return the run that a history belongs to, grown by it: a new one if there is none."""
        prefixes = _prefixes(hashes)
        sure = part.sure if part.sure >= 0 else len(hashes)
        known = self._known
        length = len(prefixes)
        while length and prefixes[length - 1] not in known:
            length -= 1
        if length:
            run = known[prefixes[length - 1]]
            if length == len(prefixes):
                return run
            if _continues(run, part, length):
                run.entries, run.hashes, run.sure = part.entries, hashes, sure
                self._know(run, prefixes)
                return run
        cut = self._cut(hashes)
        if cut is not None:
            run, place, shared = cut
            if shared < len(hashes):
                self._join(run, place, shared, part.entries, hashes)
                run.sure -= len(hashes) - sure
            return run
        run = _Open(line, part.run_id, part.entries, hashes, sure)
        self._know(run, prefixes)
        return run

    def _know(self, run: _Open, prefixes: list[int]) -> None:
        for prefix in run.prefixes[len(prefixes) :]:
            if self._known.get(prefix) is run:
                del self._known[prefix]
        run.prefixes = prefixes
        for prefix in prefixes:
            self._known[prefix] = run

    def _cut(self, hashes: list[int]) -> tuple[_Open, int, int] | None:
        """Return the recent run in which a history begins late, where, and how much they share."""
        recent = list(self._open.values())[-_NEIGHBOURS:] if hashes else []
        for run in reversed(recent):
            for place in range(1, run.sure):
                if run.hashes[place] != hashes[0]:
                    continue
                shared = min(run.sure - place, len(hashes))
                middle = slice(place, place + shared)
                if run.hashes[middle] == hashes[:shared] and any(
                    isinstance(entry, Answered) for entry in run.entries[middle]
                ):
                    return run, place, shared
        return None

    def _join(
        self, run: _Open, place: int, shared: int, entries: list[Entry], hashes: list[int]
    ) -> None:
        """Let a run go on with a history of which it has the first `shared` at `place`."""
        end = place + shared
        if place != run.began:
            run.began = place
            run.lost[end] = None
        run.entries, run.hashes = run.entries[:end], run.hashes[:end]
        self._append(run, entries[shared:], hashes[shared:])

    def _append(self, run: _Open, entries: list[Entry], hashes: list[int]) -> None:
        run.entries = [*run.entries, *entries]
        run.hashes = [*run.hashes, *hashes]
        run.sure = len(run.hashes)

    # -- one message a document ------------------------------------------------------------------

    def _add_piece(self, line: int, part: Part) -> Iterator[RecordedRun | Fault]:
        run = self._pieces.get(part.run_id)
        if run is not None and part.opens and run.has_opened and run.entries:
            self._open.pop(id(run), None)
            yield self._closed(run)
            run = None
        if run is None:
            run = _Open(line, part.run_id, [], [], 0, piece=True)
            self._pieces[part.run_id] = run
        run.has_opened |= part.opens
        run.entries.extend(part.entries)
        self._open.pop(id(run), None)
        self._open[id(run)] = run
        yield from self._shrink()


def _continues(run: _Open, part: Part, length: int) -> bool:
    """Tell whether a history that shares its first `length` entries with a run is the run's own.

    It is if these are all that is sure of the run: it may have the response in another form, or
    not at all. But another call in its place is another answer to the same request.
    """
    if length < run.sure or run.lost:
        return False
    if length == len(run.entries):
        return True
    mine, other = run.entries[length], part.entries[length]
    return not (
        isinstance(mine, Called) and isinstance(other, Called) and mine.call_id != other.call_id
    )


def _prefixes(hashes: list[int]) -> list[int]:
    """Return the hash of each beginning of a history, from the shortest to all of it."""
    prefixes: list[int] = []
    before = 0
    for one in hashes:
        before = hash((before, one))
        prefixes.append(before)
    return prefixes


def _identity(entry: Entry) -> int:
    """Return a number that equal entries of two documents have in common."""
    if isinstance(entry, Said):
        return hash(entry.text)
    if isinstance(entry, Called):
        arguments = entry.arguments
        return hash((entry.tool, entry.call_id, _text(arguments)))
    if isinstance(entry, Answered):
        return hash((entry.call_id, entry.tool, _text(entry.result)))
    return hash(entry)


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)
