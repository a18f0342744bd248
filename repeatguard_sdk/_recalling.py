"""A run that takes up a conversation: past calls are counted as they were made, and nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from repeatguard_sdk._dispatch import as_mapping, parse_arguments
from repeatguard_sdk._registry import Tool
from repeatguard_sdk._scope import StuckSignal, dispatching
from repeatguard_sdk._toolset import undeclared
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.exceptions import RecalledFailure


@attrs.frozen(kw_only=True)
class PastCall:
    """One tool call of a conversation as its history tells it.

    Attributes:
        tool: the name as the model wrote it.
        arguments: as the model gave them, parsed or not.
        result: what the tool returned; left out where nothing is known of it but that it came: the
            call then counts, and is never answered from store.
        error: what it raised instead, or the text of it.
        refused: why it never reached its tool, if it did not.
        denied: whether a person or a rule forbade it.
        call_id: the provider's id.
        turn: calls in a row with an equal one are of one turn.
    """

    tool: str
    arguments: Mapping[str, Any] | str | None = None
    result: Any = MISSING
    error: BaseException | str | None = None
    refused: str | None = None
    denied: bool = False
    call_id: str | None = None
    turn: int = 0


def recall(run: Any, calls: Iterable[PastCall]) -> None:
    """Count past calls as `Run.recall` says."""
    turn: int | None = None
    for past in calls:
        if past.turn != turn:
            run.turn()
            turn = past.turn
        if past.refused is not None:
            run.refused(
                past.tool,
                past.arguments,
                past.refused,
                denied=past.denied,
                call_id=past.call_id,
            )
        else:
            _walk(run, past)


def _walk(run: Any, past: PastCall) -> None:
    tool: Tool = run.find_tool(past.tool) or undeclared(past.tool)

    def body(*_: Any, **__: Any) -> Any:
        if isinstance(past.error, BaseException):
            raise past.error
        if past.error is not None:
            raise RecalledFailure(past.error)
        return _Unknown() if past.result is MISSING else past.result

    parsed = parse_arguments(past.arguments)
    arguments = as_mapping(past.arguments) if isinstance(parsed, str) else parsed
    with dispatching(run, past.call_id):
        try:
            run.call(tool, body, (), with_hidden(tool, arguments))
        except StuckSignal:
            raise
        except Exception:
            # It was raised then, or is the refusal that the model got then.
            return


class _Unknown:
    """A result of which nothing is known: no copy of it can be kept, and it equals no other."""

    def __deepcopy__(self, memo: Any) -> Any:
        msg = "a result that is not known cannot be copied"
        raise TypeError(msg)


def with_hidden(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's arguments with `None` for what the framework would fill.

    Those parameters are no part of a call's identity, but the key function wants them all.
    """
    spec = tool.spec
    if spec.signature is None or not spec.hidden:
        return dict(arguments)
    filled = {
        name: None
        for name, parameter in spec.signature.parameters.items()
        if name in spec.hidden
        and parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    return {**filled, **arguments}
