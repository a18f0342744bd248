"""Events on the spans of tool calls, and as metrics; needs the extra `otel`."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import Any

import attrs

from repeatguard_sdk._event import Event, FollowUp, GuardWarning, RepeatEvent, RunRecord
from repeatguard_sdk._redaction import Redact, Redaction, storable
from repeatguard_sdk._types import is_mapping, is_tuple

try:
    # By name, so that types are checked alike with the extra and without it.
    _trace: Any = importlib.import_module("opentelemetry.trace")
    _metrics: Any = importlib.import_module("opentelemetry.metrics")
except ImportError as error:
    _msg = "OpenTelemetrySink needs opentelemetry-api; install repeatguard-sdk[otel]"
    raise ImportError(_msg) from error

__all__ = ["OpenTelemetrySink"]

# Of the semantic conventions for generative AI.
OPERATION = "gen_ai.operation.name"
EXECUTE_TOOL = "execute_tool"
TOOL = "gen_ai.tool.name"
CALL_ID = "gen_ai.tool.call.id"
OTHER = "_OTHER"
# Our own.
RUN_ID = "repeatguard.run.id"
NUMBER = "repeatguard.number"
FINDING = "repeatguard.finding"
DECISION = "repeatguard.decision"
WOULD = "repeatguard.would"
DID = "repeatguard.did"
REASON = "repeatguard.run.reason"

_SCOPE = "repeatguard_sdk"
_RENAMED = {"run_id": RUN_ID, "tool": TOOL, "call_id": CALL_ID}
# What became of a call, by the field of a run that counts it.
_BECAME = {"executed": "execute", "replayed": "replay", "joined": "join", "refused": "refuse"}
_MOST_TOOLS = 500


class OpenTelemetrySink:
    """Puts events on the spans of tool calls, and counts them.

    An intervention becomes attributes of the current span, if that is the ``execute_tool`` span of its
    call, else a span event of the current one. What the model did next, warnings and the end of a
    run are span events: the span of the call has ended by then, run and number tell which it was.

    Counters: ``repeatguard.repeats`` (by tool, finding, decision, and what ``enforce`` would have
    decided), ``repeatguard.follow_ups`` (tool, finding, what the model did), ``repeatguard.runs``
    (reason), ``repeatguard.calls`` (tool, what became of it), ``repeatguard.warnings`` (tool).
    Histogram: ``repeatguard.run.repeats``, interventions of one run (reason).

    Args:
        tracer_provider: if given, an intervention where no span is recording becomes a span of its
            own; else it is only counted.
        meter_provider: default: the global one.
        redact: called with each text that comes from a tool; what it returns is recorded instead.
        preview: whether anything of results is recorded; the conventions leave contents out unless
            somebody asks for them.

    Raises:
        TypeError: `redact` is no function.
    """

    in_place = True  # the span of the call is current where it arises

    def __init__(
        self,
        *,
        tracer_provider: Any = None,
        meter_provider: Any = None,
        redact: Redact | None = None,
        preview: bool = False,
    ) -> None:
        self._redaction = Redaction(redact, preview=preview, faults=False)
        self._tracer: Any = None
        if tracer_provider is not None:
            self._tracer = _trace.get_tracer(_SCOPE, _version(), tracer_provider)
        self._count(_metrics.get_meter(_SCOPE, _version(), meter_provider))
        # A model may call tools that do not exist by ever new names; races only let a few more in.
        self._tools: set[str] = set()

    def _count(self, meter: Any) -> None:
        self._repeats = meter.create_counter(
            "repeatguard.repeats", "{repeat}", "Interventions, made or withheld by the mode."
        )
        self._follow_ups = meter.create_counter(
            "repeatguard.follow_ups", "{repeat}", "What the model did after interventions."
        )
        self._runs = meter.create_counter("repeatguard.runs", "{run}", "Runs that have ended.")
        self._calls = meter.create_counter(
            "repeatguard.calls", "{call}", "Guarded calls of runs that have ended."
        )
        self._warnings = meter.create_counter(
            "repeatguard.warnings", "{warning}", "What a developer should mend."
        )
        self._run_repeats = meter.create_histogram(
            "repeatguard.run.repeats",
            "{repeat}",
            "Interventions in one run.",
            explicit_bucket_boundaries_advisory=[0, 1, 2, 3, 5, 10, 20, 50, 100],
        )

    def emit(self, event: Event, /) -> None:
        """Record one event on the current span and in the metrics."""
        event = self._redaction.apply(event)
        if isinstance(event, RepeatEvent):
            self._repeat(event)
        elif isinstance(event, FollowUp):
            self._follow_up(event)
        elif isinstance(event, GuardWarning):
            self._warnings.add(1, self._by_tool(event.tool))
            _add_event("repeatguard.warning", _attributes(event))
        else:
            self._run(event)

    def _repeat(self, event: RepeatEvent) -> None:
        by = self._by_tool(event.tool)
        found = {FINDING: event.finding, DECISION: event.decision, WOULD: event.would}
        self._repeats.add(1, {**by, **found})
        if event.did is not None:
            self._follow_ups.add(1, {**by, FINDING: event.finding, DID: event.did})
        span = _trace.get_current_span()
        if span.is_recording():
            _annotate(span, event)
        elif self._tracer is not None:
            self._tracer.start_span("repeatguard.repeat", attributes=_attributes(event)).end()

    def _follow_up(self, follow_up: FollowUp) -> None:
        event = follow_up.event
        by = self._by_tool(event.tool)
        self._follow_ups.add(1, {**by, FINDING: event.finding, DID: follow_up.did})
        told = _attributes(event)
        kept = {
            name: told[name] for name in (RUN_ID, NUMBER, TOOL, CALL_ID, FINDING) if name in told
        }
        _add_event("repeatguard.follow_up", {**kept, DID: follow_up.did})

    def _run(self, run: RunRecord) -> None:
        self._runs.add(1, {REASON: run.reason})
        self._run_repeats.record(run.events, {REASON: run.reason})
        for name, became in _BECAME.items():
            for tool, count in getattr(run, name).items():
                # Calls of tools that do not exist are counted under no name.
                self._calls.add(count, {**self._by_tool(tool or OTHER), DECISION: became})
        told = {"calls": run.calls, "turns": run.turns, "repeats": run.events}
        _add_event(
            "repeatguard.run",
            {
                RUN_ID: storable(run.run_id),
                REASON: run.reason,
                **{f"repeatguard.run.{name}": count for name, count in told.items()},
            },
        )

    def _by_tool(self, tool: str) -> dict[str, str]:
        if not tool:
            return {}
        if tool not in self._tools:
            if len(self._tools) >= _MOST_TOOLS:
                return {TOOL: OTHER}
            self._tools.add(tool)
        return {TOOL: storable(tool)}


def _annotate(span: Any, event: RepeatEvent) -> None:
    told = _attributes(event)
    there = getattr(span, "attributes", None)
    if not is_mapping(there) or not _is_of_call(there, event):
        span.add_event("repeatguard.repeat", told)
        return
    span.set_attributes({name: told[name] for name in told if name not in there})


def _is_of_call(attributes: Mapping[str, Any], event: RepeatEvent) -> bool:
    """Tell whether a span is that of the call, and has no other intervention on it yet."""
    # Spans of some frameworks name the tool, but not the operation.
    operation = attributes.get(OPERATION, EXECUTE_TOOL if TOOL in attributes else None)
    return (
        operation == EXECUTE_TOOL
        and attributes.get(TOOL) in (None, event.tool)
        and (event.call_id is None or attributes.get(CALL_ID) in (None, event.call_id))
        and FINDING not in attributes
    )


def _attributes(event: RepeatEvent | GuardWarning) -> dict[str, Any]:
    """Return what an event tells; a span has a time of its own."""
    told: dict[str, Any] = {}
    for field in attrs.fields(type(event)):
        value = getattr(event, field.name)
        if value is None or value in ("", ()) or field.name in ("at", "fault"):
            continue
        name = _RENAMED.get(field.name, f"repeatguard.{field.name}")
        told[name] = _attribute(value)
    return told


def _attribute(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    return [storable(str(part)) for part in value] if is_tuple(value) else value


def _add_event(name: str, attributes: dict[str, Any]) -> None:
    span = _trace.get_current_span()
    if span.is_recording():
        span.add_event(name, attributes)


def _version() -> str | None:
    try:
        return importlib.metadata.version("repeatguard-sdk")
    except importlib.metadata.PackageNotFoundError:
        return None
