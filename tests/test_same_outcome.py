"""Rows of one tool's outcomes: errors alike, results that found nothing, failures of any kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatguard_sdk import Policy, Registry, Run, guarded_tool, spec_of
from repeatguard_sdk.detectors.same_outcome import found_nothing
from repeatguard_sdk.testing import PlayedCall, play


def asks(
    *outcomes: Any, turn: Any = None, tool: str = "look", first: int = 0
) -> list[dict[str, Any]]:
    """Steps that call one tool, each time with other arguments; text after "!" is an error."""
    steps: list[dict[str, Any]] = []
    for number, outcome in enumerate(outcomes, first):
        step: dict[str, Any] = {"tool": tool, "args": {"n": number}}
        if isinstance(outcome, str) and outcome.startswith("!"):
            step["error"] = outcome[1:]
        else:
            step["result"] = outcome
        if turn is not None:
            step["turn"] = turn
        steps.append(step)
    return steps


def notes(played: list[PlayedCall]) -> list[int]:
    """Numbers of the calls with this finding."""
    return [number for number, call in enumerate(played, 1) if call.finding == "same_outcome"]


def walk(*outcomes: Any, policy: Policy | None = None, **declared: Any) -> list[int]:
    """Play one tool's outcomes, each call with other arguments, and return which were noted."""
    return notes(play({"tools": {"look": declared}, "steps": asks(*outcomes)}, policy))


# -- thresholds ------------------------------------------------------------------------------------


def test_three_errors_alike_are_noted() -> None:
    """The third equal error of a tool is noted, whatever the arguments, and the row only once."""
    assert walk("!no such table", "!no such table") == []
    assert walk(*["!no such table"] * 8) == [3]


def test_three_empty_results_are_noted() -> None:
    """The third result in a row that found nothing is noted, and the row only once."""
    assert walk([], []) == []
    assert walk(*[[]] * 8) == [3]
    assert walk("no results", [], "[]") == [3]


def test_four_failures_of_any_kind_are_noted() -> None:
    """Four failures in a row are noted although no three are alike."""
    assert walk("!a", "!b", "!c") == []
    assert walk("!a", "!b", "!c", "!d", "!e") == [4]


def test_two_errors_alike_twice_are_four_failures() -> None:
    """Errors alike count in a row: two and two are none, but four failures."""
    assert walk("!a", "!a", "!b", "!b") == [4]


def test_row_is_note_only() -> None:
    """However long the row, no call is withheld and the run does not end."""
    played = play({"tools": {"look": {}}, "steps": asks(*["!down"] * 30)})
    assert all(call.executed and call.decision == "execute" for call in played)


@pytest.mark.parametrize("between", ["found it", 0, {"rows": [1]}])
def test_result_that_says_something_ends_a_row(between: Any) -> None:
    """Two, a find, and two are no row of four."""
    assert walk("!a", "!a", between, "!a", "!a") == []
    assert walk([], [], between, [], []) == []
    assert walk("!a", "!b", "!c", between, "!d") == []


def test_rows_of_failures_and_empties_end_each_other() -> None:
    """A failure is no empty result, and an empty result no failure."""
    assert walk([], [], "!a", []) == []
    assert walk("!a", "!a", [], "!a") == []


def test_new_row_is_noted_again() -> None:
    """After a find the next row of three is a row of its own."""
    assert walk([], [], [], "found", [], [], []) == [3, 7]


def test_rows_belong_to_one_tool() -> None:
    """Two tools that fail alike are two rows; calls between of another tool end none."""
    steps = [*asks("!a", "!a"), *asks("!a", "!a", tool="other"), *asks("!a", first=7)]
    assert notes(play({"tools": {"look": {}, "other": {}}, "steps": steps})) == [5]


def test_transient_failures_are_no_part_of_a_row() -> None:
    """Time-outs neither make a row nor end one."""
    assert walk(*["!timed out"] * 6) == []
    assert walk("!a", "!a", "!timed out", "!a") == [4]


@pytest.mark.parametrize("event", ["user_message"])
def test_user_message_ends_a_row(event: str) -> None:
    """The user's word clears the streaks."""
    steps = [*asks([], []), {"event": event}, *asks([], [], first=5)]
    assert notes(play({"tools": {"look": {}}, "steps": steps})) == []


@pytest.mark.parametrize("event", ["progress", "compaction", "auto_continue"])
def test_other_events_end_no_row(event: str) -> None:
    """An epoch clears counts, not rows: nothing was found before and after it."""
    steps = [*asks([], []), {"event": event}, *asks([], first=5)]
    assert notes(play({"tools": {"look": {}}, "steps": steps})) == [3]


