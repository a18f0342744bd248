"""The OpenTelemetry sink beside the real SDK: which span gets what, and what is counted."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from repeatguard_sdk import Policy, Registry, Run, guarded_tool
from repeatguard_sdk.events import FollowUp
from sink_work import look, put_all, record, repeat, warning

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from repeatguard_sdk.sinks import opentelemetry as module
from repeatguard_sdk.sinks.opentelemetry import OpenTelemetrySink


class Telemetry:
    """The real SDK, exporting into memory; spans are made as a framework makes them."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])
        self.tracer = self.tracers.get_tracer("framework")

    def sink(self, **options: Any) -> OpenTelemetrySink:
        return OpenTelemetrySink(meter_provider=self.meters, **options)

    def executing(self, tool: str = "look", **more: Any) -> Any:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, **more}
        return self.tracer.start_as_current_span(f"execute_tool {tool}", attributes=attributes)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def told(self) -> list[tuple[Any, list[str]]]:
        """Return of each span the finding on it, and the names of its events."""
        return [
            (
                (span.attributes or {}).get("repeatguard.finding"),
                [event.name for event in span.events],
            )
            for span in self.spans
        ]

    def counts(self, metric: str) -> dict[tuple[Any, ...], Any]:
        """Return the values of a metric by those of its attributes, in the order of their names."""
        data = self._reader.get_metrics_data()
        points = [
            point
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == metric
            for point in each.data.data_points
        ]
        return {
            tuple(value for _, value in sorted((point.attributes or {}).items())): (
                point.sum
                if isinstance(point, HistogramDataPoint)
                else getattr(point, "value", None)
            )
            for point in points
        }


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.tracers.shutdown()
    made.meters.shutdown()


def test_the_span_of_the_call_is_annotated(telemetry: Telemetry) -> None:
    """With the names of the conventions, ours beside them, and no content of arguments or results."""
    with Run([look], events=telemetry.sink(), run_id="mine") as run:
        with telemetry.executing():
            look("a")
        with telemetry.executing():
            run.dispatch("look", {"key": "a"}, call_id="call-7")
    first, second = telemetry.spans
    assert {"gen_ai.operation.name", "gen_ai.tool.name"} == set(first.attributes or {})
    attributes = dict(second.attributes or {})
    digests = attributes.pop("repeatguard.key_digest"), attributes.pop("repeatguard.result_digest")
    assert all(isinstance(each, str) and len(each) == 32 for each in digests)
    assert {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "call-7", "repeatguard.run.id": "mine", "repeatguard.number": 1,
        "repeatguard.call": 2, "repeatguard.turn": 0, "repeatguard.finding": "repeat",
        "repeatguard.decision": "replay", "repeatguard.would": "replay", "repeatguard.count": 2,
        "repeatguard.cause": "identical call", "repeatguard.style": "options",
        "repeatguard.mode": "enforce", "repeatguard.effect": "read", "repeatguard.failed": False,
        "repeatguard.arguments": ("key",), "repeatguard.suspected_cause": "unresolved",
    } == attributes  # fmt: skip


def test_each_call_finds_its_own_span(telemetry: Telemetry) -> None:
    """In coroutines that run side by side, and in threads: the sink is called where the call is."""

    @guarded_tool(registry=Registry())
    async def fetch(key: str) -> str:
        await asyncio.sleep(0.001)
        return f"nothing about {key}"

    async def call(key: str) -> None:
        with telemetry.executing("fetch", key=key):
            await fetch(key)

    def call_in_thread(key: str) -> None:
        with telemetry.executing(key=key):
            look(key)

    async def main() -> None:
        async with Run([fetch, look], events=telemetry.sink()) as run:
            for _ in range(2):
                run.turn()
                await asyncio.gather(*(call(key) for key in "abc"))
                await asyncio.gather(*(asyncio.to_thread(call_in_thread, key) for key in "xy"))
                thread = threading.Thread(target=run.bind(call_in_thread), args=("z",))
                thread.start()
                await asyncio.to_thread(thread.join)

    asyncio.run(main())
    annotated = [
        dict(span.attributes or {}) for span in telemetry.spans
        if "repeatguard.finding" in (span.attributes or {})
    ]  # fmt: skip
    assert sorted("abcxyz") == sorted(str(each["key"]) for each in annotated)
    assert {"replay"} == {each["repeatguard.decision"] for each in annotated}


def test_on_another_span_it_is_an_event(telemetry: Telemetry) -> None:
    """That of an agent, of an outer tool, of another call, or one that tells of an intervention."""
    sink = telemetry.sink()
    with telemetry.tracer.start_as_current_span("invoke_agent"):
        sink.emit(repeat())
    with telemetry.executing("outer"):
        sink.emit(repeat())
    with telemetry.executing(**{"gen_ai.tool.call.id": "other"}):
        sink.emit(repeat())
    with telemetry.executing(**{"gen_ai.tool.call.id": "call-1"}):
        put_all(sink, repeat(), repeat(finding="cycle"))
    with telemetry.tracer.start_as_current_span("tool", attributes={"gen_ai.tool.name": "look"}):
        sink.emit(repeat(finding="same_outcome"))
    assert [
        (None, ["repeatguard.repeat"]), (None, ["repeatguard.repeat"]), (None, ["repeatguard.repeat"]),
        ("repeat", ["repeatguard.repeat"]), ("same_outcome", []),
    ] == telemetry.told()  # fmt: skip
    event = telemetry.spans[0].events[0]
    assert ("look", "call-1", "repeat") == tuple(
        (event.attributes or {})[name]
        for name in ("gen_ai.tool.name", "gen_ai.tool.call.id", "repeatguard.finding")
    )


