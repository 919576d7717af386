"""Another machine of the network attacks every port of a cluster over ssh (docs/security.md)."""

from __future__ import annotations

import shlex
import statistics
import time

import pytest

from harness.commands import ROOT
from tests.lab.conftest import LabMaker, left
from tests.lab.machines import Lab
from tests.lab.test_hosts import job, until
from tests.live.strangers import PROGRAM, PYTHON, Socket, Stranger, listeners
from tests.live.test_strangers import DELAY_MOST_S

pytestmark = [pytest.mark.live, pytest.mark.mpi, pytest.mark.alone]

CHECKED = ROOT / "benchmarks" / "_endless_app.py"
ADDRESSES = {"alpha": "10.77.0.1", "beta": "10.77.0.2"}
ROUNDS = (4, 2) * 3
HOSTS = """\
engine = "hosts"
[[nodes]]
names = ["alpha", "beta"]
processors = 2
[network]
interface = "eth0"
"""


def listening(lab: Lab) -> set[Socket]:
    """What of the cluster's machines the other one can address; their sshd is not ours."""
    found = set()
    for name, address in ADDRESSES.items():
        found |= {(address, port) for _, port in listeners(lab.first(name)) if port != 22}
    return found


def resized(lab: Lab) -> list[float]:
    """Seconds of each resize of a job over both machines, which ends right."""
    lab.ok("alpha", "rm -f ~/stop")
    lab.ok("alpha", f"dq submit -n 2 --sizes 2,4 -- python {CHECKED} ~/stop")
    until(lambda: (job(lab)["remap_points"] or 0) > 0, "it does not get on")
    took = []
    for size in ROUNDS:
        began = time.monotonic()
        lab.ok("alpha", f"dq resize last {size}")
        until(
            lambda: job(lab)["processors"] == size,  # noqa: B023
            f"it is not resized: {lab.ok('alpha', 'dq why last')}",
        )
        took.append(time.monotonic() - began)
    lab.ok("alpha", "touch ~/stop")
    until(lambda: job(lab)["state"] not in ("running", "starting"), "it does not end")
    assert job(lab)["state"] == "done", lab.ok("alpha", "dq why last")
    return took


def test_a_machine_beside_the_cluster(make_lab: LabMaker) -> None:
    lab = make_lab("alpha", "beta", "gamma")
    lab.ok("alpha", f"cat > hosts.toml <<'X'\n{HOSTS}\nX")
    # Resized by hand alone.
    lab.ok("alpha", "printf '[scheduler]\\nresize = \"none\"\\n' > manual.toml")
    lab.ok("alpha", "dq up --cluster hosts.toml --config manual.toml --detach")
    quiet = resized(lab)
    words, env = lab.words("gamma", f"exec {PYTHON} {shlex.quote(str(PROGRAM))}", root=True)
    with Stranger(words, lambda: listening(lab), env) as stranger:
        beside = resized(lab)
    assert len(stranger.places) >= 4, "the server, and UCX in each rank"
    assert stranger.found["connections"] > 0
    assert stranger.learned() == []
    # By pairs: growths take three times as long as shrinks, and the median of all lies between.
    delays_s = [after - before for before, after in zip(quiet, beside, strict=True)]
    assert statistics.median(delays_s) < DELAY_MOST_S, (quiet, beside)
    lab.ok("alpha", "dq down")
    assert not left(lab)
