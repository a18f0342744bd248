"""Epochs: what starts a count afresh, what carries it on, and what changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from repeatguard_sdk.testing import PlayedCall, play

TOOLS: dict[str, dict[str, Any]] = {
    "read": {},
    "other": {},
    "write": {"effect": "write"},
    "ask": {"effect": "ask"},
    "slot": {"effect": "ask", "slot": "q"},
    "live": {"effect": "live"},
    "shell": {"effect": "unknown"},
    "done": {"effect": "final"},
    "plan": {"effect": "bookkeeping"},
    "toggle": {"effect": "write", "repeatable": True},
    "page": {"repeatable": True},
}


def steps(script: str) -> list[dict[str, Any]]:
    """Read a script: `tool(argument)=result`, `tool(argument)!error`, `*event`, parted by blanks."""
    found: list[dict[str, Any]] = []
    for word in script.split():
        if word.startswith("*"):
            found.append({"event": word[1:]})
            continue
        call, _, error = word.partition("!")
        call, _, result = call.partition("=")
        tool, _, argument = call.partition("(")
        step: dict[str, Any] = {"tool": tool, "args": {"q": argument.rstrip(")")}}
        step |= {"error": error} if error else {"result": result or "ok"}
        found.append(step)
    return found


def walk(script: str, **options: Any) -> list[PlayedCall]:
    """Play a script."""
    return play({"tools": TOOLS, "steps": steps(script), **options})


def decisions(script: str) -> list[str]:
    """What was decided of each call, a star where it was noted."""
    return [call.decision + "*" * (call.observation is not None) for call in walk(script)]


def last(script: str) -> PlayedCall:
    """What became of the newest call."""
    return walk(script)[-1]


AFRESH = {
    "a write": "write(w)",
    "another success of a repeatable write": "toggle(t)",
    "an answer of the user": "ask(colour)=blue",
    "an answer that fills a slot": "slot(colour)=blue",
    "a hand-off": "done(d)",
    "a new answer of an unknown tool": "shell(ls)=a.txt",
    "a new failure of an unknown tool": "shell(ls)!denied",
    "a time-out of a write": "write(w)!timeout",
    "a time-out of a hand-off": "done(d)!timeout",
    "a time-out of an unknown tool": "shell(ls)!timeout",
    "progress": "*progress",
    "a change from outside": "*external_change",
    "a message of the user": "*user_message",
}
UNMOVED = {
    "another read": "other(o)",
    "a read that failed": "other(o)!bad",
    "a write that failed": "write(w)!denied",
    "a hand-off that failed": "done(d)!denied",
    "a question without an answer": "ask(colour)!nobody",
    "a plan": "plan(p)=noted",
    "a page": "page(p)=1",
    "a time-out of a read": "other(o)!timeout",
    "machine-made text": "*auto_continue",
}


@pytest.mark.parametrize("between", AFRESH.values(), ids=AFRESH)
def test_read_runs_again_after_a_change(between: str) -> None:
    """A result is never served across a change, and the count starts afresh."""
    call = last(f"read(r)=1 {between} read(r)=2")
    assert (call.decision, call.executed, call.returned, call.finding) == (
        "execute",
        True,
        "2",
        None,
    )
    assert call.value.count == 1


@pytest.mark.parametrize("between", UNMOVED.values(), ids=UNMOVED)
def test_read_is_replayed_where_nothing_changed(between: str) -> None:
    """What changes nothing between two equal reads leaves the second a repeat."""
    call = last(f"read(r)=1 {between} read(r)=2")
    assert (call.decision, call.executed, call.returned) == ("replay", False, "1")
    assert call.observation is not None
    assert call.value.count == 2


@pytest.mark.parametrize("between", AFRESH.values(), ids=AFRESH)
def test_equal_failure_counts_afresh_after_a_change(between: str) -> None:
    """The same failure in a changed world is a first failure."""
    assert last(f"read(r)!bad {between} read(r)!bad").value.count == 1


@pytest.mark.parametrize("between", AFRESH.values(), ids=AFRESH)
def test_count_of_a_live_tool_is_reset_by_a_change(between: str) -> None:
    """A poll whose answer stays the same through a change is not yet going in circles."""
    call = last(f"live(l)=7 live(l)=7 {between} live(l)=7")
    assert (call.value.count, call.finding) == (1, None)


@pytest.mark.parametrize("between", AFRESH.values(), ids=AFRESH)
def test_plan_counts_afresh_after_a_change(between: str) -> None:
    """Bookkeeping with a change between is no repeat."""
    assert last(f"plan(p) {between} plan(p)").value.count == 1


@pytest.mark.parametrize(
    "between",
    [word for word in UNMOVED.values() if not word.startswith("*") and not word.startswith("plan")],
)
def test_plan_counts_only_with_nothing_between(between: str) -> None:
    """Any other call between two equal plans ends their row."""
    assert last(f"plan(p) {between} plan(p)").value.count == 1


def test_plan_resets_nothing_else() -> None:
    """Bookkeeping neither counts nor resets: the read after it is still a repeat."""
    assert decisions("plan(p) plan(p) plan(p)") == ["execute", "execute*", "replay*"]
    assert decisions("read(r) plan(p) read(r) plan(s) read(r)")[2::2] == ["replay*", "exit"]


def test_refused_call_opens_no_epoch() -> None:
    """A call that reached no tool changed nothing, whatever its name and reason."""
    script = steps("read(r)=1")
    refused = [
        {"tool": "shell", "args": {"q": n}, "refused": "denied", "error": f"no {n}"} for n in "ab"
    ]
    for between in ([refused[0]], refused):
        played = play({"tools": TOOLS, "steps": [*script, *between, *steps("read(r)=2")]})
        assert played[-1].decision == "replay"


# -- writes ----------------------------------------------------------------------------------------


def test_write_is_never_run_twice_in_one_epoch() -> None:
    """Reads between change nothing: the second equal write gets the first receipt."""
    call = last("write(a)=r1 read(r) write(a)=r2")
    assert (call.decision, call.returned) == ("replay", "r1")


def test_set_and_set_back_executes() -> None:
    """A, B, A: the second A is a change again, and so on until a cycle is seen."""
    assert decisions("write(a) write(b) write(a)") == ["execute"] * 3
    assert decisions("write(a) write(b) write(a) write(b)") == ["execute"] * 3 + ["execute*"]


def test_write_that_failed_did_nothing() -> None:
    """It opens no epoch, and may be tried again: its failure climbs the ladder of failures."""
    assert decisions("write(a)!bad write(a)!bad write(a) write(a)") == [
        "execute", "execute*", "refuse*", "exit",
    ]  # fmt: skip
    assert decisions("write(a)!bad write(a)=ok write(a)") == ["execute", "execute", "replay*"]


@pytest.mark.parametrize("times", [1, 2, 3, 4])
@pytest.mark.parametrize("tool", ["write", "done"])
def test_time_out_of_a_write_may_have_changed_something(tool: str, times: int) -> None:
    """However often a write times out, a read after it is no repeat of one before it."""
    script = f"{tool}(w)!timeout " * (times - 1)
    call = last(f"{script} read(r)=1 {tool}(w)!timeout read(r)=2")
    assert (call.decision, call.returned) == ("execute", "2")


def test_hand_off_in_a_changed_world_is_another() -> None:
    """A final call counts as a write does: after a write it is a first one."""
    assert decisions("done(d) done(d)") == ["execute", "replay*"]
    assert decisions("done(d) write(w) done(d)") == ["execute"] * 3


# -- questions -------------------------------------------------------------------------------------


def test_answer_is_new_material() -> None:
    """An answer opens an epoch as a write does, its own question is in it."""
    assert decisions("read(r) ask(q) read(r)") == ["execute"] * 3
    assert decisions("ask(q) ask(q) ask(q)") == ["execute", "replay*", "exit"]


@pytest.mark.parametrize("nothing", ["none", "n/a"])
def test_empty_answer_is_no_new_material(nothing: str) -> None:
    """A question that brought nothing changes nothing."""
    assert decisions(f"read(r) ask(q)={nothing} read(r)")[2] == "replay*"


def test_filled_slot_stays_filled_whatever_the_epoch() -> None:
    """The user is not asked again after a write, after progress, in any spelling."""
    played = walk("slot(order_id)=A7 write(w) slot(Order-ID)=B8")
    assert [call.executed for call in played] == [True, True, False]
    assert (played[2].returned, played[2].finding) == ("A7", "asked_again")
    assert decisions("slot(x)=A7 write(w) slot(x) *progress slot(x)")[2:] == ["replay*", "exit"]


def test_filled_slot_outlives_a_user_message() -> None:
    """A message clears counts, not facts: the user is not asked again, and the count is afresh."""
    call = last("slot(x)=A7 slot(x) *user_message slot(x)")
    assert (call.decision, call.returned, call.value.count) == ("replay", "A7", 1)


def test_question_for_a_slot_that_failed_counts_as_a_failure_does() -> None:
    """Only a filled slot outlasts the epoch: a failed question in a changed world is a first one."""
    assert last("slot(x)!nobody *progress slot(x)!nobody").value.count == 1


def test_filled_slot_asked_twice_in_one_turn_is_one_question() -> None:
    """Two equal calls of a turn are one call, in a later epoch too: the run does not end of it."""
    script = steps("slot(x)=A7 write(w) slot(x) slot(x)")
    for step in script[2:]:
        step["turn"] = "one"
    played = play({"tools": TOOLS, "steps": script})
    assert [call.decision for call in played] == ["execute", "execute", "replay", "join"]


# -- unknown tools ---------------------------------------------------------------------------------


def test_unknown_answer_opens_an_epoch_only_when_new_or_changed() -> None:
    """The same answer again shows that nothing changed."""
    assert decisions("read(r) shell(ls)=a read(r) shell(ls)=a read(r)") == [
        "execute", "execute", "execute", "execute*", "replay*",
    ]  # fmt: skip
    assert decisions("shell(ls)=a read(r) shell(ls)=b read(r)")[3] == "execute"
    assert decisions("shell(ls)!x read(r) shell(ls)!x read(r)")[3] == "replay*"
    assert decisions("shell(ls)!x read(r) shell(ls)!y read(r)")[3] == "execute"
    assert decisions("shell(ls)=a read(r) shell(ls)!a read(r)")[3] == "execute"


def test_old_answer_in_a_new_epoch_is_not_new() -> None:
    """What the tool had answered before the change, it may answer again without changing anything."""
    assert decisions("shell(ls)=a write(w) read(r) shell(ls)=a read(r)")[3:] == [
        "execute",
        "replay*",
    ]


def test_noted_key_keeps_its_count_while_only_unknown_calls_lie_between() -> None:
    """A loop through a shell does not escape: each execution with an equal result counts on."""
    script = "shell(ls)=a shell(ls)=a" + "".join(
        f" shell(echo-{n})={n} shell(ls)=a" for n in range(4)
    )
    played = [call for call in walk(script) if call.value is not None]
    again = played[3::2]
    assert [call.value.count for call in again] == [3, 4, 5]
    assert [call.decision for call in again] == ["execute", "execute", "exit"]
    assert all(call.executed and call.finding == "repeat" for call in again)
    assert all(call.observation for call in again[:2])


def test_noted_read_keeps_its_count_too() -> None:
    """It executes, for the shell may have changed anything; equal again, the run ends after it."""
    played = walk("read(r)=1 read(r) shell(ls)=a read(r)=1")
    assert (played[3].decision, played[3].executed, played[3].value.count) == ("exit", True, 3)


def test_key_that_was_not_noted_starts_afresh() -> None:
    """One call before the unknown one is no loop."""
    assert last("shell(ls)=a shell(echo)=b shell(ls)=a").value.count == 1
    assert last("read(r)=1 shell(ls)=a read(r)=1").value.count == 1


@pytest.mark.parametrize("between", ["write(w)", "ask(q)=blue", "*progress", "*user_message"])
def test_declared_change_ends_a_carried_count(between: str) -> None:
    """A write, an answer, progress or the user's word starts a noted key afresh."""
    script = f"shell(ls)=a shell(ls)=a shell(x)=1 {between} shell(ls)=a"
    assert last(script).value.count == 1


