"""The guard over transcripts that exist already: what it would have replayed, noted, ended."""

from __future__ import annotations

from repeatguard_sdk.audit._audit import audit_run
from repeatguard_sdk.audit._declared import load_tools, write_tools
from repeatguard_sdk.audit._many import POLICIES, audit_files
from repeatguard_sdk.audit._recorded import Fault, RecordedCall, RecordedRun
from repeatguard_sdk.audit._run_audit import RunAudit, Verdict
from repeatguard_sdk.audit._tally import AuditReport, PolicyAudit, Sums
from repeatguard_sdk.audit._tools import AuditTools

__all__ = [
    "POLICIES",
    "AuditReport",
    "AuditTools",
    "Fault",
    "PolicyAudit",
    "RecordedCall",
    "RecordedRun",
    "RunAudit",
    "Sums",
    "Verdict",
    "audit_files",
    "audit_run",
    "load_tools",
    "write_tools",
]
