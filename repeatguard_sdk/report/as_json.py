"""The report as JSON, for programs."""

from __future__ import annotations

import json
import math
from typing import Any

import attrs

from repeatguard_sdk._types import is_mapping, is_sequence
from repeatguard_sdk.report._values import Report


def to_json(report: Report) -> str:
    """Return the report as JSON of ASCII characters only, with a line break at the end.

    The keys are the attributes of `Report` and of the values in it, which say what each means; they
    keep their meaning as long as `version` is the same. Texts are as the tools wrote them: whoever
    shows them has to escape them. A time that is no number is null.
    """
    value = attrs.asdict(report)
    return json.dumps(_finite(value), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_mapping(value):
        return {name: _finite(item) for name, item in value.items()}
    if is_sequence(value):
        return [_finite(item) for item in value]
    return value
