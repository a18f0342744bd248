"""The guard over transcripts that exist already: what it would have replayed, noted, ended."""

from __future__ import annotations

from repeatguard_sdk.audit._audit import RunAudit, audit_run
from repeatguard_sdk.audit._recorded import Fault, RecordedCall, RecordedRun
from repeatguard_sdk.audit._tools import AuditTools
from repeatguard_sdk.audit._walk import Verdict

__all__ = ["AuditTools", "Fault", "RecordedCall", "RecordedRun", "RunAudit", "Verdict", "audit_run"]
