"""Every error a user of repeatguard_sdk can meet; those of a wrong use are stdlib errors as well.

A wrong declaration is a `TypeError`, a wrong value a `ValueError`, and a run that is used at the
wrong time, or is given an option that cannot work, a `RuntimeError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class EndedRun(Protocol):
    """What a `StuckError` tells of its run; `repeatguard_sdk.Outcome` in full."""

    @property
    def reason(self) -> str:
        """Why it ended: "stuck"."""
        ...

    @property
    def tool(self) -> str | None:
        """The tool that was repeated, if it was one."""
        ...

    @property
    def arguments(self) -> str:
        """A preview of its arguments."""
        ...

    @property
    def count(self) -> int:
        """How often the call was asked for."""
        ...

    @property
    def result(self) -> str:
        """A preview of its first result, or of its error."""
        ...

    @property
    def options(self) -> tuple[str, ...]:
        """What is still open."""
        ...

    @property
    def summary(self) -> str:
        """Text for the person who takes over."""
        ...

    def as_dict(self) -> Mapping[str, Any]:
        """The same as a dict."""
        ...


class RepeatGuardError(Exception):
    """Base of all errors of this package."""


class ToolDeclarationError(RepeatGuardError, TypeError):
    """A tool was declared in a way that cannot work; the text says what to write instead."""


class DuplicateToolError(ToolDeclarationError):
    """Two different functions claim one tool name in one registry."""


class PolicyError(RepeatGuardError, ValueError):
    """A policy was built with a value that makes no sense."""


class RunStateError(RepeatGuardError, RuntimeError):
    """A run was used before its block, after its end, or twice, or was given what cannot work."""


class ScenarioError(RepeatGuardError, ValueError):
    """A scenario given to `repeatguard_sdk.testing.play` is malformed."""


class EventFileError(RepeatGuardError, ValueError):
    """A file given as a file of events is something else, or of a newer version."""


class NoIdentityError(RepeatGuardError, TypeError):
    """A value has no defined identity, so a call that holds it cannot be compared."""


class RepeatedFailure(RepeatGuardError):
    """Stands for a stored error that could not be rebuilt; its text is the text of that error."""


class RecalledFailure(RepeatedFailure):
    """Stands for an error that only the text in a conversation's history is known of."""


class StuckError(RepeatGuardError):
    """Raised at the boundary of a run that ended stuck, under ``on_stuck="raise"``.

    Attributes:
        outcome: how the run ended, with its summary.
    """

    def __init__(self, outcome: EndedRun) -> None:
        super().__init__(outcome)
        self.outcome = outcome

    def __str__(self) -> str:
        return self.outcome.summary
