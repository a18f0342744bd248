"""What holds for every reader: what is written is read back, and nothing ends the reading."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.told import runs_in
from audit.writers import OF_MESSAGES, WRITERS, Steps, answer
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._recorded import Fault, RecordedCall, RecordedRun
from repeatguard_sdk.audit.readers import READERS, detect, read, reader_named
from repeatguard_sdk.audit.readers._errors import reads_as_error
from strategies import json_values, texts

names = st.sampled_from(["look_up", "pay", "list"])
objects = st.dictionaries(texts, json_values(st.integers() | texts | st.none()), max_size=3)
answers = texts.filter(lambda text: not reads_as_error(text))


@st.composite
def runs(draw: st.DrawFn) -> Steps:
    """Runs of some turns of some calls, with a person's messages between turns."""
    steps: Steps = ["user_message"]
    ids = itertools.count()
    for turn in range(1, draw(st.integers(1, 4)) + 1):
        for _ in range(draw(st.integers(1, 3))):
            error = draw(st.none() | st.just("Error: boom"))
            result = MISSING if error else draw(answers)
            call_id = f"call_{next(ids)}"
            arguments = draw(objects)
            steps.append(RecordedCall(draw(names), arguments, result, error, turn, call_id))
        if draw(st.booleans()):
            steps.append("user_message")
    return steps


def told(steps: Steps, name: str) -> Steps:
    """Return what a format can tell of a run."""
    last = max(place for place, step in enumerate(steps) if isinstance(step, RecordedCall))
    if name == "lines":
        # It has no ids, and nothing after the last call.
        return [
            step._replace(call_id=None) if isinstance(step, RecordedCall) else step
            for step in steps[: last + 1]
        ]
    return steps


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=30)
@given(steps=runs())
def test_what_is_written_is_read_back(name: str, steps: Steps) -> None:
    """A run written in a format and read from it has the same calls, turns and happenings."""
    written = WRITERS[name](steps)
    documents = [written] if name in OF_MESSAGES else written
    (run,) = runs_in(documents, name)
    assert told(steps, name) == run.steps
    assert name == getattr(detect(documents), "name", None)


@pytest.mark.parametrize("name", OF_MESSAGES)
@settings(max_examples=30)
@given(steps=runs(), data=st.data())
def test_a_log_of_histories_is_the_last_of_them(
    name: str, steps: Steps, data: st.DataObject
) -> None:
    """Histories that grow, with gaps and repetitions, are read as the longest alone."""
    written = WRITERS[name](steps)
    ends = [*data.draw(st.lists(st.integers(1, len(written)), max_size=5)), len(written)]
    wrap = "input" if name == "openai-responses" else "messages"
    (run,) = runs_in([{wrap: written[:end]} for end in ends], name)
    assert steps == run.steps


@pytest.mark.parametrize("name", OF_MESSAGES)
@settings(max_examples=30)
@given(steps=runs())
def test_messages_one_a_line_are_the_same_run(name: str, steps: Steps) -> None:
    """A run written a message a line is the run that its messages are in one document."""
    assert steps == runs_in(WRITERS[name](steps), name)[0].steps


@settings(max_examples=30)
@given(steps=runs(), data=st.data())
def test_spans_in_any_order_are_the_same_run(steps: Steps, data: st.DataObject) -> None:
    """However the spans of a trace are mixed up, the run is the same."""
    (run,) = runs_in(data.draw(st.permutations(WRITERS["otel"](steps))), "otel")
    assert steps == run.steps


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=30)
@given(steps=runs())
def test_a_document_is_recognised_by_one_reader(name: str, steps: Steps) -> None:
    """What one format writes no other reader recognises, be it a whole run or one message."""
    documents = WRITERS[name](steps)
    whole = [documents] if name in OF_MESSAGES else documents
    assert all([name] == recognising(document) for document in whole)
    for document in documents:
        # One message without a call could be of any provider with roles.
        assert recognising(document) in ([name], ["openai-chat"])


def recognising(document: Any) -> list[str]:
    return [reader.name for reader in READERS.values() if reader.recognises(document)]


# -- nothing ends the reading ----------------------------------------------------------------------