def test_withheld_calls_neither_make_nor_end_a_row() -> None:
    """The guard's own refusals and replays are no results."""
    empty = asks([], [])
    again = [empty[0], *asks([], first=9)]
    assert notes(play({"tools": {"look": {}}, "steps": [*empty, *again]})) == [4]


def test_call_that_reached_no_tool_ends_no_row_of_empties() -> None:
    """A refused call is no result: the third empty result is noted although one lies between."""
    refused = {"tool": "look", "args": {"n": 77}, "refused": "denied"}
    steps = [*asks([], []), refused, *asks([], first=5)]
    assert notes(play({"tools": {"look": {}}, "steps": steps})) == [4]


def test_results_of_one_turn_count_once() -> None:
    """A batch asked before any answer was seen is one outcome, not three."""
    batch = asks([], [], [], turn="one")
    assert notes(play({"tools": {"look": {}}, "steps": batch})) == []
    later = [*batch, *asks([], first=5), *asks([], first=6)]
    assert notes(play({"tools": {"look": {}}, "steps": later})) == [5]
    failing = [*asks("!a", "!a", "!a", turn="one"), *asks("!a", "!a", first=5)]
    assert notes(play({"tools": {"look": {}}, "steps": failing})) == [5]


def test_rows_count_calls_where_turns_are_marked_late() -> None:
    """Calls before the first turn mark are turns of their own, and none of them is turn one."""
    registry = Registry()

    @guarded_tool(registry=registry)
    def look(n: int) -> list[int]:
        return []

    with Run(registry=registry) as run:
        look(1)
        run.turn()
        look(2)
        run.turn()
        look(3)
        assert run.last_decision.finding is not None


def test_graver_finding_speaks_first() -> None:
    """A repeat that also completes a row is told as the repeat."""
    step = asks("!a")[0]
    played = play({"tools": {"look": {}}, "steps": [*asks("!a", first=5), step, step]})
    assert [call.finding for call in played] == [None, None, "repeat"]


@pytest.mark.parametrize("effect", ["read", "ask", "unknown"])
def test_empties_count_for_tools_that_look_for_something(effect: str) -> None:
    """Reads, questions and unknown tools can find nothing."""
    assert walk("", [], [], effect=effect) == [3]


@pytest.mark.parametrize("effect", ["write", "live", "final", "bookkeeping"])
def test_empties_do_not_count_for_tools_that_do_something(effect: str) -> None:
    """A write that returns nothing has done its work, and a poll may find nothing for long."""
    assert walk(*[[]] * 8, effect=effect) == []


@pytest.mark.parametrize("effect", ["read", "write", "live", "ask", "final", "unknown"])
def test_failures_count_whatever_the_effect(effect: str) -> None:
    """Errors alike are noted of every tool that acts."""
    assert walk("!a", "!a", "!a", effect=effect) == [3]


def test_bookkeeping_and_repeatable_tools_have_no_rows() -> None:
    """Bookkeeping counts for nothing else, and repeatable is never noted."""
    assert walk(*["!a"] * 5, effect="bookkeeping") == []
    assert walk(*["!a"] * 5, repeatable=True) == []
    assert walk(*[[]] * 5, repeatable=True) == []


@pytest.mark.parametrize("blank", [None, "", " \n"])
def test_tool_that_never_said_anything_gets_twice_the_patience(blank: Any) -> None:
    """Six blank results are a row, until the tool has once said something: then three."""
    assert walk(*[blank] * 9) == [6]
    assert walk("a thought", *[blank] * 9) == [4]
    assert walk([], *[blank] * 9) == [3]


@pytest.mark.parametrize(
    ("policy", "outcomes", "noted"),
    [
        (Policy(same_errors=2), ["!a"] * 3, [2]),
        (Policy(same_errors=5, failures=None), ["!a"] * 6, [5]),
        (Policy(same_errors=None, failures=None), ["!a"] * 9, []),
        (Policy(same_errors=None), ["!a"] * 5, [4]),
        (Policy(same_empties=2), [[]] * 3, [2]),
        (Policy(same_empties=None), [[]] * 9, []),
        (Policy(failures=2), ["!a", "!b", "!c"], [2]),
        (Policy(failures=None), ["!a", "!b", "!c", "!d", "!e"], []),
    ],
)
def test_thresholds_are_the_policys(policy: Policy, outcomes: list[Any], noted: list[int]) -> None:
    """Each row's length can be set, and each row turned off."""
    assert walk(*outcomes, policy=policy) == noted