def test_changed_result_ends_a_carried_count() -> None:
    """The shell did change something: another result is a first one."""
    played = walk("shell(ls)=a shell(ls)=a shell(rm)=1 shell(ls)=b shell(ls)=b")
    assert [call.value.count for call in played[3:]] == [1, 2]


def test_noted_failure_is_carried_on_the_ladder_of_failures() -> None:
    """It runs each time, is noted, and the fourth that fails alike ends the run after it ran."""
    script = "read(r)!bad read(r)!bad shell(1)=1 read(r)!bad shell(2)=2 read(r)!bad"
    played = walk(script)
    assert [(played[n].decision, played[n].executed) for n in (3, 5)] == [
        ("execute", True), ("exit", True),
    ]  # fmt: skip


def test_write_that_keeps_failing_is_carried_too() -> None:
    """A failed write is no declared change: only unknown calls lie between."""
    assert last("write(w)!bad write(w)!bad shell(1)=1 write(w)!bad").value.count == 3


def test_write_that_succeeds_is_itself_the_change() -> None:
    """A noted write runs in the epoch an unknown answer opened, and counts afresh."""
    call = last("write(w) write(w) shell(1)=1 write(w)")
    assert (call.decision, call.executed, call.value.count) == ("execute", True, 1)


def test_noted_refused_call_keeps_its_count_too() -> None:
    """A call that never reaches its tool does not escape through a shell either."""
    refused = {"tool": "ghost", "args": {"q": "x"}, "refused": "unknown", "error": "no such tool"}
    script = [refused, refused, *steps("shell(1)=1"), refused, *steps("shell(2)=2"), refused]
    played = play({"tools": {**TOOLS, "ghost": {"effect": "unknown"}}, "steps": script})
    assert [played[n].value.count for n in (0, 1, 3, 5)] == [1, 2, 3, 4]
    assert played[5].decision == "exit"


