"""Steps as `play` takes them, gathered to a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repeatguard_sdk._types import EFFECTS, MISSING, Effect
from repeatguard_sdk.audit._json import is_object, object_in, text_in
from repeatguard_sdk.audit._recorded import Happening, RecordedCall, RecordedRun
from repeatguard_sdk.audit.readers._talk import arguments_of, text_of

# `auto_continue` is the host's own text, which is nothing.
_HAPPENINGS: dict[Any, Happening] = {
    "user_message": "user_message",
    "external_change": "external_change",
    "progress": "external_change",
    "compaction": "compaction",
}
_MADE_BY_HOST = "auto_continue"


class Steps:
    """The steps of one run so far.

    Args:
        run_id: what the run is called.
        line: where it begins.
        tools: a scenario's declarations by name; of these only the effect is looked at.
    """

    def __init__(self, run_id: str, line: int, tools: Mapping[str, Any] | None = None) -> None:
        self.run_id = run_id
        self.line = line
        self._steps: list[RecordedCall | Happening] = []
        self._turn = 0
        self._given: Any = MISSING
        self._effects: dict[str, Effect] = {}
        for name, declared in (tools or {}).items():
            effect: Any = object_in(declared).get("effect", "read")
            if effect in EFFECTS:
                self._effects[name] = effect

    def add(self, step: dict[str, Any]) -> None:
        """Take a call or an event."""
        if "event" in step:
            what = _HAPPENINGS.get(step["event"])
            if what is not None:
                self._steps.append(what)
            return
        # A call without a turn is a turn of its own; equal turns count when they are in a row.
        given = step.get("turn", MISSING)
        if given is MISSING or given != self._given:
            self._turn += 1
        self._given = given
        self._steps.append(self._call(step))

    def recorded(self) -> RecordedRun:
        """Return the run."""
        return RecordedRun(self.run_id, self._steps, self.line)

    def _call(self, step: dict[str, Any]) -> RecordedCall:
        refused = step.get("refused")
        error = step.get("error")
        if refused and error is None:
            error = str(refused)
        return RecordedCall(
            step["tool"],
            arguments_of(step.get("args")),
            # A body that is told nothing returns nothing.
            MISSING if error is not None else step.get("result"),
            None if error is None else text_of(error),
            self._turn,
            text_in(step.get("call_id")),
            self._effects.get(step["tool"]),
            refused=bool(refused),
        )


def is_step(value: Any) -> bool:
    """Tell whether a value is a step: a call, or an event that `play` knows."""
    if not is_object(value):
        return False
    if "event" in value:
        event = value["event"]
        return isinstance(event, str) and (event in _HAPPENINGS or event == _MADE_BY_HOST)
    return isinstance(value.get("tool"), str)
