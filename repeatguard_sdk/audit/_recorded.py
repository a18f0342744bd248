"""A run as a transcript tells it: what every reader makes, and all that `audit_run` looks at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import attrs

from repeatguard_sdk._types import MISSING, Effect

Happening = Literal["user_message", "external_change", "compaction"]


class RecordedCall(NamedTuple):
    """One tool call of a transcript and what came of it.

    Attributes:
        tool: the name as the model wrote it.
        arguments: name to value; a text where the model wrote something else than a JSON object.
        result: what the model was given; `MISSING` where the transcript ends before it.
        error: the text of the failure, if it was one; then `result` is not looked at.
        turn: calls of one model response have an equal one.
        call_id: the provider's id, where there is one.
        effect: the effect, where the transcript tells it.
        digest: identity of the whole result, where the transcript holds only a part of it.
        refused: whether it never reached its tool; `error` says why.
    """

    tool: str
    arguments: Mapping[str, Any] | str
    result: Any = MISSING
    error: str | None = None
    turn: int = 0
    call_id: str | None = None
    effect: Effect | None = None
    digest: str = ""
    refused: bool = False


@attrs.frozen
class RecordedRun:
    """One agent task of a transcript: its calls, and what happened between them, in order.

    Attributes:
        run_id: the transcript's own name of it, or file and line.
        steps: calls, and by name what else happened. A text that a person wrote is a
            "user_message"; one that the host made is nothing.
        line: where it begins in its file, from 1; 0 where that is not known.
        succeeded: whether the task was solved, where the transcript tells it.
    """

    run_id: str
    steps: list[RecordedCall | Happening]
    line: int = 0
    succeeded: bool | None = None


@attrs.frozen
class Fault:
    """A part of a file that could not be read; the rest goes on.

    Attributes:
        path: the file.
        line: its line from 1; 0 where the whole file is meant.
        what: what is wrong with it.
    """

    path: str
    line: int
    what: str
