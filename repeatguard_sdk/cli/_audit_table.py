"""The audit in a terminal: the policies side by side, the tools, and what to make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from repeatguard_sdk.audit import AuditReport, PolicyAudit, Sums
from repeatguard_sdk.report._visible import shown
from repeatguard_sdk.report._words import count, percent

MOST_TOOLS = 20
MOST_FAULTS = 10
_NAMES = 6


def print_audit(found: AuditReport, console: Console, saved: Path | None) -> None:
    """Print an audit for a person.

    Args:
        console: where to.
        saved: the file that the tools were written to.
    """
    formats = ", ".join(f"{runs:,} {name}" for name, runs in sorted(found.formats.items()))
    of_formats = f" ({formats})" if formats else ""
    runs, calls = count(found.runs, "run"), count(found.calls, "tool call")
    _say(console, f"{runs}{of_formats}, {calls}, {count(len(found.tools), 'tool')}", "bold")
    if found.without_calls:
        _say(console, f"Besides, {count(found.without_calls, 'run')} without any tool call.")
    if found.runs:
        console.print()
        _say(console, "What the guard would have done", "bold")
        console.print(_policies(found))
        console.print()
        _print_tools(found, console)
        for line in _advice(found, saved):
            console.print()
            _say(console, line)
    if found.faulty:
        console.print()
        _print_faults(found, console)


def _say(console: Console, line: str, style: str = "") -> None:
    console.print(Text(line, style=style))


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))


# -- the policies --------------------------------------------------------------------------------

_Row = tuple[str, Callable[[PolicyAudit], str]]


def _policies(found: AuditReport) -> Table:
    table = _table()
    table.add_column("")
    for name in found.policies:
        table.add_column(name, justify="right")
    for label, cell in _rows(found):
        cells = [cell(policy) for policy in found.policies.values()]
        table.add_row(Text(label), *map(Text, cells))
    return table


def _rows(found: AuditReport) -> Iterator[_Row]:
    yield "runs with a repeat", lambda p: _share(p.touched, found.runs)
    yield "calls flagged", lambda p: f"{p.sums.flagged:,}"
    yield "  notes given", lambda p: f"{p.sums.noted:,}"
    yield "  answered from store", lambda p: f"{p.sums.replayed + p.sums.joined:,}"
    yield "    with another result than recorded", lambda p: _wrong(p.sums)
    yield "    receipts of writes and hand-offs", lambda p: _receipts(p.sums)
    if any(policy.sums.unknown for policy in found.policies.values()):
        yield "    no result recorded to compare", lambda p: f"{p.sums.unknown:,}"
    yield "  failures not run again", lambda p: f"{p.sums.refused:,}"
    if any(policy.sums.wrong_refusals for policy in found.policies.values()):
        yield "    that had not failed so in truth", lambda p: f"{p.sums.wrong_refusals:,}"
    yield "runs ended: stuck", lambda p: f"{p.stuck:,}"
    if any(policy.stuck_and_known for policy in found.policies.values()):
        yield "  that had succeeded in truth", _succeeded
    yield "runs ended: finished (hand-off repeated)", lambda p: f"{p.finished:,}"
    yield "calls saved", lambda p: _share(p.saved, found.calls)


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({percent(part / whole)})" if whole else f"{part:,}"


def _wrong(sums: Sums) -> str:
    compared = sums.replayed + sums.joined - sums.receipts - sums.unknown
    return f"{sums.wrong:,} of {compared:,}" if compared else "–"


def _receipts(sums: Sums) -> str:
    return f"{sums.receipts:,}" if sums.receipts else "–"


def _succeeded(policy: PolicyAudit) -> str:
    known = policy.stuck_and_known
    return f"{policy.stuck_but_succeeded:,} of {known:,}" if known else "–"


# -- the tools -----------------------------------------------------------------------------------


def _print_tools(found: AuditReport, console: Console) -> None:
    name, policy = next(iter(found.policies.items()))
    ranked = [tool for tool in found.ranked() if tool in policy.tools]
    if not ranked:
        _say(console, f"Under the {name} policy no call of any tool is flagged.")
        return
    table = _table()
    table.add_column(f"Tool ({name} policy)", overflow="fold")
    table.add_column("Effect")
    for heading in ("Calls", "Flagged", "From store", "Wrong", "Not run"):
        table.add_column(heading, justify="right")
    for tool in ranked[:MOST_TOOLS]:
        sums = policy.tools[tool]
        effect, source = found.tools[tool].effect()
        cells = (
            shown(tool, 40),
            effect if source != "guessed" else f"{effect}?",
            f"{found.tools[tool].calls:,}",
            f"{sums.flagged:,}",
            f"{sums.replayed + sums.joined:,}",
            f"{sums.wrong:,}",
            f"{sums.saved:,}",
        )
        table.add_row(*map(Text, cells))
    console.print(table)
    if len(ranked) > MOST_TOOLS:
        _say(console, f"And {count(len(ranked) - MOST_TOOLS, 'more tool')}: --format json has all.")


# -- what to make of it --------------------------------------------------------------------------


def _advice(found: AuditReport, saved: Path | None) -> Iterator[str]:
    guessed = list(found.guessed())
    if guessed:
        named = ", ".join(f"{shown(name, 40)} = {effect}" for name, effect in guessed[:_NAMES])
        more = f" and {len(guessed) - _NAMES} more" if len(guessed) > _NAMES else ""
        told = (
            f"What {count(len(guessed), 'tool')} may do was guessed from the name: {named}{more}."
        )
        write = "--write-tools tools.toml" if saved is None else str(saved)
        how = "Write them to a file with" if saved is None else "Correct it in"
        yield f"{told} {how} {write}, and give it as --tools. A wrong guess makes wrong verdicts."
    if found.without_user:
        yield (
            f"{count(found.without_user, 'run')} of {found.runs:,} hold no message of a person: "
            f"there a user's request for the same again cannot be told from a loop."
        )
    yield (
        "A run is walked as it was recorded, up to the call that would have ended it: what the agent "
        "would have done after a note or another answer is in no transcript."
    )


def _print_faults(found: AuditReport, console: Console) -> None:
    _say(console, f"{count(found.faulty, 'part')} of the files could not be read:", "bold red")
    for fault in found.faults[:MOST_FAULTS]:
        place = f"{fault.path}:{fault.line}" if fault.line else fault.path
        _say(console, f"  {shown(place, 120)}: {shown(fault.what, 200)}")
    if found.faulty > MOST_FAULTS:
        _say(console, f"  and {found.faulty - MOST_FAULTS:,} more")