# -- suspects --------------------------------------------------------------------------------------


def test_suspect_runs_and_an_equal_result_convicts() -> None:
    """Another spelling executes; the same result makes it a repeat of the first, with an observation."""
    played = walk("read(Parcel)=1 read(parcel)=1 read(PARCEL)=1")
    assert [call.executed for call in played] == [True] * 3
    assert [call.value.count for call in played] == [1, 2, 3]
    assert played[1].observation is not None
    assert played[2].decision == "exit"


def test_suspect_with_another_result_is_a_call_of_its_own() -> None:
    """A path's case matters: each spelling has its own answer, and its own replay."""
    played = walk("read(Makefile)=1 read(makefile)=2 read(Makefile) read(makefile)")
    assert [call.decision for call in played] == ["execute", "execute", "replay", "replay"]
    assert [call.returned for call in played] == ["1", "2", "1", "2"]


@pytest.mark.parametrize("first", ["a", "A"])
@pytest.mark.parametrize("change", ["write(w)", "*progress", "ask(q)=blue", "shell(1)=1"])
def test_verdict_on_a_suspect_ends_with_its_epoch(first: str, change: str) -> None:
    """Equal in the old world, two spellings may differ in the new one: nothing of one is replayed."""
    second = "A" if first == "a" else "a"
    played = walk(f"read(a)=0 read(A)=0 {change} read({first})=1 read({second})=2")
    assert [call.returned for call in played[-2:]] == ["1", "2"]
    assert all(call.executed for call in played[-2:])


