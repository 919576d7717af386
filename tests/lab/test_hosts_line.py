"""A machine behind a slow line, and one that is cut off for longer than it is waited for."""

from __future__ import annotations

import time

import pytest

from harness.commands import ROOT
from tests.lab.conftest import LabMaker, left
from tests.lab.test_hosts import job, nodes, product, until
from tests.lab.test_hosts_shared import up

pytestmark = [pytest.mark.live, pytest.mark.mpi]

NAMES = ("alpha", "beta", "gamma")
ALL = '["alpha", "beta", "gamma"]'
GROWING = ROOT / "tests/live/growing.py"
HEARTBEAT_S = 2.0
CUT_S = 30
SLOW_MBIT = 20


def test_a_job_tries_a_machine_behind_a_slow_line_and_leaves_it(make_lab: LabMaker) -> None:
    lab = make_lab(*NAMES)
    lab.slow("gamma", SLOW_MBIT)
    up(lab, ALL, "10.77.0.0/24")
    words = "python -m apps.matmul --n 600 --iterations 1500 --check"
    lab.ok("alpha", f"dq submit -n 4 --sizes 4,6 -- {words}")
    assert product(lab)
    found = job(lab)
    sizes = [stay["processors"] for stay in found["sizes"]]
    assert sizes[:3] == [4, 6, 4], "and then, at most, it is tried again"
    assert found["restarts"] == 0, "slow is not lost"
    assert nodes(lab) == dict.fromkeys(NAMES, "up")


def test_half_a_minute_without_a_machine_costs_one_restart(make_lab: LabMaker) -> None:
    lab = make_lab(*NAMES, shared_home=True)  # which a restart across machines needs
    up(lab, ALL, "10.77.0.0/24", f"--heartbeat {HEARTBEAT_S}")
    stop = lab.shared / "stop"
    words = f"python {GROWING} --n 96 --iterations 100000 --seconds 1 --stop {stop}"
    lab.ok("alpha", f"dq submit -n 6 --sizes 2,4,6 --protect partner -- {words}")
    until(lambda: (job(lab)["remap_points"] or 0) > 5, "it does not get on")
    cut_s = time.monotonic()
    lab.cut("beta")
    until(lambda: nodes(lab)["beta"] == "lost", "beta is not missed")
    until(lambda: job(lab)["processors"] == 4, "it does not go on without beta")
    time.sleep(max(0.0, cut_s + CUT_S - time.monotonic()))
    lab.heal("beta")
    back_s = until(lambda: nodes(lab)["beta"] == "up", "beta does not come back")
    assert back_s < CUT_S / 2, "TCP's own back-off would take as long again as the cut"
    lab.ok("alpha", "dq resize last 6")
    until(lambda: job(lab)["processors"] == 6, "it does not grow onto beta again")
    stop.touch()
    assert product(lab)
    assert job(lab)["restarts"] <= 1, "none, if its survivors went on in place"
    lab.ok("alpha", "dq down")
    assert not left(lab)
