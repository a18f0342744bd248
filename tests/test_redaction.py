"""What a sink keeps of a tool's text can be changed, hidden, and never comes back by a fault."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk._redaction import HIDDEN, Redaction
from repeatguard_sdk._suspicion import SUSPECTED_CAUSES, suspect_cause
from repeatguard_sdk.events import GuardWarning, LoggingSink, MemorySink, RepeatEvent


@pytest.fixture
def event() -> RepeatEvent:
    @guarded_tool(registry=Registry())
    def look(key: str) -> str:
        return "card 4111-1111 was declined"

    sink = MemorySink()
    with Run([look], events=sink):
        look("a")
        look("a")
    return sink.repeats[0]


def test_a_preview_is_redacted(event: RepeatEvent) -> None:
    """The function gets the text and returns what is kept."""
    redaction = Redaction(lambda text: text.replace("4111-1111", "****"))
    applied = redaction.apply(event)
    assert isinstance(applied, RepeatEvent)
    assert '"card **** was declined"' == applied.preview


def test_previews_can_be_left_out(event: RepeatEvent) -> None:
    """Digests, counts and the suspected cause stay."""
    applied = Redaction(preview=False).apply(event)
    assert isinstance(applied, RepeatEvent)
    assert ("", event.result_digest) == (applied.preview, applied.result_digest)
    assert "unresolved" == applied.suspected_cause


@pytest.mark.parametrize("redact", [lambda _: 1 / 0, lambda _: None, lambda _: b"bytes"])
def test_a_redaction_that_fails_hides_the_text(redact: Any, event: RepeatEvent) -> None:
    """Showing what was to be hidden is the worse fault."""
    applied = Redaction(redact).apply(event)
    assert isinstance(applied, RepeatEvent)
    assert HIDDEN == applied.preview


def test_the_text_of_a_fault_alone_can_be_left_out(event: RepeatEvent) -> None:
    """Where an argument must not get in at all; other warnings and previews stay."""
    fault = GuardWarning(run_id="r", at=0, tool="t", what="on 4111", fault=ValueError("4111"))
    redaction = Redaction(faults=False)
    applied = redaction.apply(fault)
    assert isinstance(applied, GuardWarning)
    assert "the guard failed and let the call through: ValueError" == applied.what
    assert applied.fault is None
    told = GuardWarning(run_id="r", at=0, tool="t", what="a call cannot be compared")
    assert [told, event] == [redaction.apply(told), redaction.apply(event)]


def test_a_fault_is_redacted_as_text_and_as_error() -> None:
    """An error may quote the very value it was raised on."""
    fault = GuardWarning(
        run_id="r", at=0, tool="t", what="failed on 4111", fault=ValueError("4111")
    )
    redacted = Redaction(lambda text: text.replace("4111", "*")).apply(fault)
    hidden = Redaction(preview=False).apply(fault)
    assert isinstance(redacted, GuardWarning)
    assert isinstance(hidden, GuardWarning)
    assert ("failed on *", None) == (redacted.what, redacted.fault)
    assert "4111" not in hidden.what
    assert hidden.fault is None
    assert fault is Redaction().apply(fault)


def test_what_is_no_function_is_rejected() -> None:
    """The mistake is named where it is made."""
    with pytest.raises(TypeError, match="give a function that takes a text"):
        Redaction("secret")  # type: ignore[arg-type]


def test_a_log_is_redacted(event: RepeatEvent, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the message nor the fields hold what was taken out."""
    with caplog.at_level(logging.INFO):
        LoggingSink(redact=lambda _: "-").emit(event)
        LoggingSink(preview=False).emit(event)
    assert ["-", ""] == [record.repeatguard["preview"] for record in caplog.records]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "failed", "cause"),
    [
        ("no scans recorded", False, "unresolved"),
        ('{"status": "label created"}', False, "unresolved"),
        ("", False, "unresolved"),
        ("503 service unavailable, try again later", True, "retryable"),
        ("TimeoutError: timed out after 30 s", True, "retryable"),
        ('{"error": "rate limit exceeded"}', False, "retryable"),
        ("Error: too many requests", False, "retryable"),
        ("export to PDF is not supported", True, "capability"),
        ("There is no tool 'refund'. The tools are: look.", True, "capability"),
        ("bash: foo: command not found", True, "capability"),
        ("Error: cabin must be economy", False, "constraint"),
        ("ValueError: amount exceeds the balance", True, "constraint"),
        ("Non-refundable tickets cannot be cancelled", True, "constraint"),
        ("KeyError: 'x'", True, None),
    ],
)
def test_a_cause_is_suspected_from_the_text(text: str, failed: bool, cause: str | None) -> None:
    """Each rule has its own words, and where none holds no cause is claimed."""
    assert cause == suspect_cause(text, failed=failed)


def test_an_unknown_tool_is_a_missing_capability() -> None:
    """Whatever the host said about it."""
    assert "capability" == suspect_cause("refused", failed=True, unknown_tool=True)
    assert {"unresolved", "retryable", "capability", "constraint"} == set(SUSPECTED_CAUSES)
