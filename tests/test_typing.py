"""Type checkers see a guarded tool as the tool it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "tests" / "typing").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_mypy_strict(path: Path, tmp_path: Path) -> None:
    """Mypy accepts the file, and each of its deliberate mistakes is one to mypy."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    pytest.importorskip("typing_extensions", reason="typing_extensions is not installed")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(path)]
    # Of the package itself only the types count here: its own check is another one.
    command += ["--follow-imports", "silent"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert 0 == done.returncode, done.stdout + done.stderr
