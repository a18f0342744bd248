"""A run meets a tool: what it has to know of it to begin its calls."""

from __future__ import annotations

from collections.abc import Hashable

from repeatguard_sdk._copies import longest_short_text
from repeatguard_sdk._entry import KnownTool
from repeatguard_sdk._ledger import Ledger
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._spec import ToolSpec
from repeatguard_sdk._types import CHANGING_EFFECTS, MISSING, Mode


def meet(tool: Tool, ledger: Ledger, policy: Policy, mode: Mode) -> KnownTool:
    """Return a tool as its calls are begun; called under the lock.

    Args:
        mode: the mode that holds for it.
    """
    spec = tool.spec
    # A module that is loaded again makes the same tools; a factory makes others each time.
    owner: Hashable = tool if "<locals>" in spec.origin else spec.origin
    return KnownTool(
        ledger.state(spec.name, owner, changes=spec.effect in CHANGING_EFFECTS),
        spec.effect,
        tool.keys.key,
        longest=-1 if spec.volatile else longest_short_text(policy.max_result_bytes),
        usual=spec.empty is MISSING,
        short=mode == "enforce" and _goes_short(spec, policy),
    )


def _goes_short(spec: ToolSpec, policy: Policy) -> bool:
    """Tell whether first calls of a tool may take the short way of `FirstCalls`.

    The others answer from what is known, end the task, or look at what lies between.
    """
    return (
        spec.effect in ("read", "write", "unknown")
        and not spec.repeatable
        and spec.max_calls is None
        and policy.folds == "suspect"
        and policy.advice is None
        and not policy.whole_run
    )
