"""Shows the score on real runs at the end of a session; `-s` shows it at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

_SCORES = pytest.StashKey[dict[str, str]]()


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Callable[[str, Any], None]:
    """Return a function that prints a score and keeps it for the summary."""
    scores = request.config.stash.setdefault(_SCORES, {})

    def keep(title: str, score: Any) -> None:
        scores[title] = str(score)
        print(f"\n{title}\n{score}")

    return keep


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write the scores of this session."""
    scores = config.stash.get(_SCORES, {})
    if scores:
        terminalreporter.section("174 real runs")
    for title, score in scores.items():
        terminalreporter.write_line(f"{title}:")
        for line in score.splitlines():
            terminalreporter.write_line(f"  {line}")
