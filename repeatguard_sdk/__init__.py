"""Keep tool-calling agents from going in circles; see `guarded_tool` and `Run`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from repeatguard_sdk._call import CallDecision, Finding, TriedCall
from repeatguard_sdk._ladder import Ladder
from repeatguard_sdk._memory import Memory
from repeatguard_sdk._observation import Observation
from repeatguard_sdk._options import Option
from repeatguard_sdk._outcome import LoopStart, Outcome
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Registry, Tool, default_registry
from repeatguard_sdk._run import Run
from repeatguard_sdk._spec import ToolSpec
from repeatguard_sdk._tool import guarded_tool, spec_of
from repeatguard_sdk.exceptions import RepeatGuardError, StuckError

if TYPE_CHECKING:
    from repeatguard_sdk._slot import Slot
    from repeatguard_sdk._wording import ObservationFacts

# Loaded when asked for: few programs name them, and the run itself needs them late or never.
_PUT_OFF = {"ObservationFacts": "_wording", "Slot": "_slot"}

__all__ = [
    "CallDecision",
    "Finding",
    "Ladder",
    "LoopStart",
    "Memory",
    "Observation",
    "ObservationFacts",
    "Option",
    "Outcome",
    "Policy",
    "Registry",
    "RepeatGuardError",
    "Run",
    "Slot",
    "StuckError",
    "Tool",
    "ToolSpec",
    "TriedCall",
    "default_registry",
    "guarded_tool",
    "spec_of",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # Read when asked for: importing the metadata costs more than the rest of the package.
        from importlib.metadata import version

        return version("repeatguard-sdk")
    if name in _PUT_OFF:
        found = getattr(importlib.import_module(f"{__name__}.{_PUT_OFF[name]}"), name)
        globals()[name] = found
        return found
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
