"""The audit mapped over a folder with Ray Data says what it says in one process."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

from repeatguard_sdk.audit import audit_files

ROOT = Path(__file__).parent.parent.parent
REAL = ROOT / "tests" / "data" / "transcripts.jsonl"


@pytest.fixture(scope="module")
def example() -> Any:
    path = ROOT / "examples" / "audit_with_ray.py"
    spec = importlib.util.spec_from_file_location("audit_with_ray", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_are_audited_as_the_file_is(example: Any) -> None:
    """What each worker does, without Ray; a line that is none is counted."""
    lines = REAL.read_text(encoding="utf-8").splitlines()
    report = example.audit_lines([*lines, "broken", "{}", ""])
    whole = audit_files([REAL], policies=example.COMPARED).as_dict()
    assert 2 == report.faulty
    assert {**whole, "faults": [], "faulty": 0} == {**report.as_dict(), "faults": [], "faulty": 0}


@pytest.mark.filterwarnings("default")  # Ray's own are not ours
def test_a_folder_is_audited_on_a_local_cluster(example: Any, tmp_path: Path) -> None:
    """Two files, read, cut into batches and audited by Ray's workers."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("pyarrow")
    for name in ("a.jsonl", "b.jsonl"):
        shutil.copy(REAL, tmp_path / name)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        report = example.audit_folder(str(tmp_path))
    finally:
        ray.shutdown()
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    assert audit_files(files, policies=example.COMPARED).as_dict() == report.as_dict()
