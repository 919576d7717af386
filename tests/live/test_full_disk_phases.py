"""A disk that is full in a phase of a job: its output is whole, or its loss is told everywhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bench import until
from harness.live import Live
from tests.live.failing_disks import Disk, Full, mounted

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

LINES = 30_000  # of 100 bytes: more than a keeper keeps for a disk that fails
FEW = 100  # more than a page, which a file has to the end although the disk is full
PHASES = ("before", "beginning", "printing", "ending")
# Each phase begins once the test has made a file of its name, and ends with its lines.
PROGRAM = """
import pathlib, sys, time
for phase in sys.argv[3:]:
    while not pathlib.Path(sys.argv[1], phase).exists():
        time.sleep(0.02)
    for n in range(int(sys.argv[2]) if phase == "printing" else 50):
        print(f"{phase:9} {n:89}")
    sys.stdout.flush()
    pathlib.Path(sys.argv[1], phase + " is over").touch()
"""
MISSING = re.compile(r"\ndq: (\d+) bytes are missing: No space left on device\n")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with mounted(Full, tmp_path) as found:
        yield found


@pytest.fixture
def live(disk: Disk, tmp_path: Path) -> Iterator[Live]:
    made = Live(tmp_path / "home")
    made.up(1)
    yield made
    made.clear()


def check(live: Live, job: int, written: Path, lines: int) -> int:
    """How many bytes are lost; each is told by `dq job`, `dq why` and both logs."""
    lost = int(live.job(job)["output_lost_bytes"])
    text = written.read_text()
    notices = sum(map(int, MISSING.findall(text)))
    assert notices in (lost, 0)
    assert len(MISSING.sub("", text)) + lost == lines * 100
    if lost:
        assert f"{lost} bytes of it are lost" in live.dq("job", job)
        assert f"{lost} bytes of the output of its ranks on n01" in live.dq("why", job)
        for name in ("server", "agent-local"):
            assert f"{lost} bytes of output" in (live.home.log / f"{name}.log").read_text()
    return lost


@pytest.mark.parametrize("lines", [FEW, LINES])
@pytest.mark.parametrize("fails", PHASES)
def test_a_disk_that_is_full_for_a_while(
    live: Live, disk: Disk, tmp_path: Path, fails: str, lines: int
) -> None:
    written = disk.root / "out.txt"
    words = ["--", sys.executable, "-c", PROGRAM, tmp_path, lines, *PHASES[1:]]
    if fails == "before":
        disk.fail()
    job = live.submit("-n", 1, "--output", written, *words)
    for phase in PHASES[1:]:
        if phase == fails:
            disk.fail()
        (tmp_path / phase).touch()
        until((tmp_path / f"{phase} is over").exists, "it does not go on", 60)
        if phase == "printing" and fails in PHASES[:3]:
            told = f"output cannot be written to {live.home.job(job)}/out"
            until(lambda: told in live.dq("why", job), "nobody says so", 60)  # noqa: B023
            disk.heal()
    if fails == "ending":
        until(lambda: "output cannot be written" in live.dq("why", job), "nobody says so", 60)
        assert live.job(job)["state"] == "running", "its output may still be written"
        disk.heal()
    view = live.wait_end(job)
    assert (view["state"], view["exit_code"]) == ("done", 0), view["reason"]
    lost = check(live, job, written, lines + 100)
    assert (lost > 0) == (lines == LINES and fails != "ending")


def test_a_job_that_is_killed_while_the_disk_is_full(
    live: Live, disk: Disk, tmp_path: Path
) -> None:
    written = disk.root / "out.txt"
    words = ["--", sys.executable, "-c", PROGRAM, tmp_path, FEW, *PHASES[1:]]
    job = live.submit("-n", 1, "--output", written, *words)
    (tmp_path / "beginning").touch()
    until(lambda: written.exists() and written.stat().st_size == 5000, "no output", 60)
    disk.fail()
    (tmp_path / "printing").touch()
    until(lambda: "output cannot be written" in live.dq("why", job), "nobody says so", 60)
    live.dq("kill", job)
    live.wait(job, lambda view: view["state"] == "killed")
    until(lambda: live.job(job)["output_lost_bytes"], "the loss is not told", 60)
    assert check(live, job, written, FEW + 50) > 0
