"""The README's table of what is verified: every adapter is in it, with every driver of the contract."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import repeatguard_sdk

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| ([\d., ]+) \| [\d, ]+ \| [\d, ]+ \|$", README, re.MULTILINE)
INTEGRATIONS = Path(repeatguard_sdk.__file__).parent / "integrations"


def driver_names() -> set[str]:
    """Return the drivers' names, read from their source: their frameworks need not be installed."""
    return {
        node.value.value
        for path in (HERE / "drivers").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == "name"
        and isinstance(node.value, ast.Constant)
    }


def test_every_driver_has_a_row() -> None:
    """Each driver has its row, with at least the oldest and the newest version it was run at."""
    assert driver_names() == {name for name, _ in ROWS}


def test_every_adapter_has_a_driver_an_extra_and_an_example() -> None:
    """No adapter is without its contract, what installs its framework, and what shows it."""
    adapters = {path.stem for path in INTEGRATIONS.glob("[a-z]*.py")}
    assert adapters == {path.stem for path in (HERE / "drivers").glob("[a-z]*.py")}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for adapter in adapters:
        assert re.search(rf'^{adapter.replace("_", "-")} = \["', project, re.MULTILINE), adapter
        assert (ROOT / "examples" / f"{adapter}_loop.py").is_file(), adapter