def test_suspect_question_is_convicted_by_an_equal_answer() -> None:
    """Asking the user in other words' case is asking again, although the answer opened an epoch."""
    call = last("ask(Which-colour)=blue ask(which-colour)=blue")
    assert (call.executed, call.value.count, call.finding) == (True, 2, "repeat")


@pytest.mark.parametrize("third", ["Colour", "colour"])
def test_convicted_question_is_not_put_to_the_user_again(third: str) -> None:
    """Its own answer opened the epoch the verdict belongs to: the third time ends the run unasked."""
    call = last(f"ask(Colour)=blue ask(colour)=blue ask({third})=blue")
    assert (call.decision, call.executed) == ("exit", False)


@pytest.mark.parametrize("tool", ["write", "shell", "live", "done", "plan"])
def test_only_reads_and_questions_are_suspected(tool: str) -> None:
    """Elsewhere another spelling is another call, whatever it gives."""
    assert last(f"{tool}(a)=1 {tool}(A)=1").value.count == 1


def test_suspect_is_convicted_in_every_epoch() -> None:
    """After a write the first spelling runs again, and the second one is suspected of it again."""
    assert last("read(a)=1 write(w) read(a)=1 read(A)=1").value.count == 2
    assert last("read(a)!bad read(a)=1 read(A)=1").value.count == 2