def test_text_says_what_there_was_a_row_of() -> None:
    """The observation names the tool and the number, and tells errors from empty results."""
    failed = play({"tools": {"look": {}}, "steps": asks(*["!no such table"] * 3)})[-1]
    assert "look failed 3 times in a row, whatever the arguments" in failed.observation
    assert "no such table" in failed.observation
    found = play({"tools": {"look": {}}, "steps": asks(*[[]] * 3)})[-1]
    assert "look found nothing 3 times in a row" in found.observation
    mixed = play({"tools": {"look": {}}, "steps": asks("!a", "!b", "!c", "!d")})[-1]
    assert "look failed 4 times in a row" in mixed.observation


@pytest.mark.parametrize(("mode", "text"), [("advise", True), ("observe", False)])
def test_softer_modes_find_the_same_rows(mode: Any, text: bool) -> None:
    """In advise the row is told, in observe it is an event only."""
    played = play({"tools": {"look": {}}, "steps": asks(*[[]] * 4), "mode": mode})
    assert notes(played) == [3]
    assert (played[2].observation is not None) is text


# -- what is empty ---------------------------------------------------------------------------------


@guarded_tool(registry=Registry())
def plain() -> None:
    """Look for something."""


EMPTY = [
    None, "", "   ", "\n\t", [], (), {}, set(), frozenset(), "[]", " [] ", "{}", "null", "[ ]",
    {"items": []}, {"total": 0, "items": []}, {"rows": [], "next": None}, '{"items": []}',
    '{"total": 0, "results": [], "query": "x"}', "no results", "No results.", "No results found.",
    "no matches", "No matching records", "no records found", "0 results", "0 matches found",
    "zero hits", "No items found", "no data", "No data available.", "no documents match",
    "nothing found", "Nothing was found.", "None found", "none", "not found", "Not found.",
    "empty", "empty list", "(empty result)", "N/A", "no entries",
    "**No results**", "- no files", "No orders found for this user",
]  # fmt: skip
NEAR_MISSES = [
    0, False, 0.0, True, " . x", "0", "false", "ok", "OK", "done", [[]], [None], [0], ("",), {"a": 1},
    {"total": 0}, {"items": [1]}, {"items": [], "total": 3, "other": [1]}, {"found": False},
    {"items": {}}, {"error": "not found", "code": 404}, '{"items": [1]}', '{"total": 0}', "[0]",
    '{"items": [], "total": 3, "other": [1]}', "[1, 2", "{not json}",
    "No problem, done", "No problem", "0 errors", "0 errors, 0 warnings", "No errors.", "no",
    "no change", "No changes were needed", "No issues: everything passed", "0 of 12 tests failed",
    "none of these apply: see below for the list of what does", "None of the above, but see A-77",
    "nothing else to do: order A-77 is placed", "Nothing was changed, the value is 7",
    "not found in cache, fetched from disk: 42", "Not found: did you mean get_order?",
    "notification sent", "number 7", "nominal", "nobody is on call before Monday", "Noted.",
    "zero", "Zero-day patched", "zeroed the counter", "emptied the trash", "Empty the cart first",
    "nullable", "null and void: contract 7", "n/a until Monday", "No. 7 Baker Street", "No 7",
    "0.5", "0 days left", "0 EUR", "Nothing but good news: it shipped", "no-reply@example.com",
    "north", "NaN", "0x1f", "no refund possible", "No refund is due; the fee of 5 EUR stands",
    "no: the shop is closed", "No, order A-77 is not shipped yet", "non-empty list",
]  # fmt: skip
# They begin as a row of nothing does, and say that all is well or give what was asked for.
GOOD_NEWS = [
    "0 files changed, 3 insertions(+)", "No data was lost; backup 7 is complete",
    "No user action needed, the order is placed", "No orders are blocked; A-77 was shipped",
    "0 events dropped, 120 delivered", "No records were skipped, 12 imported",
    "No answer needed, thank you", "No items left to pack: shipment A-77 is ready",
    "No output files were overwritten. Wrote 3.", "No file conflicts: merged as 4f2a",
]  # fmt: skip


@pytest.mark.parametrize("result", EMPTY, ids=repr)
def test_results_that_found_nothing(result: Any) -> None:
    """None, blank, empty containers and JSON of them, an object with an empty list, "no results"."""
    assert found_nothing(result, spec_of(plain))


@pytest.mark.parametrize("result", NEAR_MISSES, ids=repr)
def test_results_that_only_look_like_nothing(result: Any) -> None:
    """What says anything else is a result: a zero, a no, a word that begins alike."""
    assert not found_nothing(result, spec_of(plain))


@pytest.mark.parametrize("result", GOOD_NEWS)
def test_good_news_that_begins_with_no(result: str) -> None:
    """A sentence that goes on to say what was done did find something."""
    assert not found_nothing(result, spec_of(plain))


def test_long_text_says_more_than_nothing() -> None:
    """A page that begins with "no results" is not a short "no results"."""
    assert not found_nothing("No results in the index. " + "See the archive. " * 30, spec_of(plain))


@given(st.recursive(st.just(None), lambda inner: st.lists(inner, max_size=3), max_leaves=5))
def test_json_text_of_a_value_is_as_empty_as_the_value(value: Any) -> None:
    """A tool that returns JSON text is treated as one that returns the value."""
    assert found_nothing(json.dumps(value), spec_of(plain)) == found_nothing(value, spec_of(plain))


@given(st.text(alphabet='[] \t\n\r\u00a0\u3000,1a"', max_size=8))
def test_a_list_is_as_empty_as_json_says(text: str) -> None:
    """A text that begins as a list found nothing where JSON reads an empty one, and nowhere else."""
    try:
        nothing = json.loads(f"[{text}".strip()) == []
    except ValueError:
        nothing = False
    assert nothing == found_nothing(f"[{text}", spec_of(plain))


@given(st.integers() | st.floats() | st.booleans())
def test_numbers_are_never_empty(value: Any) -> None:
    """Zero is an answer."""
    assert not found_nothing(value, spec_of(plain))


@given(st.text(max_size=400) | st.binary(max_size=9) | st.dictionaries(st.text(), st.text()))
def test_no_result_breaks_the_question(value: Any) -> None:
    """Whatever a tool returns, the answer is yes or no."""
    assert found_nothing(value, spec_of(plain)) in (True, False)


def test_deep_json_breaks_nothing() -> None:
    """JSON text too deep to parse is no error, and no empty result."""
    assert not found_nothing("[" * 300, spec_of(plain))


# -- empty= ----------------------------------------------------------------------------------------


def test_empty_value_replaces_the_usual_list() -> None:
    """With a value declared, that value is empty and nothing else is."""
    assert walk(-1, -1, -1, empty=-1) == [3]
    assert walk(*[[]] * 5, empty=-1) == []
    assert walk(*["no results"] * 5, empty="gone") == []


def test_empty_none_is_a_value_too() -> None:
    """`empty=None` says that None alone found nothing."""
    assert walk(*[[]] * 8, empty=None) == []
    assert walk("a word", None, None, None, empty=None) == [4]


def test_empty_predicate_decides_alone() -> None:
    """A predicate is asked about each result."""

    def rule(result: dict[str, Any]) -> bool:
        return result["score"] < 0.2

    assert walk(*[{"score": 0.1, "hits": [1]}] * 3, empty=rule) == [3]
    assert walk(*[{"score": 0.9, "hits": []}] * 5, empty=rule) == []


def test_empty_predicate_may_answer_anything_that_is_true() -> None:
    """What it returns is taken for its truth."""
    assert walk("x", "x", "x", empty=lambda result: "yes") == [3]
    assert walk("", "", "", empty=lambda result: 0) == []


def test_empty_predicate_that_raises_breaks_nothing() -> None:
    """A result the predicate cannot judge counts as one that found something."""
    tools = {"look": {"empty": lambda result: result["rows"] == 0}}
    played = play({"tools": tools, "steps": asks(*["x"] * 5)})
    assert notes(played) == []
    assert [call.returned for call in played] == ["x"] * 5


def test_empty_value_that_cannot_be_compared_breaks_nothing() -> None:
    """A result whose comparison raises counts as one that found something."""

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("not comparable")

        __hash__ = None  # type: ignore[assignment]

    registry = Registry()

    @guarded_tool(empty=-1, registry=registry)
    def look(n: int) -> Any:
        return Odd()

    with Run(registry=registry) as run:
        for number in range(5):
            look(number)
            assert run.last_decision.finding is None


def test_falsy_empty_values_are_not_mistaken_for_each_other() -> None:
    """`empty=0` means zero; an empty text is something else."""
    assert walk(0, 0, 0, empty=0) == [3]
    assert walk("", "", "", empty=0) == []
