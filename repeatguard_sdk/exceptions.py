"""Every error a user of repeatguard_sdk can meet; each also is the stdlib error a caller would guess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class EndedRun(Protocol):
    """What a `StuckError` tells of its run; `repeatguard_sdk.Outcome` in full."""

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
    """A run was used before its block, after its end, or twice."""


class ScenarioError(RepeatGuardError, ValueError):
    """A scenario given to `repeatguard_sdk.testing.play` is malformed."""


class NoIdentityError(RepeatGuardError, TypeError):
    """A value has no defined identity, so a call that holds it cannot be compared."""


class RepeatedFailure(RepeatGuardError):
    """Stands for a stored error that could not be rebuilt; its text is the text of that error."""


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
