"""The README's code blocks do what they say: run in order, in a fresh copy of the tree."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base.home import Home
from dq_client.deploy import local
from harness.pages import put

pytestmark = [pytest.mark.live, pytest.mark.mpi]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def fresh_copy(tmp_path: Path) -> Iterator[Path]:
    """What a clone of the current tree would hold, changes that are not committed included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            target = tmp_path / "dq" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    yield tmp_path / "dq"
    assert local.leftovers(Home(tmp_path / "home")) == []


def test_the_blocks_run_in_a_fresh_clone(fresh_copy: Path, tmp_path: Path) -> None:
    smaller = {"\ndq demo\n": "\ndq demo --n 600\n"}  # as in `make release`
    script = "set -euo pipefail\n" + put("\n".join(blocks("bash")), smaller)
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))},
        "DQ_HOME": str(tmp_path / "home"),
    }
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=fresh_copy, env=env, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    if done.returncode:
        subprocess.run([fresh_copy / ".venv/bin/dq", "down", "--force"], env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 energies, the last -45469.5" in done.stdout  # the program's own output, by dq logs
    assert (fresh_copy / "report.html").stat().st_size > 1000
    assert (fresh_copy / "mine.html").stat().st_size > 1000


def test_ci_and_make_run_what_the_readme_says() -> None:
    (commands,) = blocks("console")
    assert commands.split("\n")[:2] == ["make demo", "make test"]
    assert "make test" in (ROOT / ".ci/run").read_text()
    makefile = (ROOT / "Makefile").read_text()
    assert '-e ".[mpich]"' in makefile and '-e ".[mpich,dev]"' in makefile
    assert "\nPYTHON ?= python3\n" in makefile and "$(PYTHON) -m venv" in makefile


def test_every_linked_file_exists() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), f"README links to {target}"
