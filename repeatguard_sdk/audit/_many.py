"""Whole files through the audit: read as a stream, in bounded memory, on all cores."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import attrs

from repeatguard_sdk._policy import Policy
from repeatguard_sdk.audit._declared import load_tools
from repeatguard_sdk.audit._files import STDIN, Documents, Range, ranges
from repeatguard_sdk.audit._prepared import Prepared
from repeatguard_sdk.audit._recorded import Fault, RecordedRun
from repeatguard_sdk.audit._tally import AuditReport
from repeatguard_sdk.audit._tools import AuditTools
from repeatguard_sdk.audit.readers import detect, read, reader_named

POLICIES: dict[str, Callable[[], Policy]] = {
    "default": Policy,
    "strict": Policy.strict,
    "advisory": Policy.advisory,
}
"""The policies that an audit knows by name."""

_RANGE_BYTES = 8_000_000
# Below it, starting processes takes longer than the audit.
_WORTH_PROCESSES = 16_000_000
_LOOKED_AT = 20  # documents that tell the format of a file
_LOOKED_THROUGH = 1_000  # documents and broken lines, to find them
_GARBAGE_THRESHOLD = 100_000  # what a run leaves behind is freed without a search


@attrs.frozen
class _Job:
    """A file, or a range of one, to be audited in one process."""

    path: str
    part: Range | None
    format: str
    bytes: int


def audit_files(
    paths: Iterable[str | os.PathLike[str]],
    *,
    format_name: str | None = None,
    tools: str | None = None,
    policies: Sequence[str] = ("default",),
    workers: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> AuditReport:
    """Audit the runs of files under several policies, side by side.

    A part that cannot be read (a broken line, an unknown format, a half-written file) becomes a
    `Fault` of the report, and the rest goes on.

    Args:
        paths: files; "-" is the standard input.
        format_name: the format of all of them; by default each file's own, told by its content.
        tools: where tools are declared, see `load_tools`; by default effects are as the
            transcripts tell, else guessed from names.
        policies: names of `POLICIES`.
        workers: processes; default: one a core. Little is audited in this one.
        progress: called with the bytes that are done and all there are.

    Raises:
        ValueError: an unknown format or policy.
        ToolDeclarationError: `tools` cannot be read.
    """
    _check(policies, format_name)
    # Loaded once here, whoever uses it: a module is run, and its registry filled, only once.
    declared = AuditTools(None if tools is None else load_tools(tools))
    report = AuditReport(tuple(policies))
    jobs = list(_jobs([os.fspath(path) for path in paths], format_name, report))
    total = sum(job.bytes for job in jobs)
    workers = os.cpu_count() or 1 if workers is None else workers
    alone = workers < 2 or len(jobs) < 2 or total < _WORTH_PROCESSES
    audited = _here(jobs, declared, policies) if alone else _spread(jobs, tools, policies, workers)
    done, lines, path = 0, 0, ""
    for job, part, read_lines in audited:
        # Ranges of one file come in order, and count their lines from where they start.
        lines = lines if job.path == path else 0
        report.add(part, lines_before=lines)
        lines, path = lines + read_lines, job.path
        done += job.bytes
        if progress is not None:
            progress(done, total)
    return report


def _check(policies: Sequence[str], format_name: str | None) -> None:
    for name in policies:
        if name not in POLICIES:
            msg = f"no policy {name!r}; write one of {', '.join(POLICIES)}"
            raise ValueError(msg)
    if not policies:
        msg = f"policies is empty; write one of {', '.join(POLICIES)}"
        raise ValueError(msg)
    if format_name is not None:
        reader_named(format_name)


def _jobs(paths: Sequence[str], format_name: str | None, report: AuditReport) -> Iterator[_Job]:
    """Yield what is to be done for each file; one that cannot be is told to the report."""
    for path in paths:
        if path == STDIN:
            yield _Job(path, None, format_name or "", 0)
            continue
        try:
            size = Path(path).stat().st_size
            name = format_name or _format_of(path, report)
            if name is None:
                continue
            parts = ranges(path, _RANGE_BYTES) if reader_named(name).one_line_one_run else []
        except OSError as error:
            report.fault(Fault(path, 0, f"cannot be read: {error.strerror or error}"))
            continue
        if not parts:
            yield _Job(path, None, name, size)
        for part in parts:
            yield _Job(path, part, name, part.stop - part.start)


def _format_of(path: str, report: AuditReport) -> str | None:
    """Return the format of a file by its first documents, past what is broken before them."""
    documents: list[Any] = []
    faults: list[Fault] = []
    for found in itertools.islice(Documents(path), _LOOKED_THROUGH):
        if isinstance(found, Fault):
            faults.append(found)
        else:
            documents.append(found[1])
            if len(documents) == _LOOKED_AT:
                break
    reader = detect(documents)
    if reader is not None:
        return reader.name
    if documents or not faults:
        report.fault(Fault(path, 0, _UNKNOWN_FORMAT))
    elif len(faults) == 1:
        report.fault(faults[0])
    else:
        what = f"{faults[0].what}; nor is any other of its first lines a document"
        report.fault(attrs.evolve(faults[0], what=what))
    return None


_UNKNOWN_FORMAT = "is in no format known here; name it with --from, or see the README for our lines"


def _here(
    jobs: Sequence[_Job], tools: AuditTools, policies: Sequence[str]
) -> Iterator[tuple[_Job, AuditReport, int]]:
    for job in jobs:
        yield (job, *_audit(job, tools, policies))


_Done = tuple[AuditReport, int]


def _spread(
    jobs: Sequence[_Job], tools: str | None, policies: Sequence[str], workers: int
) -> Iterator[tuple[_Job, AuditReport, int]]:
    # Spawned: a fork of a program with threads may hang, and threads are what a notebook has.
    context = multiprocessing.get_context("spawn")
    started = (tools, tuple(policies))
    with ProcessPoolExecutor(workers, context, initializer=_start, initargs=started) as pool:
        waiting: deque[tuple[_Job, Future[_Done]]] = deque()
        for job in jobs:
            waiting.append((job, pool.submit(_work, job)))
            if len(waiting) > 2 * workers:
                yield _finished(*waiting.popleft(), policies)
        while waiting:
            yield _finished(*waiting.popleft(), policies)


def _finished(
    job: _Job, future: Future[_Done], policies: Sequence[str]
) -> tuple[_Job, AuditReport, int]:
    try:
        return (job, *future.result())
    except Exception as error:
        # The process was killed, for want of memory most likely: the other ranges still count.
        report = AuditReport(tuple(policies))
        report.fault(Fault(job.path, 0, f"a part was not audited: {type(error).__name__}: {error}"))
        return job, report, 0


_worker: tuple[AuditTools, tuple[str, ...]] | None = None


def _start(tools: str | None, policies: tuple[str, ...]) -> None:
    """Make a process ready for its jobs."""
    global _worker  # noqa: PLW0603 - a process of a pool has no other place for what it keeps
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    _worker = AuditTools(None if tools is None else load_tools(tools)), policies


def _work(job: _Job) -> _Done:
    assert _worker is not None
    return _audit(job, *_worker)


def _audit(job: _Job, tools: AuditTools, policies: Sequence[str]) -> _Done:
    """Audit one file or range; the lines it has come along."""
    report = AuditReport(tuple(policies))
    documents = Documents(job.path, job.part)
    found: Iterator[tuple[int, Any] | Fault] = iter(documents)
    name = job.format
    if not name:
        first = list(itertools.islice(found, _LOOKED_AT))
        reader = detect(each[1] for each in first if not isinstance(each, Fault))
        if reader is None:
            report.fault(Fault(documents.path, 0, _UNKNOWN_FORMAT))
            return report, documents.lines
        name, found = reader.name, itertools.chain(first, found)
    chosen = {policy: POLICIES[policy]() for policy in policies}
    for run in read(reader_named(name), found, documents.path):
        if isinstance(run, Fault):
            report.fault(run)
        else:
            _count(report, documents.path, run, tools, chosen, name)
    return report, documents.lines


def _count(
    report: AuditReport,
    path: str,
    run: RecordedRun,
    tools: AuditTools,
    policies: Mapping[str, Policy],
    format_name: str,
) -> None:
    if all(isinstance(step, str) for step in run.steps):
        # A conversation without a tool call: nothing to guard.
        report.without_calls += 1
        return
    try:
        prepared = Prepared(run, tools)
        audits = {name: prepared.audit(policy) for name, policy in policies.items()}
    except Exception as error:
        what = f"run {run.run_id!r} cannot be audited: {type(error).__name__}: {error}"
        report.fault(Fault(path, run.line, what))
        return
    report.count(audits, format_name)
