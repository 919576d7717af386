"""A keeper or a rank that somebody has stopped (SIGSTOP) keeps no processors."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psutil
import pytest

from dq_client.base import process_tree
from harness.bench import until
from harness.live import ENDED, Live

pytestmark = pytest.mark.live

SLEEPING = ("-n", 2, "--kind", "rigid", "--", "sleep", 600)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    found = Live(tmp_path_factory.mktemp("dq") / "home")
    found.up(4)
    yield found
    found.clear()


def ranks_of(live: Live) -> list[psutil.Process]:
    """Of the job that runs."""
    there = [
        psutil.Process(pid)
        for pid in process_tree.of_home(live.home.root)
        if psutil.pid_exists(pid)
    ]
    return [each for each in there if each.cmdline() == ["sleep", "600"]]


@pytest.mark.parametrize("keepers", [True, False], ids=["keeper", "ranks"])
@pytest.mark.parametrize("ends", ["kill", "walltime"])
def test_a_job_whose_processes_are_stopped_can_be_ended(
    live: Live, ends: str, keepers: bool
) -> None:
    limit = ("--walltime", "0:04") if ends == "walltime" else ()
    job = live.submit(*limit, *SLEEPING)
    until(lambda: len(ranks_of(live)) == 2, "no ranks")
    stopped = list({each.ppid() if keepers else each.pid for each in ranks_of(live)})
    process_tree.kill(stopped, signal.SIGSTOP)
    if ends == "kill":
        live.dq("kill", job)
    view = live.wait(job, lambda view: view["state"] in ENDED)
    assert view["state"] == {"kill": "killed", "walltime": "failed"}[ends]
    until(lambda: not any(map(process_tree.exists, stopped)), "what was stopped is still there")
