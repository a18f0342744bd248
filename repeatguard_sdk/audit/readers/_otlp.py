"""Spans out of OTLP JSON in both of its spellings, and as the Python SDK prints them."""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Iterator
from typing import Any, NamedTuple

from repeatguard_sdk.audit._json import is_list, is_object, list_in, object_in, text_in

# protobuf writes its own field names where it is told to keep them.
_BATCHES = (
    ("resourceSpans", "scopeSpans", "spans"),
    ("resource_spans", "scope_spans", "spans"),
    ("resourceLogs", "scopeLogs", "logRecords"),
    ("resource_logs", "scope_logs", "log_records"),
)
_HEX = frozenset("0123456789abcdefABCDEF")
_FAILED = (2, "STATUS_CODE_ERROR", "ERROR")


class Span(NamedTuple):
    """A span of a GenAI operation, or a log record that tells of one.

    Attributes:
        trace: id of its trace, in hexadecimal.
        span: its own id.
        parent: that of the span it is in, empty for none.
        name: what it is called.
        start: when it began, in nanoseconds.
        end: when it ended.
        attributes: its own, and those of its events that tell of messages or an exception.
        failed: whether its status is an error.
        message: what its status says.
    """

    trace: str
    span: str
    parent: str
    name: str
    start: int
    end: int
    attributes: dict[str, Any]
    failed: bool
    message: str


def is_otlp(document: Any) -> bool:
    """Tell whether a document is a batch of spans or of log records, or one span."""
    return is_object(document) and (
        any(is_list(document.get(batch)) for batch, _, _ in _BATCHES) or _is_span(document)
    )


def spans_in(document: dict[str, Any]) -> Iterator[Span]:
    """Yield the spans of a document that have an attribute of the GenAI conventions."""
    if _is_span(document):
        found = [document]
    else:
        found = [
            span
            for batch, scopes, spans in _BATCHES
            for resource in list_in(document.get(batch))
            for scope in list_in(object_in(resource).get(scopes))
            for span in list_in(object_in(scope).get(spans))
            if is_object(span)
        ]
    for record in found:
        attributes = attributes_in(record.get("attributes"))
        for event in list_in(record.get("events")):
            more = attributes_in(object_in(event).get("attributes"))
            attributes = {**more, **attributes}
        if any(name.startswith("gen_ai.") for name in attributes):
            yield _span(record, attributes)


def attributes_in(given: Any) -> dict[str, Any]:
    """Return attributes by name: from pairs of key and typed value, or as they are."""
    if is_object(given):
        return given
    found: dict[str, Any] = {}
    for pair in list_in(given):
        if is_object(pair) and isinstance(pair.get("key"), str):
            found[pair["key"]] = _plain(pair.get("value"))
    return found


def _plain(typed: Any) -> Any:
    """Return the value that a typed value of OTLP stands for."""
    if not is_object(typed) or len(typed) != 1:
        return None if is_object(typed) else typed
    ((kind, value),) = typed.items()
    kind = kind.removesuffix("Value").removesuffix("_value")
    if kind == "array":
        return [_plain(element) for element in list_in(object_in(value).get("values"))]
    if kind == "kvlist":
        return attributes_in(object_in(value).get("values"))
    if kind == "int" and isinstance(value, str):
        return int(value)
    return value


def _is_span(document: Any) -> bool:
    if not is_object(document) or "attributes" not in document:
        return False
    context = object_in(document.get("context"))
    return ("trace_id" in context and "span_id" in context) or (
        _first(document, "traceId", "trace_id") is not None
        and _first(document, "spanId", "span_id") is not None
    )


def _span(record: dict[str, Any], attributes: dict[str, Any]) -> Span:
    context = object_in(record.get("context"))
    start = _time(
        _first(record, "startTimeUnixNano", "start_time_unix_nano", "start_time")
        or _first(record, "timeUnixNano", "time_unix_nano", "observedTimeUnixNano")
    )
    end = _time(_first(record, "endTimeUnixNano", "end_time_unix_nano", "end_time"))
    status = object_in(record.get("status"))
    return Span(
        trace=_id(_first(record, "traceId", "trace_id") or context.get("trace_id")),
        span=_id(_first(record, "spanId", "span_id") or context.get("span_id")),
        parent=_id(_first(record, "parentSpanId", "parent_span_id", "parent_id")),
        name=text_in(_first(record, "name", "eventName", "event_name")) or "",
        start=start,
        end=max(start, end),
        attributes=attributes,
        failed=_first(status, "code", "status_code") in _FAILED,
        message=text_in(_first(status, "message", "description")) or "",
    )


def _first(record: dict[str, Any], *names: str) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _id(given: Any) -> str:
    """Return an id in hexadecimal: OTLP writes it so, protobuf's own JSON in base64."""
    text = given.removeprefix("0x") if isinstance(given, str) else ""
    if len(text) in (16, 32) and _HEX.issuperset(text):
        return text.lower()
    try:
        return base64.b64decode(text, validate=True).hex()
    except (binascii.Error, ValueError):
        return text


def _time(given: Any) -> int:
    """Return a time in nanoseconds, 0 for what is none."""
    if isinstance(given, (int, float)):
        return int(given)
    if not isinstance(given, str):
        return 0
    if given.isdigit():
        return int(given)
    try:
        moment = datetime.datetime.fromisoformat(given.replace("Z", "+00:00"))
    except ValueError:
        return 0
    return int(moment.timestamp() * 1_000_000) * 1_000
