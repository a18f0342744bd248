"""Why a model repeats a call: a guess from what came back, by rules that a reader can check."""

from __future__ import annotations

import re

from repeatguard_sdk._types import SuspectedCause

SUSPECTED_CAUSES: dict[SuspectedCause, str] = {
    "unresolved": (
        "The answer does not resolve: it is no error, and it is the same each time, so the model "
        "asks on. Say in the result what it means and what to do next."
    ),
    "retryable": (
        "It reads as retryable: it speaks of a time-out, a connection, a limit on the rate, or of "
        "trying again. Say whether and when a retry can help."
    ),
    "capability": (
        "A capability is missing: the tool does not exist, or it says that it does not support or "
        "does not know what was asked for. Offer the capability or name the tool that has it."
    ),
    "constraint": (
        "A constraint cannot be met: it speaks of what is invalid, required, forbidden or out of "
        "bounds. Say which value would be accepted, or that none will."
    ),
}
"""By suspected cause, the rule that was applied and what to mend."""

_READ = 2_000
_RETRYABLE = re.compile(
    r"\b(?:try|retry|retrying|check) (?:it )?(?:again|later)\b|\bretr(?:y|ies|ied|yable)\b"
    r"|\btime[ds]?[ -]?out\b"
    r"|\btemporar|\bunavailable\b|\bbusy\b|\brate.?limit|\btoo many requests\b|\boverloaded\b"
    r"|\bconnection\b|\b(?:408|425|429|500|502|503|504)\b",
    re.IGNORECASE,
)
_CAPABILITY = re.compile(
    r"\b(?:not|un|isn't|aren't) ?(?:yet )?(?:supported|implemented|enabled|available|installed)\b"
    r"|\b(?:no|unknown|unrecognized|undefined) (?:such )?"
    r"(?:tool|function|command|method|action|operation)\b"
    r"|\bcommand not found\b|\bno tool\b|\bdoes(?: not|n't) (?:support|exist as)\b|\bcannot handle\b",
    re.IGNORECASE,
)
_CONSTRAINT = re.compile(
    r"\b(?:must|required?|requires|invalid|illegal|expected|exceed(?:s|ed)?|at (?:most|least)|only|limit"
    r"|insufficient|denied|forbidden|permission|unauthori[sz]ed|policy|mismatch|out of (?:range|bounds)"
    r"|not (?:allowed|permitted|authorized|valid|eligible|possible)|can(?:not|'t)"
    r"|too (?:long|large|many|short))\b"
    r"|\b(?:401|403|422)\b",
    re.IGNORECASE,
)
# A tool that returns its error as text is read as one that raised it.
_ERROR_TEXT = re.compile(
    r"\s*[\[{(]?\s*[\"']?(?:error|exception|failed|failure|fatal)\b", re.IGNORECASE
)


def suspect_cause(text: str, *, failed: bool, unknown_tool: bool = False) -> SuspectedCause | None:
    """Guess why a call was repeated from the result or error it had.

    Args:
        text: the result or the error; its first 2,000 characters are looked at.
        failed: whether it was an error; a result that begins like one is taken for one.
        unknown_tool: whether no tool of the run has that name.
    """
    if unknown_tool:
        return "capability"
    text = text[:_READ]
    if not failed and _ERROR_TEXT.match(text) is None:
        return "unresolved"
    rules: tuple[tuple[re.Pattern[str], SuspectedCause], ...] = (
        (_RETRYABLE, "retryable"),
        (_CAPABILITY, "capability"),
        (_CONSTRAINT, "constraint"),
    )
    return next((cause for rule, cause in rules if rule.search(text)), None)
