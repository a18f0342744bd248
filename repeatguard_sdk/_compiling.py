"""Words to the compiler of the compiled build; the contributors' part of the README tells of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # What the compiler knows; nothing needs it at run time, so it is no dependency.
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_: Any) -> Callable[[type], type]:
        """Leave a class as it is."""
        return lambda cls: cls
