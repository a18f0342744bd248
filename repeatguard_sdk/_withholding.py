"""Answering a call without running it: from its stored outcome, from a known fact, or with a refusal.

Each function works on the ledger under the run's lock; a call it sets to "exit" ends the run.
"""

from __future__ import annotations

from repeatguard_sdk._admission import Admission
from repeatguard_sdk._call import BUDGET_SPENT, Finding, repeated
from repeatguard_sdk._canonical import comparable
from repeatguard_sdk._copies import store
from repeatguard_sdk._entry import Entry, result_of
from repeatguard_sdk._joining import answer_from
from repeatguard_sdk._ladder import Ladder
from repeatguard_sdk._ledger import Ledger
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._settling import add_pair, pair_token
from repeatguard_sdk.detectors.repeat import Step


def withhold(
    ledger: Ledger,
    policy: Policy,
    call: Admission,
    entry: Entry,
    step: Step,
    ladder: Ladder,
) -> bool:
    """Answer a call as its ladder says.

    Returns:
        False where there is no answer to give: a read whose result was not kept runs again.
    """
    effect, position = call.effect, step.position
    if not answer_from(call, entry) and step.decision == "replay":
        if effect not in ("write", "final"):
            return False
        # A write is never run twice in one epoch, whatever became of its receipt.
        step = Step("refuse", position)
    entry.count = position
    entry.total += 1
    entry.turn, entry.turn_epoch, entry.last_call = ledger.turn, ledger.epoch, call.number
    entry.noted = True
    note = ladder.note
    call.silent = note is None or position < note
    call.decision = call.would = step.decision
    call.finding = repeated(position, entry.failed)
    call.kept = result_of(entry)
    ledger.previous = entry.number
    if effect != "bookkeeping" and not entry.transient:
        token = pair_token(entry.token, failed=entry.failed)
        add_pair(ledger, policy, call, entry, token)
    _count_withheld(ledger, call)
    return True


def redeliver(ledger: Ledger, call: Admission, entry: Entry) -> bool:
    """Tell a stored outcome once more without penalty, if the model lost it to a compaction."""
    if entry.generation >= ledger.generation or not answer_from(call, entry):
        return False
    entry.generation = ledger.generation
    entry.told_turn, entry.turn_epoch = ledger.turn, ledger.epoch
    call.decision = call.would = "refuse" if entry.failed else "replay"
    call.counts = False
    return True


def answer_known(ledger: Ledger, policy: Policy, call: Admission, fact: str) -> bool:
    """Answer a question whose slot the run can fill; the user is not asked again.

    Returns:
        False where the user is asked after all: the fact is not known, or the mode withholds nothing.
    """
    if fact not in ledger.known:
        return False
    entry = call.entry
    if entry is None:
        entry = call.entry = ledger.add(call.state, call.key, call.number)
    token = comparable(ledger.known[fact])
    if not entry.seen or entry.failed or entry.token != token:
        # It failed, found nothing, or was told anew since: this is another answer.
        entry.generation = ledger.generation
        entry.failed, entry.error, entry.token, entry.count = False, None, token, 0
        entry.first_call, entry.first_turn = call.number, ledger.turn
    ladder = policy.known_effects
    call.fact = fact
    call.count = count = entry.count + 1
    ends = ladder.exit is not None and count >= ladder.exit
    step = Step("exit" if ends else "replay", count)
    finding = Finding(kind="asked_again", count=count, cause=f"{fact} is known")
    if call.mode != "enforce":
        call.finding, call.would = finding, step.decision
        return False
    if not entry.seen:
        entry.seen, entry.epoch = True, ledger.epoch
        entry.first_call, entry.first_turn = call.number, ledger.turn
    ledger.keep(entry, store(ledger.known[fact], policy.max_result_bytes))
    if redeliver(ledger, call, entry):
        return True
    withhold(ledger, policy, call, entry, step, ladder)
    # The first asking of a fact the host told is a finding too: the model has to hear of it.
    call.silent = ladder.note is None
    call.finding = finding
    return True


def refuse_budget(ledger: Ledger, policy: Policy, call: Admission, budget: int) -> None:
    """Refuse a call beyond its tool's budget; a model that ignores that climbs as a failure does."""
    state = call.state
    if state.budget_epoch != ledger.hard_epoch:
        # Something was done in between: the model is not going in circles on this refusal.
        state.budget_epoch, state.over_budget, state.budget_turn = ledger.hard_epoch, 0, -1
    if not (ledger.turns_marked and state.budget_turn == ledger.turn):
        state.over_budget += 1
        state.budget_turn = ledger.turn
    ledger.previous = 0
    call.count = state.over_budget
    call.budget = budget
    call.finding = Finding(kind="repeat", count=state.over_budget, cause=BUDGET_SPENT)
    last = policy.failing.exit
    ends = last is not None and state.over_budget >= last
    call.decision = call.would = "exit" if ends else "refuse"
    _count_withheld(ledger, call)


def _count_withheld(ledger: Ledger, call: Admission) -> None:
    state = call.state
    state.exhausted = ledger.epoch
    if call.decision == "replay":
        state.replayed += 1
    elif call.decision == "refuse":
        state.refused += 1
