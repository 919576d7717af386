"""A job that is resized after chosen iterations, whatever the speed of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

from harness.commands import ROOT, ClusterError
from harness.live import Live

GATED = ROOT / "tests" / "live" / "gated.py"


EACH_ITERATION = ("--env", "DQ_REPORT_INTERVAL=0")  # is a remap point


def up(cluster: Live, processors: int, folder: Path) -> None:
    """Bring up a cluster that resizes only when asked to."""
    config = folder / "walk.toml"
    config.write_text('[scheduler]\nresize = "none"\n')
    cluster.up(processors, "--config", config)


def resized(
    cluster: Live,
    folder: Path,
    program: Sequence[object],
    gates: Mapping[int, int | str],
    limit_s: float = 240.0,
    first: int = 1,
) -> str:
    """Return what a Python program prints that starts on `first` processors and is resized.

    gates: the new size, or grid, by the number of iterations after which the job is asked for it
    folder: for files of the gates, empty before

    Raises:
        ClusterError: the job did not end well, or not all of the resizes were carried out.
    """
    made = [first, *(prod(map(int, str(size).split("x"))) for size in gates.values())]
    grids = [size for size in gates.values() if isinstance(size, str)]
    chain = ",".join(map(str, [*sorted(set(made)), *grids]))
    gate = [GATED, folder, ",".join(map(str, gates))]
    options = ("-n", first, "--sizes", chain, *EACH_ITERATION)
    job = cluster.submit(*options, "--", "python", *gate, *program)
    for iteration, size in gates.items():
        there = folder / f"at-{iteration}"
        cluster.wait(job, lambda _, there=there: there.exists(), limit_s)  # type: ignore[misc]
        cluster.dq("resize", job, size)
        (folder / f"go-{iteration}").touch()
    return _output(cluster, job, made, limit_s)


def plain(cluster: Live, program: Sequence[object], limit_s: float = 240.0) -> str:
    """Return what a Python program prints on one processor.

    Raises:
        ClusterError: it did not end well.
    """
    job = cluster.submit("-n", 1, "--sizes", 1, "--", "python", *program)
    return _output(cluster, job, [1], limit_s)


def _output(cluster: Live, job: int, sizes: Sequence[int], limit_s: float) -> str:
    end = cluster.wait_end(job, limit_s)
    made = [size["processors"] for size in end["sizes"]]
    if end["state"] != "done" or made != list(sizes):
        why, errors = cluster.dq("why", job), cluster.dq("logs", job, "--err")
        raise ClusterError(f"on {made} and not on {list(sizes)}: {why}\n{errors}")
    return cluster.dq("logs", job)
