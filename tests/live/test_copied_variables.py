"""Protected jobs with state in plain variables: right after a restart and in place, or not without
a word."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from harness.bench import processes_of, two_nodes, until
from harness.live import ENDED
from tests.live.own_ranks import OwnRanks

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = Path(__file__).with_name("remembering.py")
TURNS = 12
DISK, PARTNER = m.Protect("disk", every_points=1), m.Protect("partner", every_points=1)
SELDOM = m.Protect("partner", every_points=4)


class Remembering(OwnRanks):
    """Jobs of remembering.py. right: the last line of a run that nothing happened to, by kind."""

    right: dict[str, str]

    def lose(self, kind: str, *deaths: str, protect: m.Protect = DISK, **more: Any) -> int:
        folder = self.home.root / f"deaths-{self.requests}"
        folder.mkdir()
        return self.run(
            sys.executable, PROGRAM, folder, TURNS, kind, *deaths, protect=protect,
            **{"initial": 4, "kind": "malleable", "sizes": m.Sizes([1, 2, 3, 4]), **more},
        )  # fmt: skip

    def undisturbed(self, kind: str) -> str:
        if kind not in self.right:
            job = self.lose(kind)
            assert self.ended(job)["state"] == "done"
            self.right[kind] = self.lines(job)[-1]
        return self.right[kind]

    def right_end(self, job: int, kind: str, *, restarts: int) -> Any:
        view = self.ended(job)
        assert (view["state"], view["restarts"]) == ("done", restarts), view["reason"]
        found = [line for line in self.lines(job) if line.startswith("data ")]
        assert found == [self.undisturbed(kind)], self.err(job)
        return view

    def err(self, job: int) -> str:
        return (self.home.job(job) / "err").read_text()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remembering]:
    made = Remembering(tmp_path_factory.mktemp("remembered"), two_nodes())
    made.right = {}
    yield made
    assert made.close() == 0, "processes were left behind"


def place(kind: str) -> str:
    """FILE:LINE that is to be named."""
    for number, text in enumerate(PROGRAM.read_text().splitlines(), 1):
        if text.endswith(f"# HERE: {kind}"):
            return f"{PROGRAM.name}:{number}: "
    raise AssertionError(kind)


@pytest.mark.parametrize("protect", [DISK, PARTNER], ids=["disk", "partner"])
@pytest.mark.parametrize("kind", ["alike", "own"])
def test_a_restarted_job_has_its_variables(
    bench: Remembering, kind: str, protect: m.Protect
) -> None:
    """What all ranks have alike, and on as many ranks what each has for itself."""
    job = bench.lose(kind, "1:7:own:kill", protect=protect)
    view = bench.right_end(job, kind, restarts=1)
    assert view["processors"] == 4


@pytest.mark.parametrize(("protect", "deaths"), [
    (PARTNER, ["2:7:compute:kill"]),
    (PARTNER, ["0:4:compute:kill", "1:8:compute:kill"]),
    (SELDOM, ["0:7:compute:kill"]),  # of turn 4 was the last copy
], ids=["once", "twice, rank 0 first", "some turns back"])  # fmt: skip
def test_survivors_go_back_with_their_variables(
    bench: Remembering, protect: m.Protect, deaths: list[str]
) -> None:
    job = bench.lose("alike", *deaths, protect=protect)
    view = bench.right_end(job, "alike", restarts=0)
    assert view["processors"] == 4 - len(deaths)


def test_what_the_copy_does_not_have_leads_to_a_restart(bench: Remembering) -> None:
    """Of `best` and `late` it has what the set-up gave them: turn 3 is the first to change them."""
    protect = m.Protect("partner", every_points=2)
    job = bench.lose("alike", "1:3:compute:kill", protect=protect)
    bench.right_end(job, "alike", restarts=1)
    assert "has changed since the copy was made" in bench.err(job)


def test_a_rank_of_its_own_values_cannot_be_done_without(bench: Remembering) -> None:
    job = bench.lose("own", "1:7:compute:kill", protect=PARTNER)
    bench.right_end(job, "own", restarts=1)
    assert ": mine has a value of its own on each rank" in bench.err(job)


def test_a_lost_value_of_a_rank_fails_the_job(bench: Remembering) -> None:
    job = bench.lose("own", "3:7:own:kill", protect=DISK, sizes=m.Sizes([2, 4]))
    until(lambda: (bench.view(job)["protection"]["step"] or 0) >= 3, "no copy is made")
    node = {"n01": "n02", "n02": "n01"}[str(bench.view(job)["nodes"][0])]
    for pid in (bench.agent_pid(node), *processes_of(bench, node)):
        os.kill(pid, signal.SIGKILL)
    until(lambda: bench.view(job)["state"] in ENDED, "the job never ends", 90)
    bench.restart_agent(node)
    view = bench.ended(job)
    assert view["state"] == "failed"
    assert f"{place('own')}mine is added up by each rank for itself" in view["reason"]


def test_what_cannot_be_copied_costs_the_copies(bench: Remembering) -> None:
    """Then a restart is one from the beginning."""
    job = bench.lose("generator", "1:5:own:kill")
    view = bench.right_end(job, "generator", restarts=1)
    why = f"{place('generator')}batches cannot be copied"
    assert why in view["protection"]["error"] and view["protection"]["copies"] == 0
    assert bench.err(job).count(why) == 2, "each start tells it once"


def test_a_set_up_that_is_another_one_is_no_restart(bench: Remembering) -> None:
    job = bench.lose("drawn", "1:5:own:kill")
    view = bench.ended(job)
    assert view["state"] == "failed"
    assert f"{place('drawn')}offset is set before the loop and has another" in view["reason"]
