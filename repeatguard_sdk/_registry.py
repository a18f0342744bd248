"""The tools of a program by the name the model sees."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from repeatguard_sdk._spec import ToolSpec
from repeatguard_sdk.exceptions import DuplicateToolError

if TYPE_CHECKING:
    from repeatguard_sdk._key import CompiledKey


@attrs.frozen(eq=False)
class Tool:
    """One guarded tool: its declaration, and what was made of it once at decoration.

    Attributes:
        spec: what was declared.
        keys: makes a call's identity from its arguments.
        is_async: whether a call makes a coroutine.
        function: the decorated callable; None until `attach`.
    """

    spec: ToolSpec
    keys: CompiledKey
    is_async: bool
    function: Any = attrs.field(default=None, repr=False)

    def attach(self, function: Any) -> None:
        """Set the decorated callable, which can be made only once the record exists."""
        if self.function is not None:
            msg = f"{self.spec.name!r} has its function already; a record belongs to one guard"
            raise ValueError(msg)
        object.__setattr__(self, "function", function)


class Registry:
    """Guarded tools by name; a `Run` takes its list of tools from here if it was given none.

    Example:
        >>> tools = Registry()
        >>> len(tools)
        0
    """

    def __init__(self) -> None:
        # Protects `_tools`: modules may be imported, and tools made, in several threads, and a
        # look at the present holder of a name must not be parted from the replacement of it.
        self._lock = threading.Lock()
        self._tools: dict[str, Tool] = {}

    def add(self, tool: Tool) -> None:
        """Add a tool, or replace an earlier version of it.

        A module that is loaded again, or a function that makes a tool each time it is called,
        brings the same tool anew. Two different functions of one name are an error.

        Raises:
            DuplicateToolError: another function has this name.
        """
        with self._lock:
            known = self._tools.get(tool.spec.name)
            if known is not None and not _replaces(tool.spec.origin, known.spec.origin):
                msg = (
                    f"two tools are called {tool.spec.name!r}: {known.spec.origin} and "
                    f'{tool.spec.origin}; give one of them another name (name="...") or its own '
                    f"registry (registry=Registry())"
                )
                raise DuplicateToolError(msg)
            self._tools[tool.spec.name] = tool

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, or None."""
        return self._tools.get(name)

    def names(self) -> tuple[str, ...]:
        """Return all names in the order in which they were added."""
        with self._lock:
            return tuple(self._tools)

    def remove(self, name: str) -> None:
        """Forget the tool of that name, if there is one; its function stays guarded."""
        with self._lock:
            self._tools.pop(name, None)

    def __iter__(self) -> Iterator[Tool]:
        """Iterate over the tools of this moment; adding meanwhile is safe."""
        with self._lock:
            return iter(tuple(self._tools.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"<Registry of {', '.join(self.names()) or 'nothing'}>"


def _replaces(new: str, old: str) -> bool:
    """Whether one origin may take the name of another without a word."""
    return new == old or "<locals>" in new or "<locals>" in old


default_registry = Registry()