def test_what_followed_and_the_end_are_events(telemetry: Telemetry) -> None:
    """On the span that is current then; run and number tell which intervention is meant."""
    with (
        telemetry.tracer.start_as_current_span("invoke_agent"),
        Run([look], events=telemetry.sink(), run_id="mine"),
    ):
        for key in ("a", "a", "b", "b"):
            with telemetry.executing():
                look(key)
    *calls, agent = telemetry.spans
    assert ["repeatguard.follow_up"] == [event.name for event in calls[2].events]
    assert {
        "repeatguard.run.id": "mine", "repeatguard.number": 1, "gen_ai.tool.name": "look",
        "repeatguard.finding": "repeat", "repeatguard.did": "other_call",
    } == dict(calls[2].events[0].attributes or {})  # fmt: skip
    assert ["repeatguard.follow_up", "repeatguard.run"] == [event.name for event in agent.events]
    assert {
        "repeatguard.run.id": "mine", "repeatguard.run.reason": "completed",
        "repeatguard.run.calls": 4, "repeatguard.run.turns": 0, "repeatguard.run.repeats": 2,
    } == dict(agent.events[1].attributes or {})  # fmt: skip


def test_without_a_span_it_is_counted(telemetry: Telemetry) -> None:
    """And becomes a span of its own where a provider is given for that."""
    telemetry.sink().emit(repeat())
    assert [] == telemetry.spans
    telemetry.sink(tracer_provider=telemetry.tracers).emit(repeat())
    (span,) = telemetry.spans
    assert "repeatguard.repeat" == span.name
    assert "call-1" == (span.attributes or {})["gen_ai.tool.call.id"]
    assert 2 == sum(telemetry.counts("repeatguard.repeats").values())


def test_what_is_counted(telemetry: Telemetry) -> None:
    """By tool, finding, decision and reason; names of tools that do not exist are one."""
    sink = telemetry.sink()
    with Run([look], events=sink, policy=Policy(mode="observe")):
        look("a")
        look("a")
    with Run([look], events=sink, on_stuck="flag") as run:
        for _ in range(3):
            look("a")
        run.dispatch("nothing", {})
    assert {
        ("look", "execute", "repeat", "replay"): 1, ("look", "replay", "repeat", "replay"): 1,
        ("look", "exit", "repeat", "exit"): 1,
    } == telemetry.counts("repeatguard.repeats")  # fmt: skip
    assert {
        ("look", "answered", "repeat"): 1, ("look", "same_call", "repeat"): 1,
        ("look", "ended", "repeat"): 1,
    } == telemetry.counts("repeatguard.follow_ups")  # fmt: skip
    assert {("completed",): 1, ("stuck",): 1} == telemetry.counts("repeatguard.runs")
    assert {("completed",): 1, ("stuck",): 2} == telemetry.counts("repeatguard.run.repeats")
    assert {
        ("look", "execute"): 3, ("look", "replay"): 1, ("_OTHER", "refuse"): 1,
    }.items() <= telemetry.counts("repeatguard.calls").items()  # fmt: skip
    sink.emit(warning(tool=""))
    assert {(): 1} == telemetry.counts("repeatguard.warnings")


def test_a_model_cannot_make_ever_new_series(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may call tools that do not exist by any name; beyond a number they are one."""
    monkeypatch.setattr(module, "_MOST_TOOLS", 2)
    put_all(telemetry.sink(), *(repeat(n, tool=f"tool-{n}") for n in range(6)))
    assert {"tool-0": 1, "tool-1": 1, "_OTHER": 4} == {
        tool: count for (tool, *_), count in telemetry.counts("repeatguard.repeats").items()
    }


def test_contents_are_recorded_when_asked_for(telemetry: Telemetry) -> None:
    """As the function returns them; the text of a fault, which may quote an argument, never."""
    fault = warning(what="ValueError: 4111", fault=ValueError("4111"))
    hidden = telemetry.sink()
    shown = telemetry.sink(preview=True, redact=lambda text: text.replace("4111", "****"))
    for sink in (hidden, shown):
        with telemetry.executing():
            put_all(sink, repeat(preview='"4111 was declined"'), fault)
    without, with_it = telemetry.spans
    assert "repeatguard.preview" not in (without.attributes or {})
    assert '"**** was declined"' == (with_it.attributes or {})["repeatguard.preview"]
    assert ["the guard failed and let the call through: ValueError"] * 2 == [
        (span.events[0].attributes or {})["repeatguard.what"] for span in (without, with_it)
    ]
    assert "4111" not in "".join(span.to_json() for span in telemetry.spans)


def test_what_a_model_wrote_can_be_exported(telemetry: Telemetry) -> None:
    """Half a character in a name would cost the exporter its whole batch."""
    sink = telemetry.sink()
    odd = repeat(tool="look\ud800" + "k" * 5_000, call_id="\udfff", arguments=("\ud800",))
    with telemetry.tracer.start_as_current_span("invoke_agent"):
        put_all(sink, odd, FollowUp(event=odd, did="ended"), record(run_id="\ud800"))
    for span in telemetry.spans:
        span.to_json().encode()
        assert 3 == len(span.events)
        assert all(
            len(str(value).encode()) < 2_000
            for event in span.events
            for value in (event.attributes or {}).values()
        )


def test_the_global_providers_are_the_default() -> None:
    """Where none is set up nothing is recorded and nothing fails."""
    put_all(
        OpenTelemetrySink(), repeat(), warning(), record(), FollowUp(event=repeat(), did="ended")
    )
    assert not trace.get_current_span().is_recording()


def test_without_the_extra_it_says_what_to_install() -> None:
    """The rest of the package does not need it."""
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import repeatguard_sdk.events\n"
        "try: import repeatguard_sdk.sinks.opentelemetry\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "install repeatguard-sdk[otel]" in done.stdout
