"""What one policy would have done in one run, and in one call, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import attrs

from repeatguard_sdk._types import Decision, FindingKind

Ended = Literal["stuck", "finished"]


class Verdict(NamedTuple):
    """What the guard would have done about one call.

    Attributes:
        number: which call of the run, from 0.
        tool: its name.
        decision: what would have been done.
        finding: what was found, if anything.
        times: how often, in the detector's unit.
        noted: whether the model would have got an observation.
        other: for a call that would not have run: whether the recorded outcome differs from the one
            that would have been given instead; `None` for an exit and where that is not known.
        receipt: whether that outcome is the receipt of a write, which live is not done twice.
    """

    number: int
    tool: str
    decision: Decision
    finding: FindingKind | None
    times: int
    noted: bool
    other: bool | None
    receipt: bool


@attrs.frozen(kw_only=True)
class RunAudit:
    """What one policy would have done in one run.

    Attributes:
        run_id, line: which run.
        calls: recorded calls by tool.
        effects: by tool its effect, and where that is from: "declared", "recorded" or "guessed".
        walked: calls up to and with the one that would have ended the run; all, if none would have.
        verdicts: the calls that would not just have been executed, in order.
        ended: how the guard would have ended it, if it would have.
        succeeded: whether the task was solved, where the transcript tells it.
        user_messages: whether any message of a person is recorded. Without them a user's request for
            the same again looks like a loop.
    """

    run_id: str
    line: int
    calls: Mapping[str, int]
    effects: Mapping[str, tuple[str, str]]
    walked: int
    verdicts: Sequence[Verdict]
    ended: Ended | None
    succeeded: bool | None
    user_messages: bool
