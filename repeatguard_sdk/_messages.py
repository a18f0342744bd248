"""Observations as one message, in the shape and place a provider accepts after a turn's results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from repeatguard_sdk._observation import Observation
from repeatguard_sdk._types import Rank

# In a user's place, the model (and whoever reads the log) has to see that no person wrote it.
USER_HEAD = "Note on the tool calls above (automatic, not from the user):"

_USER_ONLY = {
    "anthropic": (
        "a later system message is hoisted into the system prompt or refused, depending on the "
        "model and the client"
    ),
    "gemini": "contents know only user and model; system text is set once for the whole request",
}


def messages(
    observations: Iterable[Observation], provider: str, role: str | None = None
) -> list[dict[str, Any]]:
    """Return the observations as one message to put after all results of the turn, or nothing.

    Never between a model's tool calls and their results: every provider rejects that.

    Args:
        observations: what `run.observations()` gave.
        provider: ``"openai"`` (Chat Completions), ``"openai-responses"``, ``"anthropic"`` or
            ``"gemini"``.
        role: role of the message, ``"user"`` by default. OpenAI also takes ``"developer"`` and
            ``"system"``; the text then refers to tool text and does not quote it.

    Raises:
        ValueError: an unknown provider, or a role it does not take here.
    """
    build = _BUILDERS.get(provider)
    if build is None:
        names = ", ".join(repr(name) for name in PROVIDERS)
        msg = f"messages: unknown provider {provider!r}; write one of {names}"
        raise ValueError(msg)
    rank = _rank(provider, role)
    # Equal texts (one finding seen from two calls of a turn) would only teach the model to repeat.
    texts = list(dict.fromkeys(observation.render(rank) for observation in observations))
    if not texts:
        return []
    if rank == "user":
        texts.insert(0, USER_HEAD)
    return [build("\n\n".join(texts), rank)]


def _rank(provider: str, role: str | None) -> Rank:
    if role is None or role == "user":
        return "user"
    if provider in _USER_ONLY:
        msg = (
            f"messages: {provider} takes these messages as role 'user' only, not {role!r}: "
            f"{_USER_ONLY[provider]}"
        )
        raise ValueError(msg)
    if role == "developer":
        return "developer"
    if role == "system":
        return "system"
    msg = f"messages: role {role!r} cannot carry this; write 'user', 'developer' or 'system'"
    raise ValueError(msg)


def _openai(text: str, rank: Rank) -> dict[str, Any]:
    return {"role": rank, "content": text}


def _openai_responses(text: str, rank: Rank) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": rank, "content": content}


def _anthropic(text: str, rank: Rank) -> dict[str, Any]:
    # A list of blocks: a host may as well extend the user message that holds the tool results.
    return {"role": rank, "content": [{"type": "text", "text": text}]}


def _gemini(text: str, rank: Rank) -> dict[str, Any]:
    return {"role": rank, "parts": [{"text": text}]}


_BUILDERS: dict[str, Callable[[str, Rank], dict[str, Any]]] = {
    "openai": _openai,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
PROVIDERS: tuple[str, ...] = tuple(_BUILDERS)