# The words that readers look for, so that random documents get past the first look.
WORDS = st.sampled_from(
    """
    role content type messages input output tool_calls function name arguments id call_id
    tool_call_id text user assistant tool tool_use tool_result tool_use_id is_error lc kwargs
    human ai data inputs outputs generations message request response body choices
    function_call function_call_output mcp_call error resourceSpans scopeSpans spans traceId
    spanId attributes key value stringValue arrayValue values events status code parts calls
    gen_ai.tool.name gen_ai.input.messages gen_ai.conversation.id execute_tool run_id args result
    result_sha effect turn user_messages before_call reward steps tools event run user_message
    refused sessionId payload response_item additional_kwargs invalid_tool_calls custom system
    previous_response_id conversation queries
    """.split()  # noqa: SIM905
)
scalars = WORDS | texts | st.none() | st.booleans() | st.integers(-2, 2) | st.floats()
exotic = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | texts, inner, max_size=6),
    max_leaves=30,
)


def shaped(name: str) -> st.SearchStrategy[Any]:
    """Documents of a format in which something was replaced by anything."""

    @st.composite
    def damaged(draw: st.DrawFn) -> Any:
        documents = json.loads(json.dumps(WRITERS[name](draw(runs()))))
        document = documents if name in OF_MESSAGES else draw(st.sampled_from(documents))
        place = document
        while True:
            if not isinstance(place, (dict, list)) or not place:
                return document
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = draw(st.sampled_from(list(keys)))
            if not isinstance(place[key], (dict, list)) or draw(st.integers(0, 3)) == 0:
                place[key] = draw(exotic)
                return document
            place = place[key]

    return damaged()


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=30)
@given(data=st.data())
def test_no_document_ends_the_reading(name: str, data: st.DataObject) -> None:
    """Whatever a document holds, it gives runs or faults, and the next document is read."""
    documents = data.draw(st.lists(exotic | shaped(name), max_size=5))
    found = list(READERS[name].read(enumerate(documents, start=1), "log"))
    for each in found:
        assert isinstance(each, (RecordedRun, Fault))
    for run in found:
        if isinstance(run, RecordedRun):
            for step in run.steps:
                if isinstance(step, RecordedCall):
                    assert isinstance(step.tool, str)
                    assert isinstance(step.arguments, (dict, str))
                    assert step.error is None or isinstance(step.error, str)
                    assert answer(step) is not None or step.result is None


@given(exotic)
def test_whatever_is_looked_at_is_recognised_or_not(document: Any) -> None:
    """Looking for the format of a document never fails."""
    assert detect([document]) in (None, *READERS.values())


# -- the table of readers --------------------------------------------------------------------------


def test_an_unknown_format_is_an_error_that_names_the_known() -> None:
    """A word that is no format is answered with those that are."""
    with pytest.raises(
        ValueError, match=r"no format 'xml'; write one of anthropic, langchain, lines"
    ):
        reader_named("xml")
    assert all(name == reader_named(name).name for name in READERS)


def test_only_runs_a_line_may_be_cut_between_lines() -> None:
    """Files in which each line is a run may be read in ranges; of others, lines belong together."""
    assert ["lines"] == [name for name, reader in READERS.items() if reader.one_line_one_run]


def test_most_documents_decide() -> None:
    """A document of another kind, or of none, among the first does not matter."""
    step = {"tool": "f", "args": {}, "result": 1}
    line = {"run_id": "r", "calls": []}
    assert "steps" == getattr(detect([{"level": "info"}, step, line, step]), "name", None)
    assert detect([{"level": "info"}, [], 7, None]) is None


def test_messages_without_calls_give_way() -> None:
    """Messages that could be of any provider are read as those of the others."""
    plain = {"messages": [{"role": "user", "content": "Where is it?"}]}
    use = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    other = {"messages": [*plain["messages"], {"role": "assistant", "content": [use]}]}
    assert "anthropic" == getattr(detect([plain, plain, plain, other]), "name", None)
    assert "openai-chat" == getattr(detect([plain]), "name", None)


def test_faults_of_a_file_stand_among_its_runs() -> None:
    """What could not be read of a file is told where it was met, and at the end at the latest."""
    one, two = Fault("log", 1, "broken"), Fault("log", 3, "broken")
    line = {"run_id": "r", "calls": []}
    found = list(read(READERS["lines"], [one, (2, line), two], "log"))
    assert [one, RecordedRun("r", [], 2), two] == found
