"""The sample applications under the server: right after every sequence of resizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from harness.live import Job, Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]


@pytest.fixture
def fixed(live: Live, tmp_path: Path) -> Live:
    """A cluster that resizes only when told to: `dq resize`."""
    config = tmp_path / "config.toml"
    config.write_text('[scheduler]\nresize = "none"\n')
    live.up(4, "--config", config)
    return live


def is_on(size: int | str, job: Job) -> bool:
    """Whether a job has this many processors, or this grid."""
    return size in (job["processors"], "{}x{}".format(*job["grid"]))


def walk(cluster: Live, job: int, sizes: Sequence[int | str]) -> None:
    """Bring a running job to each size, or grid, in turn."""
    for size in sizes:
        cluster.wait(job, lambda j: j["remap_points"] > 0)
        cluster.dq("resize", job, size)
        cluster.wait(job, partial(is_on, size))


@pytest.mark.parametrize("app", ["matmul", "lu"])
def test_the_result_is_right_after_growing_and_shrinking(fixed: Live, app: str) -> None:
    job = fixed.submit("-n", 2, "--sizes", "1,2,3,4,4x1", "--", "python", "-m", f"apps.{app}",
                       "--n", 900, "--block", 24, "--iterations", 250, "--check")  # fmt: skip
    walk(fixed, job, [4, "4x1", 1, 3])
    end = fixed.wait_end(job)
    assert end["state"] == "done", fixed.dq("logs", job, "--err")
    assert [s["processors"] for s in end["sizes"]] == [2, 4, 4, 1, 3]
    found = json.loads(fixed.dq("logs", job))
    assert found["ok"]
    assert found["processors"] == 3


def test_cartesian_arrays_end_bit_by_bit_as_without_resizes(fixed: Live) -> None:
    words = (25, 30000)
    job = fixed.submit(
        "-n", 2, "--sizes", "1,2,3,4", "--", "python", "apps/stencil3d.py", *words
    )  # fmt: skip
    walk(fixed, job, [4, 1, 3])
    assert fixed.wait_end(job)["state"] == "done", fixed.dq("logs", job, "--err")
    plain = fixed.submit("-n", 1, "--", "python", "docs/examples/plain/stencil3d.py", *words)
    assert fixed.wait_end(plain)["state"] == "done"
    assert fixed.dq("logs", job) == fixed.dq("logs", plain)
    assert "field" in fixed.dq("logs", job)


CHOOSY = """
import time
import resize_lib
with resize_lib.session({}) as rs:
    {}
    for turn in rs.iterations():
        time.sleep(0.02)
"""


def test_a_program_is_never_on_a_size_that_it_cannot_run_on(fixed: Live, tmp_path: Path) -> None:
    program, other = tmp_path / "choosy.py", tmp_path / "other.py"
    program.write_text(CHOOSY.format('legal=("divides", 6)', ""))
    other.write_text(CHOOSY.format("", 'rs.legal("divides", 6)'))
    job = fixed.submit("-n", 2, "--sizes", "1,2,3,4", "--", "python", other)
    fixed.wait(job, lambda j: j["remap_points"] > 0)
    refused = fixed.run("resize", job, 4)
    assert refused.returncode == 4
    assert "size 4 is not among the job's legal sizes 1, 2, 3" in refused.stderr
    assert "its program can run on 1, 2, 3" in refused.stderr
    walk(fixed, job, [3, 1])
    assert json.loads(fixed.dq("job", job, "--json"))["legal_sizes"] == [1, 2, 3]
    fixed.dq("kill", job)
    wrong = fixed.submit("-n", 4, "--", "python", program)
    end = fixed.wait_end(wrong)
    assert end["state"] == "failed"
    assert "the program can run on 1, 2, 3, 6 ranks, not on 4" in end["reason"]


def test_jacobi_gives_the_same_digits_after_resizes(fixed: Live) -> None:
    words = ("--", "python", "{}/jacobi.py", 200, 9000)

    def submit(folder: str, *sizes: str) -> int:
        named = [str(w).format(folder) for w in words]
        return fixed.submit("-n", 1, *sizes, *named)

    job = submit("apps", "--sizes", "1,2,4")
    walk(fixed, job, [4, 2])
    assert fixed.wait_end(job)["state"] == "done", fixed.dq("logs", job, "--err")
    plain = submit("docs/examples/plain")
    assert fixed.wait_end(plain)["state"] == "done"
    assert fixed.dq("logs", job) == fixed.dq("logs", plain)
    assert "change" in fixed.dq("logs", job)
