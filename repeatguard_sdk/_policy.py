"""How hard the guard acts: thresholds, mode, memory limits, the order of options."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Literal

import attrs

from repeatguard_sdk._ladder import Ladder, check_threshold
from repeatguard_sdk._types import MODES, Effect, Mode
from repeatguard_sdk.detectors.chain import Advice, advice
from repeatguard_sdk.exceptions import PolicyError

MODE_VARIABLE = "REPEATGUARD_MODE"


def _check_mode(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value not in MODES:
        msg = f"Policy: {field.name}={value!r} is none of {', '.join(MODES)}"
        raise PolicyError(msg)


def _check_row(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None:
        check_threshold("Policy", field.name, value)


def _check_size(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        msg = f"Policy: {field.name} must be a whole number of at least 0, not {value!r}"
        raise PolicyError(msg)


def _check_needed_ladder(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is None:
        msg = (
            f"Policy: {field.name}=None is no ladder; write Ladder(None, None, None) for one that "
            f"never acts"
        )
        raise PolicyError(msg)
    _check_ladder(_, field, value)


def _check_advice(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, Advice):
        msg = f"Policy: {field.name} must be an Advice or None, not {value!r}; see Policy.advisory"
        raise PolicyError(msg)


def _check_ladder(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, Ladder):
        msg = (
            f"Policy: {field.name} must be a Ladder or None, not {value!r}; "
            f"write Ladder(note=2, withhold=2, exit=3)"
        )
        raise PolicyError(msg)


@attrs.frozen(kw_only=True)
class Policy:
    """What the guard does at which count; the default is the table in the README.

    Args:
        mode: "enforce"; "advise" (observations only, every call runs); "observe" (events only,
            each with what would have been done); "off".
        known_effects: the ladder of reads, writes, asks and finals that succeeded.
        failing: the ladder of a failure that comes again.
        unknown: the ladder of tools of unknown effect, and of bookkeeping.
        live: the ladder of live tools, which are never withheld.
        cycle: laps at which a cycle is noted and ends the run; `None` turns it off.
        no_progress: turns without a change at which a note is given and the run ends; `None`
            (the default) is 3 and 6 where the host gives a state, and nothing where it gives
            none. Given here, it holds without a state too: then a new answer is progress.
        advice: the advisory way of working instead of all ladders; see `Policy.advisory`.
        same_errors, same_empties, failures: rows of one tool's outcomes that are noted.
        transient_retries: transient failures of one key that count for nothing.
        folds: "suspect" (equal text after folding runs, and an equal result convicts) or
            "convict" (folding alone makes two calls equal).
        whole_run: no epochs and no resets: counts run from the first call to the last.
        style: "options" (default), "bare" (a control without new information), or a callable
            that writes the text from the facts.
        options: replaces the order of the options; takes and returns a sequence of them.
        max_result_bytes: larger results are not stored.
        max_stored_bytes: results stored in one run altogether; the oldest go first.
        max_entries: distinct calls remembered in one run; past it the oldest quarter is forgotten,
            looked at each 1,024 calls, each tool giving its share.

    Raises:
        PolicyError: a value that makes no sense, with what to write instead.
    """

    mode: Mode = attrs.field(default="enforce", validator=_check_mode)
    known_effects: Ladder = attrs.field(default=Ladder(2, 2, 3), validator=_check_needed_ladder)
    failing: Ladder = attrs.field(default=Ladder(2, 3, 4), validator=_check_needed_ladder)
    unknown: Ladder = attrs.field(default=Ladder(2, 3, 5), validator=_check_needed_ladder)
    live: Ladder = attrs.field(default=Ladder(3, None, None), validator=_check_needed_ladder)
    cycle: Ladder | None = attrs.field(default=Ladder(2, None, 3), validator=_check_ladder)
    no_progress: Ladder | None = attrs.field(default=None, validator=_check_ladder)
    same_errors: int | None = attrs.field(default=3, validator=_check_row)
    same_empties: int | None = attrs.field(default=3, validator=_check_row)
    failures: int | None = attrs.field(default=4, validator=_check_row)
    transient_retries: int = attrs.field(default=2, validator=_check_size)
    folds: Literal["suspect", "convict"] = "suspect"
    whole_run: bool = False
    style: Literal["options", "bare"] | Callable[[Any], str] = "options"
    options: Callable[[Any], Any] | None = None
    advice: Advice | None = attrs.field(default=None, validator=_check_advice)
    max_result_bytes: int = attrs.field(default=1_000_000, validator=_check_size)
    max_stored_bytes: int = attrs.field(default=32_000_000, validator=_check_size)
    max_entries: int = attrs.field(default=100_000, validator=_check_size)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.whole_run, bool):
            msg = f"Policy: whole_run={self.whole_run!r} is neither True nor False"
            raise PolicyError(msg)
        if self.folds not in ("suspect", "convict"):
            msg = f'Policy: folds={self.folds!r} is neither "suspect" nor "convict"'
            raise PolicyError(msg)
        if self.style not in ("options", "bare") and not callable(self.style):
            msg = f'Policy: style={self.style!r} is neither "options" nor "bare" nor a callable'
            raise PolicyError(msg)
        if self.options is not None and not callable(self.options):
            msg = (
                f"Policy: options={self.options!r} is not callable; give a function of the options"
            )
            raise PolicyError(msg)

    @classmethod
    def strict(cls, *, mode: Mode = "enforce") -> Policy:
        """Return the whole-run rule: every fold convicts, no epochs, 2 replays, 3 exits.

        In the 174 runs of examples/real_runs.py 27 of its 145 replays are wrong and 16 of the 36
        runs it ends had succeeded: it is here to be compared, and for tools that truly never change.
        """
        rule = Ladder(2, 2, 3)
        return cls(
            mode=mode,
            known_effects=rule,
            failing=rule,
            unknown=rule,
            folds="convict",
            whole_run=True,
        )

    @classmethod
    def advisory(
        cls,
        thresholds: Iterable[int] = (3, 5, 8),
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        preview_chars: int = 500,
        *,
        style: Literal["options", "bare"] | Callable[[Any], str] | None = None,
    ) -> Policy:
        """Return a policy that withholds nothing and speaks of consecutive identical calls only.

        At each threshold once a chain: first a short nudge, later a reminder with tool, count and
        arguments. Results are not compared. Bookkeeping tools, excluded ones and those not
        included are transparent: they neither count nor break a chain.

        Args:
            thresholds: lengths of a chain at which a text is given; each at least 2, no duplicate.
            include, exclude: names of tools, with `*` for any text.
            preview_chars: how much of the arguments a reminder shows.
            style: another way to write the text, as in `Policy`.

        Raises:
            PolicyError: a threshold below 2, a duplicate, a bool, a bare string of names.
        """
        chosen = advice(thresholds, include, exclude, preview_chars)
        return cls(mode="advise", advice=chosen, style=chosen.write if style is None else style)

    def ladder(self, effect: Effect, *, repeatable: bool, failed: bool) -> Ladder | None:
        """Return the ladder that holds for a call, `None` for one that is only counted."""
        if repeatable:
            return None
        if effect == "live":
            return self.live
        if failed:
            return self.failing
        if effect in ("unknown", "bookkeeping"):
            return self.unknown
        return self.known_effects


def mode_from_environment() -> Mode | None:
    """Return the mode that `REPEATGUARD_MODE` demands of every policy and tool, if it is set.

    Raises:
        PolicyError: the variable holds no mode.
    """
    value = os.environ.get(MODE_VARIABLE, "").strip().lower()
    if not value:
        return None
    for mode in MODES:
        if value == mode:
            return mode
    msg = f"{MODE_VARIABLE}={value!r} is none of {', '.join(MODES)}"
    raise PolicyError(msg)
