"""Tests that fail are tried again, if they are few, and named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands import ROOT

FLAKY = """\
import pathlib, pytest

@pytest.mark.parametrize("number", range({count}))
def test_at_the_second_try(number):
    file = pathlib.Path(f"tried-{{number}}")
    tried = file.exists()
    file.touch()
    assert tried

def test_right():
    pass
"""


@pytest.mark.parametrize(
    ("count", "code", "said"),
    [
        (0, 0, ""),
        (1, 0, "passed only at the second try: test_flaky.py::test_at_the_second_try[0]"),
        (3, 1, "3 tests failed; 2 at most are tried again"),
    ],
)
def test_few_that_fail_are_tried_again_and_named(
    tmp_path: Path, count: int, code: int, said: str
) -> None:
    (tmp_path / "test_flaky.py").write_text(FLAKY.format(count=count))
    words = [sys.executable, "-m", "harness.second_try", sys.executable, "-m", "pytest", "-q"]
    done = subprocess.run(
        [*words, "test_flaky.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout
