"""What one policy would have done in one run, as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from repeatguard_sdk.audit._walk import Ended, Verdict


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
