"""Blocks of Python on the pages run, as a part of a program: on ranks, and in jobs that grow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.commands import HANG_S, ROOT
from harness.live import Job, Live
from harness.pages import Block
from harness.walks import GATED
from tests.pages.fragments import program
from tests.pages.owners import of

pytestmark = [pytest.mark.live, pytest.mark.mpi]

RANKS = {"kernels.md-0": 6}  # else two
OPTIONS = {"evolving.md-0": ("--kind", "evolving", "--max", "3")}


@pytest.mark.parametrize("block", of("ranks"), ids=str)
def test_a_block_runs_on_ranks(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "part.py"
    file.write_text(program(block))
    words = ["mpiexec", "-n", str(RANKS.get(str(block), 2)), sys.executable, str(file)]
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
           "DQ_HOME": str(tmp_path / "home")}  # fmt: skip
    done = subprocess.run(
        words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, program(block) + done.stdout + done.stderr


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A cluster that resizes only when told to."""
    cluster = Live(tmp_path_factory.mktemp("dq") / "home")
    config = cluster.home.root.parent / "manual.toml"
    config.write_text('[scheduler]\nresize = "none"\n')
    cluster.up(4, "--config", config)
    yield cluster
    cluster.clear()


@pytest.mark.parametrize("block", of("job"), ids=str)
def test_a_block_runs_in_a_job_that_grows(growing: Live, block: Block, tmp_path: Path) -> None:
    file = tmp_path / "part.py"
    file.write_text(program(block))
    options = OPTIONS.get(str(block), ("--sizes", "1,2"))
    asks = "evolving" not in options
    gate = [GATED, tmp_path, 1] if asks and "rs.iterations(" in file.read_text() else []
    job = growing.submit("-n", 1, *options, "--", "python", *gate, file)
    if asks:
        growing.wait(
            job,
            lambda j: (
                (tmp_path / "at-1").exists()
                if gate
                else j["remap_points"] > 0 or j["legal_sizes"] is not None
            ),
        )
        growing.dq("resize", job, 2)
        (tmp_path / "go-1").touch()
    found = growing.wait_end(job)
    said = growing.dq("logs", job, "--err")
    assert found["state"] == "done", (found["reason"], said, program(block))
    assert sizes(found)[:2] == ([1, 3] if "evolving" in options else [1, 2]), said


def sizes(job: Job) -> list[int]:
    return [size["processors"] for size in job["sizes"]]


def test_the_python_client_does_what_its_page_says(tmp_path: Path) -> None:
    """One after the other, as in a notebook."""
    text = "\n".join(block.text for block in of("client"))
    (tmp_path / "page.py").write_text(text)
    program = ROOT / "docs/examples/porting/after/heat.py"
    (tmp_path / "heat.py").write_text(program.read_text())
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "done" and lines[1].startswith("[1, "), lines
