"""Messages: one message after all results, in the shape and role each provider takes."""

from __future__ import annotations

from typing import Any

import pytest

from repeatguard_sdk._messages import PROVIDERS, USER_HEAD, messages
from repeatguard_sdk._observation import Observation, write_observation
from repeatguard_sdk._wording import ObservationFacts

CALLS = ("call_1", "call_2")
ARGUMENTS = {"order_id": "SO-1"}


def observation(tool: str = "get_order") -> Observation:
    """Return the observation of a repeated read."""
    return write_observation(
        ObservationFacts(
            finding="repeat",
            tool=tool,
            arguments=ARGUMENTS,
            call=2,
            first_call=1,
            decision="replay",
            result="in transit",
        )
    )


def openai_exchange() -> list[dict[str, Any]]:
    """Return one turn with two tool calls and their results in Chat Completions form."""
    calls = [
        {"id": id_, "type": "function", "function": {"name": "get_order", "arguments": "{}"}}
        for id_ in CALLS
    ]
    results = [{"role": "tool", "tool_call_id": id_, "content": "in transit"} for id_ in CALLS]
    return [
        {"role": "user", "content": "Where is it?"},
        {"role": "assistant", "tool_calls": calls},
        *results,
    ]


def responses_exchange() -> list[dict[str, Any]]:
    """Return the same turn as Responses items."""
    calls = [
        {"type": "function_call", "call_id": id_, "name": "get_order", "arguments": "{}"}
        for id_ in CALLS
    ]
    results = [
        {"type": "function_call_output", "call_id": id_, "output": "in transit"} for id_ in CALLS
    ]
    return [{"role": "user", "content": "Where is it?"}, *calls, *results]


def anthropic_exchange() -> list[dict[str, Any]]:
    """Return the same turn as Anthropic messages."""
    calls = [{"type": "tool_use", "id": id_, "name": "get_order", "input": {}} for id_ in CALLS]
    results = [
        {"type": "tool_result", "tool_use_id": id_, "content": "in transit"} for id_ in CALLS
    ]
    return [
        {"role": "user", "content": "Where is it?"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]


def gemini_exchange() -> list[dict[str, Any]]:
    """Return the same turn as Gemini contents."""
    calls = [{"function_call": {"id": id_, "name": "get_order", "args": {}}} for id_ in CALLS]
    results = [
        {"function_response": {"id": id_, "name": "get_order", "response": {"output": "x"}}}
        for id_ in CALLS
    ]
    return [
        {"role": "user", "parts": [{"text": "Where is it?"}]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": results},
    ]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_observation_is_no_message(provider: str) -> None:
    """Nothing found means nothing sent."""
    assert messages([], provider) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_all_observations_share_one_user_message(provider: str) -> None:
    """One message holds every observation once, and says that no user wrote it."""
    found = [observation("a"), observation("b"), observation("b")]
    (message,) = messages(found, provider)
    assert message["role"] == "user"
    body = repr(message)
    assert USER_HEAD in body
    assert body.count('b(order_id="SO-1")') == 1
    assert body.count('a(order_id="SO-1")') == 1


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
@pytest.mark.parametrize("role", ["developer", "system"])
def test_a_higher_rank_quotes_nothing(provider: str, role: str) -> None:
    """A message of developer or system rank refers to the result and names no argument."""
    (message,) = messages([observation()], provider, role)
    assert message["role"] == role
    assert "see its result above" in repr(message)
    assert "in transit" not in repr(message)
    assert "SO-1" not in repr(message)


@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
@pytest.mark.parametrize("role", ["developer", "system", "tool"])
def test_user_only_providers_say_why(provider: str, role: str) -> None:
    """Where only a user message is safe, another role is an error that explains itself."""
    with pytest.raises(ValueError, match=r"role .user. only, not .*: .*system"):
        messages([observation()], provider, role)


@pytest.mark.parametrize("role", ["tool", "assistant", "System"])
def test_other_roles_are_refused(role: str) -> None:
    """A role that cannot stand after the results is named together with those that can."""
    with pytest.raises(ValueError, match="write 'user', 'developer' or 'system'"):
        messages([observation()], "openai", role)


def test_an_unknown_provider_is_told_the_names() -> None:
    """The error for a wrong provider lists every right one."""
    with pytest.raises(ValueError, match="unknown provider 'mistral'") as caught:
        messages([], "mistral")
    assert all(repr(name) in str(caught.value) for name in PROVIDERS)


@pytest.mark.parametrize("role", [None, "developer", "system"])
def test_openai_chat_takes_the_exchange(role: str | None) -> None:
    """The real client's types take the whole exchange, and the ids stay adjacent."""
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    chat = pytest.importorskip("openai.types.chat", reason="openai is not installed")
    exchange = openai_exchange() + messages([observation()], "openai", role)
    adapter = pydantic.TypeAdapter(chat.ChatCompletionMessageParam)
    for message in exchange:
        adapter.validate_python(message)
    asked = next(i for i, message in enumerate(exchange) if "tool_calls" in message)
    answered = exchange[asked + 1 : asked + 1 + len(CALLS)]
    assert [message["tool_call_id"] for message in answered] == list(CALLS)
    assert exchange[-1]["role"] == (role or "user")


@pytest.mark.parametrize("role", [None, "developer", "system"])
def test_openai_responses_takes_the_exchange(role: str | None) -> None:
    """The real client's types take the items, and nothing stands between calls and outputs."""
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    responses = pytest.importorskip("openai.types.responses", reason="openai is not installed")
    exchange = responses_exchange() + messages([observation()], "openai-responses", role)
    (ours,) = messages([observation()], "openai-responses", role)
    checked = pydantic.TypeAdapter(responses.EasyInputMessageParam).validate_python(ours)
    assert checked == ours
    adapter = pydantic.TypeAdapter(responses.ResponseInputItemParam)
    for item in exchange:
        adapter.validate_python(item)
    kinds = [item.get("type") for item in exchange[1:]]
    assert kinds == ["function_call"] * 2 + ["function_call_output"] * 2 + ["message"]


def test_anthropic_takes_the_exchange() -> None:
    """The real client's types take the messages, and results follow their calls at once."""
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    types = pytest.importorskip("anthropic.types", reason="anthropic is not installed")
    exchange = anthropic_exchange() + messages([observation()], "anthropic")
    adapter = pydantic.TypeAdapter(types.MessageParam)
    for message in exchange:
        content = adapter.validate_python(message)["content"]
        assert isinstance(content, str) or list(content)  # lazy: walking it validates it
    results = exchange[2]["content"]
    assert [block["tool_use_id"] for block in results] == list(CALLS)
    # Merged into the results' own message, as the API does it, ours comes after all of them.
    merged = [block["type"] for block in results + exchange[3]["content"]]
    assert merged == ["tool_result", "tool_result", "text"]


def test_gemini_takes_the_exchange() -> None:
    """The real client's types take the contents, and the turn of results holds only results."""
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    exchange = gemini_exchange() + messages([observation()], "gemini")
    contents = [types.Content.model_validate(content) for content in exchange]
    assert [part.function_response.id for part in contents[2].parts] == list(CALLS)
    assert contents[3].role == "user"
    assert contents[3].parts[0].text.startswith(USER_HEAD)
