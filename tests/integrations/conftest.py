"""The drivers as a fixture, and the table of what was verified for which version."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from integrations._driver import CAPABILITIES, Driver, modules, only, version_of

_verified: dict[tuple[str, str], Counter[str]] = {}


def _drivers() -> list[Any]:
    found: list[Any] = []
    for name, module in modules():
        if isinstance(module, str):
            found.append(pytest.param(module, id=name, marks=pytest.mark.missing))
        else:
            found += [pytest.param(driver, id=driver.name) for driver in module.DRIVERS]
    if only() is not None and not found:
        msg = f"REPEATGUARD_FRAMEWORK={only()}: there is no such module among the drivers"
        raise pytest.UsageError(msg)
    return found


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*capabilities): what a framework must be able to do")
    config.addinivalue_line("markers", "missing: a case of a framework that is not installed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "driver" in metafunc.fixturenames:
        metafunc.parametrize("driver", _drivers(), indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Show a framework that is not installed as one skipped case, and not as fifty."""
    missing: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("missing") is not None:
            missing.setdefault(item.callspec.params["driver"], []).append(item)  # type: ignore[attr-defined]
    for reason, cases in missing.items():
        cases[0].add_marker(pytest.mark.skip(reason=f"{reason}: {len(cases)} cases"))
    left_out = [case for cases in missing.values() for case in cases[1:]]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> Driver:
    """One framework's driver; a case it cannot have is skipped with its reason."""
    made: Driver = request.param()
    place = f"{made.name} {version_of(made)}"
    request.node.user_properties.append(("framework", place))
    unknown = set(made.cannot) - set(CAPABILITIES)
    assert not unknown, f"{made.name}: {unknown} are no capabilities"
    mode = getattr(request.node, "callspec", None)
    needs = [name for mark in request.node.iter_markers("needs") for name in mark.args]
    if mode is not None and "mode" in mode.params:
        needs.append(mode.params["mode"])
    for name in needs:
        assert name in CAPABILITIES, f"{name} is no capability"
        if name in made.cannot:
            pytest.skip(f"{made.name} has no {name}: {made.cannot[name]}")
    return made


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    place = dict(report.user_properties).get("framework")
    if not isinstance(place, str):
        return
    counts = _verified.setdefault(tuple(place.rsplit(" ", 1)), Counter())  # type: ignore[arg-type]
    if report.when == "setup" and report.skipped:
        counts["not applicable"] += 1
    elif report.failed:
        counts["failed"] += 1
    elif report.when == "call" and report.passed:
        counts["passed"] += 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _verified:
        return
    terminalreporter.section("framework | version | cases passed | not applicable")
    for (name, version), counts in sorted(_verified.items()):
        failed = f" | {counts['failed']} FAILED" if counts["failed"] else ""
        line = f"{name} | {version} | {counts['passed']} | {counts['not applicable']}{failed}"
        terminalreporter.write_line(line)
    file = os.environ.get("REPEATGUARD_VERIFIED")
    if file:
        with Path(file).open("a", encoding="utf-8") as out:
            for (name, version), counts in sorted(_verified.items()):
                out.write(json.dumps({"name": name, "version": version, **counts}) + "\n")
