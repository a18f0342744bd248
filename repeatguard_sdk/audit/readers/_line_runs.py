"""The runs of our own lines: read for every call of a file, so it is written to be quick."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from repeatguard_sdk._types import EFFECTS, MISSING, Effect
from repeatguard_sdk.audit._json import is_list, is_object, name_in, object_in
from repeatguard_sdk.audit._recorded import Fault, Happening, RecordedCall, RecordedRun
from repeatguard_sdk.audit.readers._steps import Steps, is_step
from repeatguard_sdk.audit.readers._talk import arguments_of, text_of

_EFFECTS: dict[str | None, Effect | None] = {
    **{effect: cast("Effect", effect) for effect in EFFECTS},
    "terminal": "final",
    "session": "unknown",
    None: None,
}


def line_runs(document: Any, line: int, path: str) -> Iterator[RecordedRun | Fault]:
    """Yield the runs of one document; a fault for what holds none."""
    if is_object(document) and is_list(document.get("calls")):
        yield _run(document, line, path)
    elif is_object(document) and is_list(document.get("steps")):
        yield from _scenario(document, line, path)
    elif is_step(document):
        yield Fault(path, line, "one step of a run; read such files with --from steps")
    else:
        yield Fault(path, line, 'neither a run with "calls" nor a scenario with "steps"')


# -- a run a line ----------------------------------------------------------------------------------


def _run(document: dict[str, Any], line: int, path: str) -> RecordedRun:
    calls: list[dict[str, Any]] = document["calls"]
    happened = _happened(document)
    steps: list[RecordedCall | Happening] = []
    effects: dict[str, Effect | None] = {}
    differ: set[str] = set()
    for number, call in enumerate(calls):
        if happened and (before := happened.get(call.get("i", number))):
            steps += before
        tool = call["tool"]
        effect = _EFFECTS.get(call.get("effect"))
        if effects.setdefault(tool, effect) != effect:
            differ.add(tool)
        steps.append(_call(call, number, tool, effect))
    if differ:
        steps = [
            step._replace(effect="unknown")
            if isinstance(step, RecordedCall) and step.tool in differ
            else step
            for step in steps
        ]
    reward: Any = document.get("reward")
    return RecordedRun(
        name_in(document.get("run_id")) or f"{path}:{line}",
        steps,
        line,
        reward >= 1 if isinstance(reward, (int, float)) else None,
    )


def _call(call: dict[str, Any], number: int, tool: str, effect: Effect | None) -> RecordedCall:
    get = call.get
    arguments = get("args")
    if type(arguments) is not dict:
        arguments = arguments_of(arguments)
    result = get("result", MISSING)
    digest = ""
    if type(result) is str and result[-1:] == "…":
        digest = str(get("result_sha", ""))
    turn = get("turn")
    if type(turn) is not int:
        turn = number
    if get("error"):
        return RecordedCall(tool, arguments, MISSING, text_of(result), turn, None, effect, digest)
    return RecordedCall(tool, arguments, result, None, turn, None, effect, digest)


def _happened(document: dict[str, Any]) -> dict[int, list[Happening]]:
    """Return what happened before a call, by its number: each once, a person's message first."""
    happened: dict[int, list[Happening]] = {}
    named: tuple[tuple[str, Happening], ...] = (
        ("user_messages", "user_message"),
        ("external_events", "external_change"),
    )
    for name, what in named:
        for number in {event["before_call"] for event in document.get(name) or ()}:
            happened.setdefault(number, []).append(what)
    return happened


# -- a scenario a line -----------------------------------------------------------------------------


def _scenario(document: dict[str, Any], line: int, path: str) -> Iterator[RecordedRun | Fault]:
    tools = object_in(document.get("tools"))
    name = name_in(document.get("id")) or f"{path}:{line}"
    runs: dict[str, Steps] = {}
    for step in document["steps"]:
        if not is_step(step):
            yield Fault(path, line, f"no step: {step!r:.80}")
        elif "event" in step and "run" not in step:
            for begun in runs.values():
                begun.add(step)
        else:
            run = str(step.get("run", ""))
            if run not in runs:
                runs[run] = Steps(f"{name}/{run}" if run else name, line, tools)
            runs[run].add(step)
    for each in runs.values():
        yield each.recorded()
