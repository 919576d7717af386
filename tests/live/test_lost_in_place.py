"""Ranks of a job protected by partners die: the others go on in the same processes, where they can,
and the result is the same to the last bit."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.deploy.cluster import local_cluster
from harness.bench import two_nodes, until
from tests.live.own_ranks import OwnRanks

pytestmark = [pytest.mark.live, pytest.mark.mpi]

LOSING = str(Path(__file__).with_name("losing.py"))
CLUSTERS = {"one agent": lambda: local_cluster(4), "two agents": two_nodes}
TURNS = 9
EVERY_TURN = m.Protect("partner", every_points=1)
LINE = re.compile(r"rank (\d+) of (\d+): (\d+) at (\d+)")


class Losing(OwnRanks):
    right = ""  # the checksum of a run that nothing happened to

    def lose(self, *deaths: str, protect: m.Protect = EVERY_TURN, turns: int = TURNS) -> int:
        folder = self.home.root / f"deaths-{self.requests}"
        folder.mkdir()
        sizes = m.Sizes([1, 2, 3, 4])
        return self.run(
            sys.executable, LOSING, folder, turns, *deaths,
            initial=4, kind="malleable", sizes=sizes, protect=protect,
        )  # fmt: skip

    def right_end(self, job: int, *, restarts: int) -> Any:
        view = self.ended(job)
        story = [entry["text"] for entry in self.ask(m.WhyQuery(job))["story"]]
        assert (view["state"], view["restarts"]) == ("done", restarts), story
        found = [line for line in self.lines(job) if line.startswith("data ")]
        assert found == [f"data {self.right}"], "the result, and exactly once"
        return view

    def turns(self, job: int) -> list[tuple[int, ...]]:
        """Rank, size, pid and turn of each line."""
        found = map(LINE.fullmatch, self.lines(job))
        return [tuple(map(int, match.groups())) for match in found if match]

    def pids(self, job: int) -> dict[int, set[int]]:
        """Processes that ran at each size."""
        by_size: dict[int, set[int]] = {}
        for _, size, pid, _ in self.turns(job):
            by_size.setdefault(size, set()).add(pid)
        return by_size


@pytest.fixture(scope="module", params=["two agents"])
def bench(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Losing]:
    made = Losing(tmp_path_factory.mktemp("lost"), CLUSTERS[request.param]())
    job = made.lose()
    assert made.ended(job)["state"] == "done"
    made.right = made.lines(job)[-1].removeprefix("data ")
    yield made
    assert made.close() == 0, "processes were left behind"


@pytest.mark.parametrize(
    ("deaths", "size"),
    [
        (["2:4:compute:kill"], 3),
        (["0:4:compute:segv"], 3),
        (["0:4:copy:exit"], 3),
        (["3:4:copy:kill"], 3),
        (["1:4:compute:kill", "0:6:compute:kill"], 2),
        (["1:4:compute:exit", "2:4:compute:segv"], 2),
        (["0:4:compute:kill", "1:4:compute:kill", "3:4:copy:kill"], 1),
        (["1:8:compute:kill"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_others_go_on_in_the_same_processes(
    bench: Losing, deaths: list[str], size: int
) -> None:
    job = bench.lose(*deaths)
    view = bench.right_end(job, restarts=0)
    assert view["processors"] == size
    pids = bench.pids(job)
    assert len(pids[4]) == 4
    assert len(pids[size]) == size
    assert pids[size] < pids[4], "they are not the processes that they were"


def test_a_rank_dies_in_a_redistribution(bench: Losing) -> None:
    job = bench.lose("3::move:kill", turns=40)
    right, bench.right = bench.right, ""
    until(lambda: bool(bench.turns(job)), "the job does not begin")
    bench.ask(m.Resize(job, 2))
    view = bench.ended(job)
    assert (view["state"], view["restarts"]) == ("done", 0), view["reason"]
    bench.right = bench.lines(job)[-1].removeprefix("data ")
    bench.right_end(bench.lose(turns=40), restarts=0)
    bench.right = right
    # UCX ends a rank that takes in a long message of one on its node that is dead by then.
    assert [stay["processors"] for stay in view["sizes"]] in ([4, 3], [4, 2])


@pytest.mark.parametrize("bench", ["one agent"], indirect=True, scope="module")
def test_a_job_grows_and_shrinks_after_a_loss(bench: Losing) -> None:
    job = bench.lose("1:3:compute:kill", turns=1000)
    until(lambda: bool(bench.turns(job)) and bench.turns(job)[-1][1] == 3, "it does not go on")
    for size in (4, 2):
        bench.ask(m.Resize(job, size))
        until(lambda: bench.turns(job)[-1][1] == size, "the job is not resized")  # noqa: B023
    (pid,) = (pid for rank, size, pid, _ in bench.turns(job)[-2:] if (rank, size) == (1, 2))
    os.kill(pid, signal.SIGKILL)
    until(lambda: bench.turns(job)[-1][1] == 1, "it does not go on a second time")
    view = bench.view(job)
    assert [stay["processors"] for stay in view["sizes"]] == [4, 3, 4, 2, 1]
    assert view["restarts"] == 0
    bench.ask(m.Kill(job))
    bench.ended(job)


def test_a_part_from_before_the_loss_is_refused(bench: Losing) -> None:
    job = bench.lose("2:4:compute:kill", "keep")
    view = bench.ended(job)
    assert (view["state"], view["restarts"]) == ("failed", 0), view["reason"]
    here = Path(LOSING).read_text().splitlines().index("                kept.sum()  # HERE") + 1
    assert f"losing.py:{here}: this part of 'M' is from before a resize" in view["reason"]


def test_ranks_in_a_call_of_their_own_cannot_go_on_and_are_restarted(bench: Losing) -> None:
    job = bench.lose("2:4:own:kill")
    bench.right_end(job, restarts=1)


def test_a_loss_before_the_first_copy_begins_anew(bench: Losing) -> None:
    seldom = m.Protect("partner", every_s=600.0)
    job = bench.lose("2:3:compute:kill", protect=seldom)
    bench.right_end(job, restarts=1)


def test_the_next_copy_is_made_at_once(bench: Losing) -> None:
    """Of what is left, some parts lie on one node only."""
    job = bench.lose("2:4:compute:kill", protect=m.Protect("partner", every_points=3))
    view = bench.right_end(job, restarts=0)
    turns = [turn for rank, _, _, turn in bench.turns(job) if rank == 0]
    assert turns == [0, 1, 2, 3, 4, *range(3, TURNS)], "it does not go back to the copy"
    # Of turn 3, then of 4, because of some parts there is one file only, and three turns later.
    assert (view["protection"]["copies"], view["protection"]["step"]) == (3, 7)
