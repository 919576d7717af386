"""`dq up` over ssh, by an ordinary user, on machines with homes of their own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.commands import ROOT, default_interrupts
from tests.lab.conftest import left
from tests.lab.machines import VENV, Lab

pytestmark = [pytest.mark.live, pytest.mark.mpi]

GROWING = ROOT / "tests/live/growing.py"
HOSTS = """\
engine = "hosts"
[[nodes]]
names = ["alpha", "beta"]
processors = 2
[[nodes]]
names = "gamma"
processors = 2
python = "{python}"
[network]
interface = "{interface}"
ports = "30000-30100"
"""


def write_hosts(lab: Lab, *, python: str = str(VENV / "python"), interface: str = "eth0") -> None:
    text = HOSTS.format(python=python, interface=interface)
    lab.ok("alpha", f"cat > hosts.toml <<'X'\n{text}\nX")


def up(lab: Lab, *options: str) -> dict[str, Any]:
    words = " ".join(("dq up --cluster hosts.toml --detach --json", *options))
    found: dict[str, Any] = json.loads(lab.ok("alpha", words))
    return found


def job(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lab.ok("alpha", "dq job last --json"))["job"]
    return found


def nodes(lab: Lab) -> dict[str, str]:
    rows = json.loads(lab.ok("alpha", "dq nodes --json"))["nodes"]
    return {row["name"]: row["state"] for row in rows}


def until(what: Callable[[], bool], why: str, within_s: float = 120) -> float:
    """Seconds until it holds."""
    began, pause_s = time.monotonic(), 0.2
    while not what():
        assert time.monotonic() - began < within_s, why
        time.sleep(pause_s)
        pause_s = min(1.3 * pause_s, 1.5)  # each look is a `dq` process, which others feel
    return time.monotonic() - began


def product(lab: Lab) -> bool:
    """Whether the last job, an application with --check, finds its result right at its end."""
    said = lab.ok("alpha", "dq logs last --follow", timeout_s=300.0).splitlines()
    assert said, lab.ok("alpha", "dq job last; dq logs last --err")
    assert job(lab)["state"] == "done"
    return json.loads(said[-1])["ok"] is True


@pytest.fixture
def machines(lab: Lab) -> Iterator[Lab]:
    """The module's machines, without a cluster before and after."""
    yield lab
    lab.heal("beta")
    lab.run("alpha", "dq down --force")
    assert not left(lab)


def test_jobs_grow_over_machines_and_a_short_cut_costs_none(machines: Lab) -> None:
    write_hosts(machines, python="/nowhere/python")
    found = up(machines)
    assert found["hosts"] == ["alpha", "beta"]
    assert found["problems"] == [
        "gamma: no Python at /nowhere/python: name one by `python` in [[nodes]]"
    ]
    assert found["server"]["address"].startswith("tcp://10.77.0.1:")
    assert nodes(machines) == {"alpha": "up", "beta": "up"}
    for app in ("matmul --n 300 --iterations 1500", "lu --n 400 --iterations 700"):
        machines.ok("alpha", f"dq submit --sizes 1,2,4 -- python -m apps.{app} --check")
        until(lambda: job(machines)["state"] == "running", "it does not start")
        machines.ok("alpha", "dq resize last 4")
        until(lambda: "to 4 done" in machines.ok("alpha", "dq why last"), "it does not grow to 4")
        assert product(machines)

    # A job on both machines, whose line is cut for longer than two heartbeats.
    stop = machines.shared / "stop"
    lasting = f"python {GROWING} --n 300 --iterations 100000 --seconds 0.4 --stop {stop}"
    machines.ok("alpha", f"dq submit --sizes 4 -- {lasting}")
    until(lambda: (job(machines)["remap_points"] or 0) > 5, "it does not get on")
    assert job(machines)["nodes"] == ["alpha", "beta"]
    # Server and ranks listen on the cluster's network, in its range of ports, and nowhere else.
    for name, address in (("alpha", "10.77.0.1"), ("beta", "10.77.0.2")):
        listening = machines.ok(name, "ss -Hltn", root=True).splitlines()
        places = [line.split()[3] for line in listening if not line.split()[3].endswith(":22")]
        assert len(places) >= 2
        for place in places:
            host, _, port = place.rpartition(":")
            assert host == address
            assert 30000 <= int(port) <= 30100
    machines.cut("beta")
    time.sleep(5)
    machines.heal("beta")
    seen = job(machines)["remap_points"]
    until(lambda: job(machines)["remap_points"] > seen + 5, "it does not go on")
    stop.touch()
    assert product(machines)
    assert nodes(machines) == {"alpha": "up", "beta": "up"}
    machines.ok("alpha", "dq down")
    assert not left(machines)


