"""Resizes at exact iterations: policy "drawn" orders them, DQ_WAIT_FOR_RANKS=1 carries them out."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = """\
import resize_lib

with resize_lib.session() as rs:
    x = rs.array("x", 12)
    sizes = rs.value("sizes", [])
    for iteration in rs.iterations(40):
        sizes.value.append(rs.size)
        x.local[:] += 1
    total = rs.comm.allreduce(float(x.local.sum()))
    if rs.rank == 0:
        print(*sizes.value, flush=True)
        print("sum", total, flush=True)
"""
CONFIG = """\
[scheduler]
resize = "drawn"

[scheduler.drawn]
seed = {seed}
every = 3
most = 10
"""


def sizes(folder: Path, seed: int) -> list[int]:
    """The size at each iteration of the first job of a cluster of its own."""
    folder.mkdir()
    config, program = folder / "config.toml", folder / "program.py"
    config.write_text(CONFIG.format(seed=seed))
    program.write_text(PROGRAM)
    live = Live(folder / "home")
    live.env["DQ_WAIT_FOR_RANKS"] = "1"
    try:
        live.up(32, "--config", config)
        job = live.submit("--sizes", "1,2,3", "--", "python", program)
        assert live.wait_end(job)["state"] == "done"
        told, total = live.dq("logs", job).splitlines()
        assert total == f"sum {12 * 40:.1f}"
        return [int(word) for word in told.split()]
    finally:
        live.clear()


def test_a_program_without_pauses_is_resized_at_the_same_iterations(tmp_path: Path) -> None:
    first, again, other = (
        sizes(tmp_path / name, seed) for name, seed in (("a", 4), ("b", 4), ("c", 5))
    )
    assert len(first) == 40 and first == again != other
    assert [sum(a != b for a, b in pairwise(run)) for run in (first, other)] == [10, 10]
