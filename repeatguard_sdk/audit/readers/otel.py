"""OpenTelemetry spans of the GenAI conventions, as OTLP JSON."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import attrs

from repeatguard_sdk.audit._json import is_object, text_in
from repeatguard_sdk.audit._recorded import Fault, RecordedRun
from repeatguard_sdk.audit.readers._otlp import Span, is_otlp, spans_in
from repeatguard_sdk.audit.readers._reader import broken
from repeatguard_sdk.audit.readers._traces import runs_of

OPEN_TRACES = 256
OPEN_CONVERSATIONS = 64
_REMEMBERED = 1 << 16  # traces that are over, of which a late span is told


class OpenTelemetryReader:
    """Reads OTLP JSON: ``resourceSpans`` (or ``resourceLogs``), a batch a document, or one span.

    Of interest are spans of ``execute_tool`` and of the model, with ``gen_ai.input.messages`` and
    ``gen_ai.output.messages`` as attributes, in an event of the span or in a log record. One run
    is one conversation where a span of the trace names it (``gen_ai.conversation.id``), for a
    person's next request is a trace of its own in the same run; else it is one trace.

    Spans come in any order, and those of a trace in several documents. A bounded number of traces
    is waited for; of these the one that got nothing for the longest time is over first, and a
    span that comes later is left out, with one fault for its trace.
    """

    name: ClassVar[str] = "otel"
    one_line_one_run: ClassVar[bool] = False

    def recognises(self, document: Any) -> bool:
        """Tell whether a document is a batch of spans or of log records, or one span."""
        return is_otlp(document)

    def read(
        self, documents: Iterable[tuple[int, Any]], path: str
    ) -> Iterator[RecordedRun | Fault]:
        """Yield the runs of documents, each given with its line; a fault for what holds none."""
        traces = _Traces(path)
        for line, document in documents:
            try:
                if not is_object(document) or not is_otlp(document):
                    yield Fault(path, line, "no OTLP JSON: it has no resourceSpans")
                    continue
                for span in spans_in(document):
                    yield from traces.add(span, line)
            except Exception as error:
                yield broken(path, line, error)
        yield from traces.close()


@attrs.define
class _Group:
    """The spans of a trace, or of a conversation."""

    name: str
    line: int
    number: int  # of those that began before it
    spans: list[Span] = attrs.field(factory=list[Span])
    conversation: str | None = None


class _Traces:
    """The traces and conversations that may grow."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._begun = 0
        self._traces: OrderedDict[str, _Group] = OrderedDict()
        self._conversations: OrderedDict[str, _Group] = OrderedDict()
        # The traces that are over, and whether a late span of it was told.
        self._over: OrderedDict[str, bool] = OrderedDict()

    def add(self, span: Span, line: int) -> Iterator[RecordedRun | Fault]:
        """Take a span; yield the runs that can no longer grow."""
        if span.trace in self._over:
            if not self._over[span.trace]:
                self._over[span.trace] = True
                what = f"spans of trace {span.trace} come after {OPEN_TRACES} others: left out"
                yield Fault(self._path, line, what)
            return
        if span.trace not in self._traces:
            self._traces[span.trace] = _Group(span.trace, line, self._begun)
            self._begun += 1
        trace = self._traces[span.trace]
        self._traces.move_to_end(span.trace)
        trace.spans.append(span)
        conversation = text_in(span.attributes.get("gen_ai.conversation.id"))
        trace.conversation = trace.conversation or conversation
        if len(self._traces) > OPEN_TRACES:
            name, oldest = self._traces.popitem(last=False)
            self._over[name] = False
            if len(self._over) > _REMEMBERED:
                self._over.popitem(last=False)
            yield from self._end(oldest)

    def close(self) -> Iterator[RecordedRun | Fault]:
        """Yield the runs that are left, in the order of their lines."""
        left: list[_Group] = []
        for trace in self._traces.values():
            if trace.conversation is None:
                left.append(trace)
            else:
                self._join(trace, trace.conversation)
        left += self._conversations.values()
        for group in sorted(left, key=lambda group: group.number):
            yield from self._runs(group)

    def _end(self, trace: _Group) -> Iterator[RecordedRun | Fault]:
        if trace.conversation is None:
            yield from self._runs(trace)
            return
        self._join(trace, trace.conversation)
        if len(self._conversations) > OPEN_CONVERSATIONS:
            _, oldest = self._conversations.popitem(last=False)
            yield from self._runs(oldest)

    def _join(self, trace: _Group, name: str) -> None:
        group = self._conversations.setdefault(name, _Group(name, trace.line, trace.number))
        self._conversations.move_to_end(name)
        group.line = min(group.line, trace.line)
        group.number = min(group.number, trace.number)
        group.spans += trace.spans

    def _runs(self, group: _Group) -> Iterator[RecordedRun | Fault]:
        try:
            yield from runs_of(group.spans, group.name, group.line, self._path)
        except Exception as error:
            yield broken(self._path, group.line, error)
