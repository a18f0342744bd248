"""Our own steps, one a line, as a host writes them while its runs go on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from repeatguard_sdk.audit._json import is_object
from repeatguard_sdk.audit._recorded import Fault, RecordedRun
from repeatguard_sdk.audit.readers._reader import broken
from repeatguard_sdk.audit.readers._steps import Steps, is_step

OPEN = 256  # runs that may grow at a time


class StepsReader:
    """Reads steps as `repeatguard_sdk.testing.play` takes them, one a line.

    A call has ``tool``, ``args``, ``result`` or ``error``, and optionally ``turn``, ``call_id``,
    ``refused``; an event ``event``. Steps with an equal ``run`` are one run, and so are those
    without; lines of several runs may mix. An event without ``run`` is told to every run that has
    begun. Of the runs, a bounded number may grow at a time: the one that stood still the longest
    is over first, and a late step of it begins another run of its name.
    """

    name: ClassVar[str] = "steps"
    one_line_one_run: ClassVar[bool] = False

    def recognises(self, document: Any) -> bool:
        """Tell whether a document is one step of a run."""
        return is_step(document) and not {"steps", "calls", "role", "type"} & document.keys()

    def read(
        self, documents: Iterable[tuple[int, Any]], path: str
    ) -> Iterator[RecordedRun | Fault]:
        """Yield the runs of documents, each given with its line; a fault for what is no step."""
        runs: OrderedDict[str, Steps] = OrderedDict()
        for line, document in documents:
            try:
                yield from _add(runs, document, line, path)
            except Exception as error:
                yield broken(path, line, error)
        for steps in sorted(runs.values(), key=lambda steps: steps.line):
            yield steps.recorded()


def _add(
    runs: OrderedDict[str, Steps], document: Any, line: int, path: str
) -> Iterator[RecordedRun | Fault]:
    if not is_object(document) or not is_step(document):
        yield Fault(path, line, 'no step: it has neither a "tool" nor an "event" that is known')
        return
    if "event" in document and "run" not in document:
        for steps in runs.values():
            steps.add(document)
        return
    name = str(document.get("run", ""))
    if name not in runs:
        runs[name] = Steps(name or path, line)
    runs.move_to_end(name)
    runs[name].add(document)
    if len(runs) > OPEN:
        _, oldest = runs.popitem(last=False)
        yield oldest.recorded()
