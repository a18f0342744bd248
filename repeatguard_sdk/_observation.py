"""The observation: our text for the model about one finding, written when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from repeatguard_sdk._options import Option
from repeatguard_sdk._text import DELIMITER, without_delimiter
from repeatguard_sdk._types import FindingKind, Rank

if TYPE_CHECKING:
    from repeatguard_sdk._wording import ObservationFacts


class _Written(NamedTuple):
    """An observation as it reads."""

    options: tuple[Option, ...]
    text: str
    trusted_text: str
    listed: bool


class Observation:
    """Our text for the model about one finding; written when it is first read, and then kept.

    Most observations of a run without a reader are never read, and writing one costs more than
    a hundred guarded calls.

    Args:
        tell: tells what happened when it is asked for; asked once.
        about: what it is asked about.

    Attributes:
        finding: what was found.
        tool: the tool it speaks about.
        call: number of the call it speaks about.
        count: how often it happened.
        first_call: number of the call that was repeated; 0 if there is none.
    """

    __slots__ = ("_about", "_tell", "_written", "call", "count", "finding", "first_call", "tool")

    def __init__(
        self,
        tell: Callable[[Any], ObservationFacts],
        about: Any,
        *,
        finding: FindingKind,
        tool: str,
        call: int,
        count: int,
        first_call: int = 0,
    ) -> None:
        self.finding = finding
        self.tool = tool
        self.call = call
        self.count = count
        self.first_call = first_call
        self._tell: Callable[[Any], ObservationFacts] | None = tell
        self._about: Any = about
        self._written: _Written | None = None

    def _read(self) -> _Written:
        # In this order: another thread that writes it sets the one before it clears the other.
        tell, about = self._tell, self._about
        written = self._written
        if written is None and tell is not None:
            from repeatguard_sdk._wording import lists_options, wording  # As in `_speaking`.

            told = tell(about)
            written = self._written = _Written(
                options=told.options,
                text=wording(told.for_rank("user")),
                trusted_text=wording(told.for_rank("system")),
                listed=lists_options(told),
            )
            # From here on it holds no argument and no result.
            self._tell = self._about = None
        assert written is not None
        return written

    @property
    def options(self) -> tuple[Option, ...]:
        """What is still open."""
        return self._read().options

    @property
    def offered(self) -> tuple[Option, ...]:
        """The options the model has read; none as long as nobody read the observation."""
        written = self._written
        return written.options if written is not None and written.listed else ()

    @property
    def text(self) -> str:
        """The text for user or tool rank."""
        return self._read().text

    @property
    def trusted_text(self) -> str:
        """The text for developer or system rank: refers to tool text, never quotes it."""
        return self._read().trusted_text

    def render(self, rank: Rank = "user") -> str:
        """Return the text for a message of that rank.

        Args:
            rank: the rank the message has for the model.
        """
        return self.trusted_text if rank in {"developer", "system"} else self.text

    def _place(self) -> tuple[object, ...]:
        return (self.finding, self.tool, self.call, self.count, self.first_call)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Observation):
            return NotImplemented
        return self._place() == other._place() and self._read() == other._read()

    def __hash__(self) -> int:
        return hash(self._place())

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return (
            f"Observation(finding={self.finding!r}, tool={self.tool!r}, call={self.call}, "
            f"count={self.count})"
        )


def write_observation(facts: ObservationFacts) -> Observation:
    """Write the observation now; both ranks at once, so that it holds no argument and no result.

    Args:
        facts: what happened.
    """
    observation = Observation(
        lambda _: facts,
        None,
        finding=facts.finding,
        tool=facts.tool,
        call=facts.call,
        count=facts.count,
        first_call=facts.first_call,
    )
    observation.render()
    return observation


def append_to_result(result: str, observation: Observation) -> str:
    """Return a text result with the observation as a delimited note behind it.

    Args:
        result: the tool's own text; a forged head of a note in it is broken.
        observation: what to append.
    """
    return f"{without_delimiter(result)}\n\n{DELIMITER}\n{observation.render('tool')}"
