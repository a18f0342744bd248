"""What the guard of MCP servers asks of a framework: its requests, its tools, how it writes results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Listed(NamedTuple):
    """A tool as the server lists it.

    Attributes:
        name: the name the model sees.
        function: what is called for it, if that is known.
        annotations: its MCP annotations.
        description: what the model reads about it.
    """

    name: str
    function: Callable[..., Any] | None = None
    annotations: Any = None
    description: str = ""


class Request(NamedTuple):
    """A request to call a tool.

    Attributes:
        name, arguments, meta: as the client gave them.
        http: the HTTP request, `None` where there is none.
    """

    name: str
    arguments: Mapping[str, Any]
    meta: Mapping[str, Any]
    http: Any = None


class Tools(Protocol):
    """The tools of a server, as one client sees them."""

    async def all(self) -> Sequence[Listed]:
        """Return all of them."""
        ...

    async def find(self, name: str) -> Listed | None:
        """Return one as it is at present, `None` where only `all` can tell."""
        ...


class Form(Protocol):
    """How a framework writes the result of a tool call; nothing is changed in place.

    Where it has no results that are errors, `add` and `refusal` raise one.
    """

    def failure(self, result: Any) -> str | None:
        """Return the text of a result that says its tool failed, `None` for any other."""
        ...

    def pause(self, result: Any) -> bool:
        """Tell whether a result is none yet: the client is asked for something, or to come back."""
        ...

    def kept(self, result: Any) -> Any:
        """Return a result as a value that can be compared and stored."""
        ...

    def rebuilt(self, kept: Any) -> Any:
        """Return the result that `kept` was made of."""
        ...

    def tells(self, error: Exception) -> bool:
        """Tell whether the text of an error goes to the client as a result."""
        ...

    def raised(self, error: Exception, text: str) -> Exception:
        """Return an error to raise instead of one that is told, with a text behind its own."""
        ...

    def add(self, result: Any, text: str, *, failed: bool) -> Any:
        """Return the result with a block of text behind it.

        Args:
            failed: whether it is to be a tool error.
        """
        ...

    def refusal(self, text: str) -> Any:
        """Return a tool error."""
        ...


class Failed(Exception):
    """Carries a result that says its tool failed, so that it is counted as a failure."""

    result: Any

    @classmethod
    def of(cls, text: str, result: Any) -> Failed:
        """Make it; the constructor takes no result, so that it can be copied."""
        failed = cls(text)
        failed.result = result
        return failed


class Paused(Exception):
    """Carries a result that is none yet; it passes the guard uncounted."""

    def __init__(self, result: Any) -> None:
        super().__init__("the tool waits for its client")
        self.result = result
