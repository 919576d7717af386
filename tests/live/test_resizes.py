"""One job under a real server, brought to random sizes over and over: right, and nothing leaks."""

from __future__ import annotations

import json
import random
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from dq_client.deploy import local
from harness.live import LAUNCHERS, Job, Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = "tests.mpi.programs.session_served"
RANK_MET_KIB = 160  # 122 was measured, no data declared


def sizes_to_go(seed: int, count: int, now: int) -> list[int]:
    """Random sizes 1 to 8, each another than the one before, and then all the way."""
    chance, sizes = random.Random(seed), [now]
    for _ in range(count):
        sizes.append(chance.choice([n for n in range(1, 9) if n != sizes[-1]]))
    return [*sizes[1:], *[8] * (sizes[-1] != 8), 2]


def ranks_of(stop: Path) -> list[psutil.Process]:
    """The job's ranks, as the operating system knows them."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if words[1:] == ["-m", PROGRAM, str(stop)]:
            found.append(process)
    return found


def has(size: int, job: Job) -> bool:
    """Whether a job has this many processors."""
    return bool(job["processors"] == size)


def settle_at(stop: Path, size: int, patience_s: float = 10.0) -> None:
    """Ranks that leave take a moment to go."""
    end = time.monotonic() + patience_s
    while len(ranks_of(stop)) != size:
        assert time.monotonic() < end, f"{len(ranks_of(stop))} ranks, not {size}"
        time.sleep(0.05)


def state(cluster: Live) -> tuple[int, int]:
    """Open files of server and agent, and how many processes the cluster has beside the ranks."""
    files, others = 0, 0
    for pid in local.leftovers(cluster.home):
        try:
            process = psutil.Process(pid)
            words = process.cmdline()
            if " ".join(words).startswith(("dq-server", "dq-agent")):
                files += process.num_fds()
        except psutil.Error:  # it has ended
            continue
        others += PROGRAM not in words
    assert files, "neither server nor agent was found"
    return files, others


def settled(cluster: Live, others_most: int, patience_s: float = 10.0) -> tuple[int, int]:
    """`state` once what served ranks that have left is gone as well, or patience is at an end."""
    end = time.monotonic() + patience_s
    while True:
        files, others = state(cluster)
        if others <= others_most or time.monotonic() > end:
            return files, others
        time.sleep(0.1)


def assert_flat(marks: list[list[int]]) -> None:
    """Open files and memory (±5 %) of the largest rank in the last third as in the first.

    Rank 0 stays all the time here, and MPICH 5.0.2 never unmaps the shared memory of a rank that
    it has met, nor forgets its address: that much more is the library's.
    """
    third = len(marks) // 3
    early, late = marks[:third], marks[-third:]
    met = sum(max(0, after[1] - before[1]) for before, after in pairwise(marks))
    assert max(m[2] for m in late) <= max(m[2] for m in early) + 8
    assert max(m[3] for m in late) <= max(m[3] for m in early) * 1.05 + met * RANK_MET_KIB


def resized(
    live: Live, tmp_path: Path, count: int, seed: int
) -> tuple[dict[str, Any], tuple[int, int], tuple[int, int]]:
    config = tmp_path / "config.toml"
    config.write_text('[scheduler]\nresize = "none"\n')  # nobody but `dq resize` moves the job
    stop = tmp_path / "stop"
    live.up(8, "--config", config)
    job = live.submit("-n", 2, "--sizes", "1,2,3,4,5,6,7,8",
                      "--", "python", "-m", PROGRAM, stop)  # fmt: skip
    live.wait(job, lambda j: j["state"] == "running")
    sizes = sizes_to_go(seed, count, 2)
    before = None
    for size in sizes:
        live.dq("resize", job, size)
        live.wait(job, partial(has, size))
        settle_at(stop, size)
        if size == 2 and before is None:
            before = state(live)
    assert before is not None, "the last size is 2"
    after = settled(live, before[1] + 4)
    stop.touch()
    end = live.wait_end(job)
    assert end["state"] == "done", live.dq("logs", job, "--err", code=None)
    settle_at(stop, 0)
    told = json.loads(live.dq("logs", job).splitlines()[-1])
    assert told["sizes"] == [2, *sizes]
    assert [s["processors"] for s in end["sizes"]] == [2, *sizes]
    return told, before, after


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_resizes_through_the_server_leave_every_element_right(live: Live, tmp_path: Path) -> None:
    resized(live, tmp_path, 6, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_two_hundred_resizes_through_the_server_leak_nothing(live: Live, tmp_path: Path) -> None:
    told, before, after = resized(live, tmp_path, 198, seed=2)
    assert_flat(told["marks"])
    assert after[0] <= before[0] + 8, "open files of server and agent"
    assert after[1] <= before[1] + 4, "processes beside the ranks"