def test_a_cut_is_noticed_heals_at_once_and_does_not_hide_an_agent(machines: Lab) -> None:
    write_hosts(machines)
    up(machines, "--lost-after", "4")
    machines.cut("beta")
    cut_s = 12 + until(lambda: nodes(machines)["beta"] == "lost", "beta is not missed")
    time.sleep(12)
    machines.heal("beta")
    back_s = until(lambda: nodes(machines)["beta"] == "up", "beta does not come back")
    assert back_s < cut_s / 2, "TCP's own back-off would take as long again as the cut"

    # What is cut off at the end is named, and ended later.
    machines.cut("beta")
    done = machines.run("alpha", "dq down")
    assert done.returncode == 1
    assert "beta: ssh fails" in done.stderr
    assert left(machines, ["alpha", "gamma"]) == {}
    assert (
        len(machines.processes("beta")) == 3
    )  # the agent, what keeps it alive, and its understudy
    machines.heal("beta")
    machines.ok("alpha", "dq down")
    assert not left(machines)


def test_an_interrupted_start_leaves_nothing(machines: Lab) -> None:
    # On gamma everything takes long.
    slow = machines.shared / "python"
    slow.write_text(f'#!/bin/sh\nsleep 20\nexec {VENV}/python "$@"\n')
    slow.chmod(0o755)
    write_hosts(machines, python=str(slow))
    words, env = machines.words("alpha", "exec dq up --cluster hosts.toml --detach")
    began = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, preexec_fn=default_interrupts)
    until(lambda: "dq-agent" in str(machines.processes("beta")), "beta has no agent")
    pid = machines.ok("alpha", "pgrep -f 'dq up'", root=True).split()[0]
    machines.ok("alpha", f"kill -INT {pid}", root=True)
    assert began.wait(120) == 130
    assert left(machines, ["alpha", "beta"]) == {}
    until(lambda: not machines.processes("gamma"), "something is left on gamma", 60)


def test_every_problem_of_a_host_is_named_and_nothing_is_left(machines: Lab) -> None:
    write_hosts(machines, interface="10.99.0.0/24")
    done = machines.run("alpha", "dq up --cluster hosts.toml --detach")
    assert done.returncode == 2
    assert "no interface 10.99.0.0/24 here; this machine has eth0 (10.77.0.1)" in done.stderr

    write_hosts(machines, python="/usr/bin/python3")
    done = machines.run("alpha", "dq up --cluster hosts.toml --detach --all")
    assert done.returncode == 1
    assert "gamma: /usr/bin/python3 has no DQ" in done.stderr
    assert "1 of 3 hosts cannot be used, so the cluster is not up" in done.stderr
    assert not left(machines)


def test_output_and_missing_programs_of_all_nodes(machines: Lab) -> None:
    write_hosts(machines)
    up(machines)
    # What ranks write is shown from wherever they ran.
    machines.ok("alpha", "dq submit -n 4 --kind rigid --wait -- hostname")
    done = machines.run("alpha", "dq logs last")
    assert (done.stdout, done.stderr) == ("alpha\nalpha\nbeta\nbeta\n", "on beta:\n")

    machines.ok("alpha", "mkdir -p only-here")
    machines.ok("alpha", "cd only-here; dq submit -n 4 --kind rigid -- python -c pass")
    until(lambda: job(machines)["state"] == "failed", "it does not fail")
    assert "on beta: no such folder: /home/dqu/only-here" in job(machines)["reason"]