def test_suspect_is_not_convicted_across_a_change() -> None:
    """Equal results before and after a write prove nothing."""
    assert last("read(a)=1 write(w) read(A)=1").value.count == 1


def test_failing_suspect_is_not_convicted() -> None:
    """Two spellings that fail alike are two failures."""
    assert last("read(a)!bad read(A)!bad").value.count == 1


# -- the user and compaction -----------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["read", "write", "ask", "done", "shell", "live", "plan"])
def test_user_message_clears_every_count(tool: str) -> None:
    """The user may ask for exactly that retry."""
    call = last(f"{tool}(x)=1 {tool}(x)=1 *user_message {tool}(x)=1")
    assert (call.decision, call.executed, call.value.count) == ("execute", True, 1)


def test_user_message_clears_refusals_of_a_spent_budget() -> None:
    """The budget stays spent, but what the model did about it before the message is forgiven."""
    tools = {"look": {"max_calls": 1}}
    calls = [{"tool": "look", "args": {"n": n}, "result": n} for n in range(6)]
    script = [*calls[:4], {"event": "user_message"}, *calls[4:]]
    assert [call.decision for call in play({"tools": tools, "steps": script})] == [
        "execute", "refuse", "refuse", "refuse", "refuse", "refuse",
    ]  # fmt: skip


@pytest.mark.parametrize("tool", ["read", "write", "ask", "done"])
def test_compaction_delivers_each_result_once_more_without_penalty(tool: str) -> None:
    """The stored result comes without an observation and without a count; then the ladder goes on."""
    played = walk(f"{tool}(x)=1 *compaction {tool}(x) {tool}(x) {tool}(x)")
    assert [call.decision for call in played] == ["execute", "replay", "replay", "exit"]
    assert [call.observation is not None for call in played[:3]] == [False, False, True]
    assert [call.value.count for call in played] == [1, 0, 2, 3]
    assert played[1].returned == "1"


def test_compaction_spares_a_run_that_stood_before_its_exit() -> None:
    """The third equal call after a compaction is the model's first, as far as it knows."""
    assert decisions("read(x) read(x) *compaction read(x) read(x)") == [
        "execute", "replay*", "replay", "exit",
    ]  # fmt: skip


def test_each_compaction_gives_each_result_once_more() -> None:
    """Two compactions, two deliveries; one compaction, one for each of two calls."""
    assert decisions("read(x) *compaction read(x) *compaction read(x)") == [
        "execute", "replay", "replay",
    ]  # fmt: skip
    assert decisions("read(x) other(y) *compaction read(x) other(y)")[2:] == ["replay", "replay"]


def test_compaction_changes_no_world() -> None:
    """Nothing is run again because the model forgot."""
    assert all(not call.executed for call in walk("write(w) *compaction write(w)")[1:])


def test_result_got_after_the_compaction_is_not_delivered_free() -> None:
    """The model has it still."""
    assert decisions("read(x) *compaction write(w) read(x) read(x)")[2:] == ["execute", "replay*"]


def test_equal_calls_of_one_turn_share_the_free_delivery() -> None:
    """After a compaction two equal calls of a turn are one call, without penalty for the second."""
    script = steps("read(x)=1 *compaction read(x) read(x)")
    for step in script[2:]:
        step["turn"] = "one"
    played = play({"tools": TOOLS, "steps": script})
    assert [call.decision for call in played] == ["execute", "replay", "join"]
    assert played[2].observation is None


def test_fact_is_told_once_more_after_a_compaction() -> None:
    """The answer the user gave is a stored result as any other."""
    call = last("slot(x)=A7 *compaction slot(x)")
    assert (call.returned, call.observation, call.value.count) == ("A7", None, 0)


