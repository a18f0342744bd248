"""The arguments of a call, kept as they were for one that may show them."""

from __future__ import annotations

import array
import collections
import datetime
import threading
from typing import Any

import pytest
from hypothesis import given

import strategies
from repeatguard_sdk import ObservationFacts, Policy, Registry, Run, guarded_tool
from repeatguard_sdk._shown import Shown

KEPT = [
    {"a": [1, 2.5, None, True, "x"], 3: ("t",)},
    [bytearray(b"ab"), b"ab"],
    array.array("i", [1, 2]),
    memoryview(b"ab").toreadonly().tobytes(),
    collections.OrderedDict(b=1, a=2),
    collections.Counter("aab"),
    {"at": datetime.date(2025, 1, 1), "of": {1, 2}},
    (),
    [],
]


@pytest.mark.parametrize("value", KEPT, ids=repr)
def test_values_are_kept_as_they_are(value: Any) -> None:
    """What can be copied is shown as it is, of the type it is."""
    shown = Shown({"v": value}).arguments()["v"]
    assert value == shown
    assert type(value) is type(shown)
    assert repr(value) == repr(shown)


@given(strategies.json_values())
def test_what_a_model_writes_is_kept(value: Any) -> None:
    """Whatever a model can write as JSON is kept without a change."""
    assert repr(value) == repr(Shown({"v": value}).arguments()["v"])


@pytest.mark.parametrize("value", [["x" * 20] * 200, ["x" * 20_000], threading.Lock()], ids=type)
def test_what_is_too_big_or_cannot_be_copied_is_text(value: Any) -> None:
    """A value of more than some kilobytes, or without a copy, is kept as a short text."""
    shown = Shown({"v": value, "n": 1}).arguments()
    assert 1 == shown["n"]
    assert isinstance(shown["v"], str)
    assert len(shown["v"]) <= 202


def test_arguments_are_shown_as_they_were_given() -> None:
    """A tool that changes its arguments does not change what is said about the call."""
    told: list[ObservationFacts] = []

    def style(facts: ObservationFacts) -> str:
        told.append(facts)
        return "again"

    @guarded_tool(registry=Registry())
    def search(query: dict[str, Any]) -> str:
        query["page"] = query.pop("first")[0]
        return "found"

    with Run([search], policy=Policy(style=style)) as run:
        search({"first": [1]})
        search({"first": [1]})
        (observation,) = run.observations()
    assert "again" == observation.text
    assert {"query": {"first": [1]}} == told[0].arguments
