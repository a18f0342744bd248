"""One ladder: at which count a call is noted, withheld, and ends the run."""

from __future__ import annotations

import itertools
from typing import Any

import attrs

from repeatguard_sdk.exceptions import PolicyError


def check_threshold(owner: str, name: str, value: Any) -> None:
    """Reject a threshold that is no whole number of at least 2; the first call is never a repeat."""
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"{owner}: {name} must be a whole number of at least 2, not {value!r}"
        raise PolicyError(msg)
    if value < 2:
        msg = (
            f"{owner}: {name}={value} would act on the first call, which is never a repeat; "
            f"write 2 or more"
        )
        raise PolicyError(msg)


@attrs.frozen
class Ladder:
    """Counts of equal calls at which the guard acts; `None` means never.

    Args:
        note: an observation from this count on.
        withhold: not executed from this count on (replayed, or refused after a failure).
        exit: the run ends at this count.

    Raises:
        PolicyError: a threshold below 2, a bool, or steps in the wrong order.
    """

    note: int | None = 2
    withhold: int | None = 2
    exit: int | None = 3

    def __attrs_post_init__(self) -> None:
        steps = [
            (name, value)
            for name, value in (
                ("note", self.note),
                ("withhold", self.withhold),
                ("exit", self.exit),
            )
            if value is not None
        ]
        for name, value in steps:
            check_threshold("Ladder", name, value)
        for (low, first), (high, second) in itertools.pairwise(steps):
            if first > second:
                msg = f"Ladder: {low}={first} comes after {high}={second}; write {low} <= {high}"
                raise PolicyError(msg)
