"""The machine of the server is lost, with its disk, again and again; its standby takes its place.

Jobs are submitted all the time. None whose submission was acknowledged may be lost or run twice,
and one that runs all along, and is resized by each server, has the right result in the end.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.lab.conftest import LabMaker
from tests.lab.machines import Lab
from tests.lab.test_hosts import until

pytestmark = [pytest.mark.live, pytest.mark.mpi]

SERVERS, NODES = ("alpha", "delta"), ("beta", "gamma")
PROGRAM = Path(__file__).with_name("counting_on.py")
PATIENCE_S = 120.0


class Cluster:
    """Two nodes, and two machines for a server and its standby; each has homes of its own."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.number = lab, itertools.count(1)
        self.server, self.home = SERVERS[0], "first"
        text = "\n".join(
            ['engine = "hosts"', "[[nodes]]", f"names = {list(NODES)}", "processors = 4"]
        )
        lab.ok("alpha", f"cat > hosts.toml <<'X'\n{text}\n[network]\ninterface = \"eth0\"\nX")
        self.dq("up --cluster ~/hosts.toml --detach --all")
        self.follow()

    def dq(self, words: str, before: str = "") -> str:
        """A command for the server, on its machine."""
        return self.lab.ok(self.server, f"{before}DQ_HOME=~/{self.home} dq {words}")

    def can(self, words: str) -> bool:
        return self.lab.run(self.server, f"DQ_HOME=~/{self.home} dq {words}").returncode == 0

    def follow(self) -> None:
        """A standby on the other machine, in a new home."""
        self.other = SERVERS[SERVERS[0] == self.server]
        self.next_home = f"home{next(self.number)}"
        (self.lab.shared / "told").unlink(missing_ok=True)
        told = self.lab.ok(
            self.server, f"umask 077; DQ_HOME=~/{self.home} dq server credentials"
        ).strip()
        self.lab.ok(
            self.other,
            f"echo '{told}' | DQ_HOME=~/{self.next_home} dq server standby --credentials -"
            f" --name {self.next_home} --sync --detach",
        )

    def lose(self) -> float:
        """The server's machine is gone; seconds until a command is answered by the other one."""
        lost = self.server
        self.lab.cut(lost)
        began_s = time.monotonic()
        self.lab.run(lost, "pkill -9 -u dqu python; pkill -9 -u dqu dq; true", root=True)
        self.lab.run(lost, f"rm -rf ~/{self.home}")
        self.server, self.home = self.other, self.next_home
        while True:
            if self.can("submit -n 1 -- true"):
                break
            assert time.monotonic() < began_s + PATIENCE_S, "the standby takes no job"
            time.sleep(0.1)
        took_s = time.monotonic() - began_s
        self.lab.heal(lost)
        return took_s


class Submitter(threading.Thread):
    """Submits jobs until it is told to stop; `acknowledged` has a token of each that was taken."""

    def __init__(self, cluster: Cluster, path: Path) -> None:
        super().__init__(daemon=True)
        self.cluster, self.path = cluster, path
        self.acknowledged: dict[str, int] = {}
        self.over = threading.Event()

    def run(self) -> None:
        for number in itertools.count():
            if self.over.is_set():
                return
            server, home, token = self.cluster.server, self.cluster.home, f"token{number}"
            words = f"submit -n 1 --json -- sh -c 'echo {token} >> {self.path}'"
            try:
                done = self.cluster.lab.run(server, f"DQ_HOME=~/{home} dq {words}", timeout_s=60)
            except subprocess.TimeoutExpired:
                continue
            if done.returncode == 0:
                self.acknowledged[token] = json.loads(done.stdout)["job"]["id"]


def is_empty(lab: Lab, name: str) -> bool:
    return not lab.processes(name)


def losses(make_lab: LabMaker, times: int) -> None:
    lab = make_lab(*SERVERS, *NODES)
    cluster = Cluster(lab)
    ran, counted = lab.shared / "ran", lab.shared / "counted"
    cluster.dq(f"submit -n 2 --sizes 1,2,3,4,5,6 -- python {PROGRAM} {counted}")
    submitter = Submitter(cluster, ran)
    submitter.start()
    took = []
    for n in range(times):
        time.sleep(0.7 * (n % 4))
        took.append(cluster.lose())
        print(f"{n + 1}: {took[-1]:.1f} s, {len(submitter.acknowledged)} jobs", flush=True)
        cluster.follow()
        # A program that has just begun when the server is lost takes a while to find the next one.
        until(partial(cluster.can, f"resize 1 {1 + n % 6}"), "job 1 is not resized")
    submitter.over.set()
    submitter.join(60)
    counted.with_suffix(".stop").touch()
    until(lambda: not json.loads(cluster.dq("jobs --active --json"))["jobs"], "jobs do not end")
    tokens = ran.read_text().split()
    assert submitter.acknowledged.keys() <= set(tokens), "an acknowledged job is lost"
    assert len(tokens) == len(set(tokens)), "a job ran twice"
    ended = {job["id"]: job for job in json.loads(cluster.dq("jobs --json"))["jobs"]}
    assert ended[1]["state"] == "done", ended[1]
    turns, right = counted.read_text().split()
    assert right == "right" and int(turns) > 10
    print(f"{times} losses, {len(submitter.acknowledged)} jobs acknowledged, none lost; until the"
          f" standby has taken a job: median {statistics.median(took):.1f} s, most"
          f" {max(took):.1f} s")  # fmt: skip
    cluster.dq("down")
    for name in lab.names:
        until(partial(is_empty, lab, name), f"processes are left on {name}")


def test_a_server_is_lost_and_so_is_its_standby_when_it_serves(make_lab: LabMaker) -> None:
    losses(make_lab, 3)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_fifty_losses(make_lab: LabMaker) -> None:
    losses(make_lab, 50)
