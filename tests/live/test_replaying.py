"""Collectives before a loop: ranks that join get their results, or the resize is given up once."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bench import until
from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = Path(__file__).with_name("replaying.py")
RIGHT = [
    "early",
    "broadcast",
    "buffers",
    "reduced",
    "gathered",
    "own calls",
    "between loops",
    "set up",
    "nested",
]
TOLD = {
    "split": "communication (Split) before the loop",
    "scattered": "communication (scatter) before the loop",
    "ranks_differ": "its result has an entry of each rank",
    "too_large": "exceed the DQ_SETUP_BYTES=65536",
    "other_calls": "calls bcast (root 0) before the loop, where the job has called allreduce",
    "fewer_calls": "barrier before the loop, but ranks that join do not come to this call",
}
SIZES = (3, 2, 3)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, dict[str, int]]]:
    """One of each case, all at once; those that are right go through the sizes."""
    folder = tmp_path_factory.mktemp("dq")
    live, stop = Live(folder / "home"), folder / "stop"
    live.up(3 * len(RIGHT) + 2 * len(TOLD))
    found = {}
    for case in (*RIGHT, *TOLD):
        words = ["--env", "DQ_SETUP_BYTES=65536"] if case == "too_large" else []
        sizes = "1,2,3" if case in RIGHT else "1,2"
        argv = ["--", sys.executable, PROGRAM, case, stop]
        found[case] = live.submit("--sizes", sizes, *words, *argv)
    for job in found.values():
        live.wait(job, lambda view: view["state"] == "running" and view["remap_points"] > 0)
    for size in SIZES:
        for case in RIGHT:
            live.dq("resize", found[case], size, "--hold")
        for case in RIGHT:
            live.wait(found[case], lambda view: view["processors"] == size, 120.0)  # noqa: B023
    for case in TOLD:
        until(lambda: settled(live, found[case]), f"no resize of {case} is given up", 60.0)  # noqa: B023
    stop.touch()
    yield live, found
    live.clear()


def told(live: Live, job: int) -> list[str]:
    """What the resizes say that were given up."""
    story = json.loads(live.dq("why", job, "--json"))["story"]
    return [entry["text"] for entry in story if "1 to 2 did not happen" in entry["text"]]


def settled(live: Live, job: int) -> bool:
    """Whether a resize was given up, and a later remap point has said that none follows."""
    story = json.loads(live.dq("why", job, "--json"))["story"]
    return any("not tried again" in entry["text"] for entry in story) and bool(told(live, job))


def line(case: str) -> str:
    for number, text in enumerate(PROGRAM.read_text().splitlines(), 1):
        if text.endswith(f"# HERE: {case}"):
            return f"{PROGRAM.name}:{number}:"
    raise AssertionError(case)


def check_sum(live: Live, job: int) -> None:
    view = live.wait_end(job)
    assert view["state"] == "done", view["reason"]
    _, total, _, expected = live.dq("logs", job).split()
    assert total == expected


@pytest.mark.parametrize("case", RIGHT)
def test_ranks_that_join_get_what_the_others_have_got(
    jobs: tuple[Live, dict[str, int]], case: str
) -> None:
    live, found = jobs
    check_sum(live, found[case])


@pytest.mark.parametrize("case", TOLD)
def test_what_cannot_be_repeated_is_refused_with_its_line_once(
    jobs: tuple[Live, dict[str, int]], case: str
) -> None:
    live, found = jobs
    check_sum(live, found[case])
    texts = told(live, found[case])
    assert TOLD[case] in texts[0]
    assert line(case) in texts[0]
    assert len(texts) == 1, texts  # many remap points ago
