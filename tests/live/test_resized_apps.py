"""The sample applications under the server: right after every sequence of resizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from harness import walks
from harness.live import Job, Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]


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
def test_the_result_is_right_after_growing_and_shrinking(
    ordered: Live, tmp_path: Path, app: str
) -> None:
    words = [f"apps/{app}.py", "--n", 480, "--block", 24, "--iterations", 55, "--check"]
    gates: dict[int, int | str] = {3: 4, 15: "4x1", 27: 1, 39: 3}
    found = json.loads(walks.resized(ordered, tmp_path, words, gates, first=2))
    assert found["ok"]
    assert found["processors"] == 3


@pytest.mark.parametrize(
    ("app", "words", "gates", "says"),
    [
        ("stencil3d.py", (25, 300), {3: 4, 15: 1, 27: 3}, "field"),
        ("jacobi.py", (200, 300), {3: 4, 15: 2}, "change"),
    ],
)
def test_the_last_bit_is_that_of_a_run_without_resizes(
    ordered: Live,
    tmp_path: Path,
    app: str,
    words: tuple[int, ...],
    gates: dict[int, int | str],
    says: str,
) -> None:
    resized = walks.resized(ordered, tmp_path, [f"apps/{app}", *words], gates)
    assert resized == walks.plain(ordered, [f"docs/examples/plain/{app}", *words])
    assert says in resized


CHOOSY = """
import time
import resize_lib
with resize_lib.session({}) as rs:
    {}
    for turn in rs.iterations():
        time.sleep(0.02)
"""


def test_a_program_is_never_on_a_size_that_it_cannot_run_on(ordered: Live, tmp_path: Path) -> None:
    program, other = tmp_path / "choosy.py", tmp_path / "other.py"
    program.write_text(CHOOSY.format('legal=("divides", 6)', ""))
    other.write_text(CHOOSY.format("", 'rs.legal("divides", 6)'))
    job = ordered.submit("-n", 2, "--sizes", "1,2,3,4", "--", "python", other)
    ordered.wait(job, lambda j: j["remap_points"] > 0)
    refused = ordered.run("resize", job, 4)
    assert refused.returncode == 4
    assert "size 4 is not among the job's legal sizes 1, 2, 3" in refused.stderr
    assert "its program can run on 1, 2, 3" in refused.stderr
    walk(ordered, job, [3, 1])
    assert json.loads(ordered.dq("job", job, "--json"))["legal_sizes"] == [1, 2, 3]
    ordered.dq("kill", job)
    wrong = ordered.submit("-n", 4, "--", "python", program)
    end = ordered.wait_end(wrong)
    assert end["state"] == "failed"
    assert "the program can run on 1, 2, 3, 6 ranks, not on 4" in end["reason"]
