"""Our own lines: a run a line, with its calls, or a scenario a line, as `play` takes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from repeatguard_sdk.audit._json import is_list, is_object
from repeatguard_sdk.audit._recorded import Fault, RecordedRun
from repeatguard_sdk.audit.readers._line_runs import line_runs
from repeatguard_sdk.audit.readers._reader import broken


class LinesReader:
    """Reads our own lines, each of them a run with its ``calls``, or a scenario with ``steps``.

    A run has ``run_id``, ``calls`` (``tool``, ``args``, ``result``, ``error``: whether the result
    is the text of a failure, ``turn``, ``effect``, ``result_sha``), and optionally
    ``user_messages`` and ``external_events`` (each with the ``before_call`` it came before) and
    ``reward`` (1 or more: the task was solved). A result that ends in "…" was cut: its identity is
    its ``result_sha``. The effect "terminal" is our "final" and "session" our "unknown"; a tool
    whose effect differs between the calls of a run, such as a shell, is of unknown effect.
    """

    name: ClassVar[str] = "lines"
    one_line_one_run: ClassVar[bool] = True

    def recognises(self, document: Any) -> bool:
        """Tell whether a document is a run with its calls, or a scenario."""
        return is_object(document) and (
            (is_list(document.get("calls")) and "run_id" in document)
            or (is_object(document.get("tools")) and is_list(document.get("steps")))
        )

    def read(
        self, documents: Iterable[tuple[int, Any]], path: str
    ) -> Iterator[RecordedRun | Fault]:
        """Yield the runs of documents, each given with its line; a fault for what holds none."""
        for line, document in documents:
            try:
                yield from line_runs(document, line, path)
            except Exception as error:
                yield broken(path, line, error)
