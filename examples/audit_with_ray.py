"""The audit of a folder of logs that outgrow one machine, mapped over it with Ray Data.

Needs `pip install "repeatguard-sdk[audit]" "ray[data]"`. `audit_run` is a pure function of one run, so
the runs may be audited anywhere and in any order, and their reports add up. The files are JSON lines of
a format that has whole runs on a line: our own lines, or one whole history a line.

    python examples/audit_with_ray.py FOLDER [FORMAT]
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Sequence
from typing import Any

from repeatguard_sdk.audit import POLICIES, AuditReport, Fault, audit_run
from repeatguard_sdk.audit.readers import read, reader_named

COMPARED = ("default", "strict")


def audit_lines(lines: Sequence[str], format_name: str = "lines") -> AuditReport:
    """Return the report of the runs on some lines of a file."""
    report = AuditReport(COMPARED)
    documents = [_parsed(line) for line in lines if line.strip()]
    policies = {name: POLICIES[name]() for name in COMPARED}
    for run in read(reader_named(format_name), documents, "a line"):
        if isinstance(run, Fault):
            report.fault(run)
        else:
            audits = {name: audit_run(run, None, policy) for name, policy in policies.items()}
            report.count(audits, format_name)
    return report


def _parsed(line: str) -> tuple[int, Any] | Fault:
    try:
        return 0, json.loads(line)
    except ValueError as error:
        return Fault("a line", 0, f"no JSON: {error}")


def audit_folder(folder: str, format_name: str = "lines") -> AuditReport:
    """Return the report of all files of a folder, read and audited by all machines of a cluster."""
    import ray.data

    def audit_batch(batch: dict[str, Any]) -> dict[str, list[bytes]]:
        return {"report": [pickle.dumps(audit_lines(list(batch["text"]), format_name))]}

    whole = AuditReport(COMPARED)
    batches = ray.data.read_text(folder).map_batches(audit_batch, batch_size=512)
    for row in batches.iter_rows():
        whole.add(pickle.loads(row["report"]))  # noqa: S301 - made by our own workers, just now
    return whole


def main() -> None:
    """Print what two policies would have done."""
    report = audit_folder(*sys.argv[1:3])
    print(f"{report.runs} runs, {report.calls} calls, {report.faulty} lines that are no run")
    for name, policy in report.policies.items():
        sums = policy.sums
        print(
            f"{name}: {sums.flagged} calls flagged, {sums.replayed} answered from store, "
            f"{sums.wrong} of these wrongly, {policy.stuck} runs ended stuck, "
            f"{policy.saved} calls saved"
        )


if __name__ == "__main__":
    main()
