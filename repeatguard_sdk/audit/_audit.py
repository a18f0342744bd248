"""What the guard would have done in one recorded run: a pure function of it."""

from __future__ import annotations

from collections.abc import Mapping

from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Tool
from repeatguard_sdk.audit._prepared import Prepared
from repeatguard_sdk.audit._recorded import RecordedRun
from repeatguard_sdk.audit._run_audit import RunAudit
from repeatguard_sdk.audit._tools import AuditTools, Declaration


def audit_run(
    run: RecordedRun,
    tools: AuditTools | Mapping[str, Declaration | Tool] | None = None,
    policy: Policy | None = None,
) -> RunAudit:
    """Return what a policy would have done in a recorded run.

    Nothing is executed and nothing outside is read or changed: equal arguments give equal values, so
    runs may be audited anywhere and in any order. A run is walked as it was recorded up to the exit: what
    the agent would have done after a note is in no transcript.

    Args:
        run: the run, from a reader.
        tools: declarations by name: the keyword arguments of `guarded_tool`. A tool without one has
            the effect the transcript tells, else the one that its name suggests.
        policy: default: `Policy()`.

    Raises:
        ToolDeclarationError: a declaration that cannot work.

    Example:
        >>> from repeatguard_sdk.audit import RecordedCall, RecordedRun
        >>> call = RecordedCall("look_up", {"word": "loop"}, "no entry")
        >>> audited = audit_run(RecordedRun("r1", [call, call._replace(turn=1)]))
        >>> [(verdict.number, verdict.decision) for verdict in audited.verdicts]
        [(1, 'replay')]
    """
    known = tools if isinstance(tools, AuditTools) else AuditTools(tools)
    return Prepared(run, known).audit(Policy() if policy is None else policy)