# -- turns -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["read", "write", "ask", "done", "shell", "plan"])
def test_equal_calls_of_one_turn_are_one_call(tool: str) -> None:
    """One execution, one count; the others get the same result."""
    script = steps(f"{tool}(x)=1 {tool}(x)=2 {tool}(x)=3")
    for step in script:
        step["turn"] = "one"
    played = play({"tools": TOOLS, "steps": script})
    assert [call.decision for call in played] == ["execute", "join", "join"]
    assert {call.returned for call in played} == {"1"}
    assert [call.value.count for call in played] == [1, 0, 0]


@pytest.mark.parametrize("tool", ["live", "page", "toggle"])
def test_live_and_repeatable_calls_of_one_turn_all_run(tool: str) -> None:
    """Polling twice in a turn is polling twice."""
    script = steps(f"{tool}(x)=1 {tool}(x)=2")
    for step in script:
        step["turn"] = "one"
    assert [call.returned for call in play({"tools": TOOLS, "steps": script})] == ["1", "2"]


def test_epoch_parts_a_turn() -> None:
    """Read, write, read in one turn: the second read is of another world."""
    script = steps("read(x)=1 write(w) read(x)=2")
    for step in script:
        step["turn"] = "one"
    played = play({"tools": TOOLS, "steps": script})
    assert [call.returned for call in played] == ["1", "ok", "2"]


def test_two_spellings_of_one_turn_are_one_count() -> None:
    """The suspect of the same turn runs, and its equal result adds no count."""
    script = steps("read(a)=1 read(A)=1 read(a)")
    script[0]["turn"] = script[1]["turn"] = "one"
    played = play({"tools": TOOLS, "steps": script})
    assert [call.observation is not None for call in played] == [False, False, True]
    assert played[2].value.count == 2


# -- texts -----------------------------------------------------------------------------------------


def test_observation_names_the_call_and_its_first_result() -> None:
    """The text says where the result stands, what it was, and that it will not change."""
    text = last("read(r)=shipped other(o) read(r)").observation
    assert 'read(q="r") was already answered at call 1: "shipped"' in text
    assert "will not change" in text


def test_observation_after_a_change_counts_from_there() -> None:
    """The call it refers to is the first of the present epoch, not of the run."""
    text = last("read(r)=1 write(w) read(r)=2 read(r)").observation
    assert "at call 3" in text
    assert '"2"' in text


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("write(w)=r7 write(w)", "was already done at call 1"),
        ("ask(q)=blue ask(q)", "The user was not asked again"),
        ("done(d)=ok done(d)", "was already handed over"),
        ("slot(x)=A7 write(w) slot(x)", 'x is already known from call 1: it is "A7"'),
        ("read(r)!bad read(r)!bad", "failed as it did at call 1"),
        ("read(r)!bad read(r)!bad read(r)", "was not run again; the error stays the same"),
        ("shell(ls)=a shell(ls)=a", "gave the same result as at call 1"),
        ("shell(ls)=a shell(ls)=a shell(ls)", "answered from store"),
        ("shell(ls)=a shell(ls)=a shell(x)=1 shell(ls)=a", "gave the same result as at call 1"),
        ("live(l)=7 live(l)=7 live(l)=7", "gave the same answer 3 times"),
        ("plan(p)=ok plan(p)=ok", "gave the same result as at call 1"),
    ],
)
def test_each_note_has_its_own_words(script: str, words: str) -> None:
    """Wherever the table has an observation there is a text, and it fits what happened."""
    assert words in last(script).observation


@pytest.mark.parametrize(
    "script",
    ["read(r) write(w) read(r)", "read(r)!timeout read(r)!timeout", "page(p) page(p) page(p)",
     "live(l)=1 live(l)=2 live(l)=3", "read(r) *compaction read(r)", "read(a)=1 read(A)=2"],
)  # fmt: skip
def test_nothing_is_said_where_nothing_was_repeated(script: str) -> None:
    """No observation on calls that are no repeats."""
    assert all(call.observation is None for call in walk(script))
