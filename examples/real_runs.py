"""174 real agent runs through the guard: each intervention on a line, and at the end the score.

The runs are tau-bench and tau2-bench transcripts (MIT, see tests/data/README.md) whose repeated
calls carry a label. The guard sees the calls one by one, as it would have live; what the agent
would have done after a note is not in the data, so every call is walked as it was recorded.

    python examples/real_runs.py [FILE]
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from repeatguard_sdk import Policy
from repeatguard_sdk.testing import PlayedCall, is_transient_text, play

DATA = Path(__file__).parent.parent / "tests" / "data" / "transcripts.jsonl"
EFFECTS = {"terminal": "final", "session": "unknown"}
WASTED = frozenset({"WASTED", "DUP_SIDE_EFFECT"})


def load(path: Path = DATA) -> list[dict[str, Any]]:
    """Return the runs of a file, one JSON object a line."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def as_scenario(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded run as a scenario for `play`."""
    effects: dict[str, set[str]] = {}
    for call in run["calls"]:
        effects.setdefault(call["tool"], set()).add(EFFECTS.get(call["effect"], call["effect"]))
    tools = {
        # A tool whose effect differs from call to call, such as a shell, may change anything.
        name: {"effect": kinds.pop() if len(kinds) == 1 else "unknown"}
        for name, kinds in effects.items()
    }
    return {"tools": tools, "steps": list(_steps(run))}


def _steps(run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    spoken = Counter(message["before_call"] for message in run["user_messages"])
    changed = Counter(event["before_call"] for event in run["external_events"])
    for call in run["calls"]:
        if spoken[call["i"]]:
            yield {"event": "user_message"}
        if changed[call["i"]]:
            yield {"event": "external_change"}
        came = "error" if call["error"] else "result"
        yield {"tool": call["tool"], "args": call["args"], "turn": call["turn"], came: _text(call)}


def _text(call: Mapping[str, Any]) -> str:
    """Return the recorded result; one that was cut short carries the digest of the whole."""
    text: str = call["result"]
    return f"{text}[{call['result_sha']}]" if text.endswith("…") else text


class Score:
    """What the guard did on the runs, against the labels of their repeated calls."""

    def __init__(self) -> None:
        self.runs = self.calls = self.flagged = self.right = self.wasted = self.found = 0
        self.replays = self.wrong_replays = self.receipts = 0
        self.stuck = self.stuck_but_succeeded = 0
        self.false_alarms: list[str] = []
        self.missed: list[str] = []

    @property
    def precision(self) -> float:
        """Share of the flagged calls that were in truth wasted."""
        return self.right / self.flagged if self.flagged else 1.0

    @property
    def recall(self) -> float:
        """Share of the wasted calls that were flagged."""
        return self.found / self.wasted if self.wasted else 1.0

    def add(
        self, run: Mapping[str, Any], call: Mapping[str, Any], played: PlayedCall, retry: bool
    ) -> None:
        """Count one call; `retry` is a call after a transient error, which is left out."""
        self.calls += 1
        if played.decision == "replay":
            self.replays += 1
            if call["effect"] == "write":
                # Doing it twice gives another receipt: the first one is the right answer.
                self.receipts += 1
            else:
                self.wrong_replays += played.returned != _text(call)
        if retry:
            return
        flagged = played.decision != "execute" or played.observation is not None
        wasted = call.get("repeat_label") in WASTED
        right = wasted or played.decision == "join"
        place = f"{run['run_id']} call {call['i']} {call['tool']} {call.get('repeat_label')}"
        self.flagged += flagged
        self.right += flagged and right
        self.wasted += wasted
        self.found += wasted and flagged
        if flagged and not right:
            self.false_alarms.append(f"{place}: {played.decision} {played.finding}")
        if wasted and not flagged:
            self.missed.append(place)

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.calls} calls walked\n"
            f"flagged {self.flagged}, right {self.right}: precision {self.precision:.1%}\n"
            f"wasted {self.wasted}, found {self.found}: recall {self.recall:.1%}\n"
            f"replayed {self.replays}, with a wrong result {self.wrong_replays}"
            f" ({self.receipts} are receipts of writes that were not done a second time)\n"
            f"ended stuck {self.stuck}, of which had succeeded {self.stuck_but_succeeded}"
        )


def walk(
    runs: Iterable[Mapping[str, Any]], policy: Policy | None = None
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], PlayedCall, bool]]:
    """Yield each call with what the guard did, up to the end of its run."""
    for run in runs:
        failed: set[str] = set()
        for call, played in zip(run["calls"], play(as_scenario(run), policy), strict=True):
            identity = json.dumps([call["tool"], call["args"]], sort_keys=True)
            yield run, call, played, identity in failed
            if call["error"] and is_transient_text(call["result"]):
                failed.add(identity)
            else:
                failed.discard(identity)
            if played.decision == "exit":
                break


def measure(runs: Iterable[Mapping[str, Any]], policy: Policy | None = None) -> Score:
    """Return the score of a policy."""
    score = Score()
    seen = set()
    for run, call, played, retry in walk(runs, policy):
        seen.add(run["run_id"])
        score.add(run, call, played, retry)
        if played.decision == "exit" and played.value is not None:
            stuck = played.value.finding is not None and not _finished(run, call)
            score.stuck += stuck
            score.stuck_but_succeeded += stuck and run["reward"] >= 1
    score.runs = len(seen)
    return score


def _finished(run: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
    """Tell whether a hand-off had succeeded before the call that ends the run, or with it."""
    made = run["calls"][: call["i"] + 1]
    return any(each["effect"] == "terminal" and not each["error"] for each in made)


HEADINGS = ("run", "call", "guard", "as call", "label", "tool", "what came back")


def _row(*cells: object) -> str:
    widths = (">4", ">5", "<7", ">7", "<15", "<27", "")
    return "  ".join(
        f"{cell!s:{width}}" for cell, width in zip(cells, widths, strict=True)
    ).rstrip()


def _line(number: int, run: Mapping[str, Any], call: Mapping[str, Any], played: PlayedCall) -> str:
    decided = played.value
    assert decided is not None
    did = "note" if played.decision == "execute" else played.decision
    came = played.error or str(played.returned)
    if did == "exit":
        end = "finished" if _finished(run, call) else "stuck"
        assert decided.finding is not None
        unit = "rounds" if decided.finding.kind == "cycle" else "times"
        came = f"=> the run ends {end}: {decided.finding.kind}, {decided.finding.count} {unit}"
    first = "" if decided.observation is None else decided.observation.first_call or ""
    label = call.get("repeat_label") or "-"
    return _row(number, decided.call, did, first, label, call["tool"], _clamp(came))


def _clamp(text: str, width: int = 60) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def main() -> None:
    """Print the interventions and the score, and the score of a plain count beside it."""
    runs = load(Path(sys.argv[1])) if len(sys.argv) > 1 else load()
    numbers = {run["run_id"]: number for number, run in enumerate(runs, start=1)}
    print(_row(*HEADINGS))
    for run, call, played, _ in walk(runs):
        if played.decision != "execute" or played.observation is not None:
            print(_line(numbers[run["run_id"]], run, call, played))
    recorded = sum(len(run["calls"]) for run in runs)
    print(f"\nThe default policy ({recorded} calls recorded; a run is walked up to its exit):")
    print(measure(runs))
    print(
        "\nFor comparison a plain count, Policy.strict() (2nd equal call replayed, 3rd the exit):"
    )
    print(measure(runs, Policy.strict()))


if __name__ == "__main__":
    main()
