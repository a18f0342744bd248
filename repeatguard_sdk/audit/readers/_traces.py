"""The spans of one conversation to runs: by what the messages tell, or by what was executed when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._json import is_object, list_in, text_in, value_of
from repeatguard_sdk.audit._recorded import Fault, Happening, RecordedCall, RecordedRun
from repeatguard_sdk.audit.readers._histories import Histories, Part
from repeatguard_sdk.audit.readers._otlp import Span
from repeatguard_sdk.audit.readers._talk import (
    Answered,
    Called,
    Entry,
    Said,
    arguments_of,
    said,
)

_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_ASKS_MODEL = frozenset({"chat", "generate_content", "text_completion"})


def runs_of(spans: list[Span], run_id: str, line: int, path: str) -> Iterator[RecordedRun | Fault]:
    """Yield the runs that spans tell of.

    The messages of the model's spans tell turns and what a person said; the tools' spans tell
    what was executed, and whether it failed. If every executed call is one of the messages', a
    run is a history of messages (an agent within the agent has its own). Else, for instance where
    messages are not recorded, all is one run, in the order in which it began.
    """
    spans = sorted(spans, key=lambda span: span.start)
    tools = _tool_spans(spans)
    told = list(_told(spans, line, path))
    ids = {_call_id(span) for span in tools}
    known = {
        step.call_id
        for run in told
        if isinstance(run, RecordedRun)
        for step in run.steps
        if isinstance(step, RecordedCall)
    }
    if known and ids <= known:
        executed = {_call_id(span): span for span in tools}
        for number, run in enumerate(told, start=1):
            if isinstance(run, RecordedRun):
                name = run_id if number == 1 else f"{run_id}/{number}"
                yield RecordedRun(name, [_completed(step, executed) for step in run.steps], line)
            else:
                yield run
    elif steps := _by_time(spans, tools):
        yield RecordedRun(run_id, steps, line)


def _tool_spans(spans: list[Span]) -> list[Span]:
    """Return the spans of executed tools; not those that a tool's own span holds."""
    found = {span.span: span for span in spans if _is_tool(span)}
    return [span for span in found.values() if span.parent not in found]


def _is_tool(span: Span) -> bool:
    named = text_in(span.attributes.get("gen_ai.tool.name")) is not None
    operation = span.attributes.get("gen_ai.operation.name")
    return named and (operation == "execute_tool" or span.name.startswith("execute_tool"))


def _call_id(span: Span) -> str | None:
    return text_in(span.attributes.get("gen_ai.tool.call.id"))


# -- by the messages -------------------------------------------------------------------------------


def _told(spans: list[Span], line: int, path: str) -> Iterator[RecordedRun | Fault]:
    """Yield a run for each history that the model was given."""
    talks = [span for span in spans if _INPUT in span.attributes or _OUTPUT in span.attributes]
    # An agent's span repeats what its model's spans tell.
    asks = [
        span for span in talks if span.attributes.get("gen_ai.operation.name") != "invoke_agent"
    ]
    histories = Histories(path)
    for span in asks or talks:
        before = list(_entries(span.attributes.get(_INPUT)))
        after = list(_entries(span.attributes.get(_OUTPUT)))
        yield from histories.add(line, Part([*before, *after], sure=len(before)))
    yield from histories.close()


def _entries(messages: Any) -> Iterator[Entry]:
    found = value_of(messages) if isinstance(messages, str) else messages
    for message in list_in(found):
        if not is_object(message):
            continue
        parts = list_in(message.get("parts"))
        results = list(_results(parts))
        yield from results
        if message.get("role") == "user" and not results:
            yield from said(parts)
        yield from _calls(parts)


def _calls(parts: list[Any]) -> Iterator[Entry]:
    for part in parts:
        if (
            is_object(part)
            and part.get("type") == "tool_call"
            and (name := text_in(part.get("name")))
        ):
            yield Called(name, part.get("arguments"), text_in(part.get("id")))


def _results(parts: list[Any]) -> Iterator[Entry]:
    for part in parts:
        if is_object(part) and part.get("type") == "tool_call_response":
            result = part.get("response", part.get("result"))
            yield Answered(text_in(part.get("id")), None, result)


def _completed(
    step: RecordedCall | Happening, executed: dict[str | None, Span]
) -> RecordedCall | Happening:
    """Return a call with what its span tells beside the messages."""
    if not isinstance(step, RecordedCall) or step.call_id is None:
        return step
    span = executed.get(step.call_id)
    if span is None:
        return step
    spanned = _call(span, step.turn)
    if spanned.error is not None or (step.result is MISSING and step.error is None):
        step = step._replace(result=spanned.result, error=spanned.error)
    return step if step.arguments else step._replace(arguments=spanned.arguments)


# -- by time ---------------------------------------------------------------------------------------


def _by_time(spans: list[Span], tools: list[Span]) -> list[RecordedCall | Happening]:
    """Return the executed calls in order; those after one answer of the model are one turn.

    Where the model's spans are missing, calls that overlap are one turn. A new trace within a
    conversation is a new request of a person, unless messages tell how often one spoke.
    """
    steps: list[RecordedCall | Happening] = []
    executed = {span.span for span in tools}
    has_asks = any(map(_asks_model, spans))
    has_messages = any(_INPUT in span.attributes for span in spans)
    turn, busy_until, spoken = 0, -1, 0
    trace = spans[0].trace if spans else ""
    for span in spans:
        if span.trace != trace and not has_messages:
            steps.append("user_message")
        trace = span.trace
        if _asks_model(span):
            turn += 1
            heard = sum(isinstance(entry, Said) for entry in _entries(span.attributes.get(_INPUT)))
            if heard > spoken:
                steps.append("user_message")
                spoken = heard
        elif span.span in executed:
            if not has_asks and span.start >= busy_until:
                turn += 1
            busy_until = max(busy_until, span.end)
            steps.append(_call(span, turn))
    return steps


def _asks_model(span: Span) -> bool:
    return span.attributes.get("gen_ai.operation.name") in _ASKS_MODEL


def _call(span: Span, turn: int) -> RecordedCall:
    attributes = span.attributes
    error = None
    result = attributes.get("gen_ai.tool.call.result", MISSING)
    kind = text_in(attributes.get("error.type"))
    if span.failed or kind is not None:
        error = span.message or text_in(attributes.get("exception.message")) or kind or "failed"
        result = MISSING
    return RecordedCall(
        attributes["gen_ai.tool.name"],
        arguments_of(attributes.get("gen_ai.tool.call.arguments")),
        result,
        error,
        turn,
        _call_id(span),
    )
