"""How many recorded calls a second the audit takes, of our own lines, from file to report, on one core.

    python tests/benchmarks/audit.py [ROUNDS]

Three files of the real runs that ship with the tests: as they are, chosen for their repeats; those in
which no call is made twice; and a mixture with such a call in 12 % of the runs, the share that was
measured in customer service.
The best of ROUNDS (7) in CPU time, with the slowest beside it.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from pathlib import Path

from repeatguard_sdk.audit import audit_files

DATA = Path(__file__).parent.parent / "data" / "transcripts.jsonl"
BYTES = 24_000_000
WITH_REPEATS = 0.12


def _has_repeat(line: str) -> bool:
    made = [json.dumps([call["tool"], call["args"]]) for call in json.loads(line)["calls"]]
    return len(set(made)) < len(made)


def _files(folder: Path) -> dict[str, Path]:
    lines = DATA.read_text(encoding="utf-8").splitlines()
    loud = [line for line in lines if _has_repeat(line)]
    calm = [line for line in lines if line not in set(loud)]
    share = max(1, round(len(loud) * (1 - WITH_REPEATS) / WITH_REPEATS / len(calm)))
    kinds = {
        "as they are": lines,
        "no call twice": calm,
        f"a call twice in {len(loud) / (len(loud) + share * len(calm)):.0%} of the runs": [
            *loud,
            *calm * share,
        ],
    }
    written = {}
    for number, (kind, chosen) in enumerate(kinds.items()):
        text = "\n".join(chosen) + "\n"
        written[kind] = folder / f"{number}.jsonl"
        written[kind].write_text(text * (BYTES // len(text.encode()) + 1), encoding="utf-8")
    return written


def main() -> None:
    """Print a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    # As in the processes that the audit starts.
    gc.freeze()
    gc.set_threshold(100_000)
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in _files(Path(folder)).items():
            rates = []
            for _ in range(rounds):
                began = time.process_time()
                report = audit_files([path], workers=1)
                rates.append(report.calls / (time.process_time() - began))
            print(
                f"{kind:36} {report.runs:7,} runs {report.calls:8,} calls  "
                f"{max(rates):8,.0f} calls/s (slowest {min(rates):,.0f})"
            )


if __name__ == "__main__":
    main()
