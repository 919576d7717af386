"""Agents on other machines are killed, alone or with what starts them again: they come back without
ssh, and their ranks go on."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dq_client.deploy.ssh import kept_alive
from tests.lab.conftest import LabMaker, left
from tests.lab.machines import Lab
from tests.lab.test_hosts import until
from tests.lab.test_lost_servers import PROGRAM

pytestmark = [pytest.mark.live, pytest.mark.mpi]

NODES = ("beta", "gamma")
HOSTS = f"""\
engine = "hosts"
[[nodes]]
names = {list(NODES)}
processors = 2
[network]
interface = "eth0"
"""


@pytest.fixture
def machines(make_lab: LabMaker) -> Iterator[Lab]:
    lab = make_lab("alpha", *NODES)
    lab.ok("alpha", f"cat > hosts.toml <<'X'\n{HOSTS}X\ndq up --cluster hosts.toml --detach --all")
    yield lab
    lab.run("alpha", "dq down --force")


def agent_of(lab: Lab, name: str) -> int:
    said = lab.ok(name, f"cat .local/state/dq/agents/{name}/agent.json || echo '{{}}'")
    return int(json.loads(said).get("pid", 0))


def supervisor_of(lab: Lab, name: str) -> int:
    said = lab.ok(name, f"cat .local/state/dq/agents/{name}/{kept_alive.FILE}")
    return int(json.loads(said)["pid"])


def ranks(lab: Lab, name: str) -> set[str]:
    """Pids of the job's ranks on a machine."""
    # Brackets, or the shell that looks would find itself.
    return set(lab.ok(name, f"pgrep -f '[{PROGRAM.name[0]}]{PROGRAM.name[1:]}' || true").split())


def whole(lab: Lab, name: str, before: int) -> bool:
    """Whether there is another agent, which the server knows."""
    status = json.loads(lab.ok("alpha", "dq server status --json"))
    now = agent_of(lab, name)
    return now not in (0, before) and status["agents"].get(name, {}).get("pid") == now


def kills(lab: Lab, times: int) -> None:
    counted = lab.shared / "counted"
    lab.ok("alpha", f"dq submit -n 4 --sizes 2,3,4 -- python {PROGRAM} {counted}")
    until(lambda: all(len(ranks(lab, name)) >= 2 for name in NODES), "it does not begin")
    there, took = ranks(lab, "beta"), []
    for n in range(times):
        name = NODES[n % 2]
        before = agent_of(lab, name)
        both = f"{supervisor_of(lab, name)} {before}"
        lab.ok(name, f"kill -9 {both if n % 4 > 1 else before}")
        took.append(until(lambda: whole(lab, name, before), f"no agent on {name}"))  # noqa: B023
        until(lambda: lab.run("alpha", f"dq resize 1 {3 + n % 2}").returncode == 0, "not resized")  # noqa: B023
        assert there <= ranks(lab, "beta"), "other ranks than before"
    counted.with_suffix(".stop").touch()
    until(lambda: counted.exists(), "it does not end")
    assert counted.read_text().endswith("right")
    print(f"{times} kills; whole again after {max(took):.1f} s at most, as `dq` sees it")


def test_agents_that_are_killed_come_back(machines: Lab) -> None:
    kills(machines, 4)
    machines.ok("alpha", "dq down --force")
    assert not left(machines)


def test_agents_that_leave_in_order_do_not(machines: Lab) -> None:
    machines.ok("beta", "dq agent stop")
    machines.ok("alpha", "dq node remove gamma")
    until(lambda: not left(machines, NODES), "something stays on the nodes")
    machines.ok("alpha", "dq down")
    assert not left(machines)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_hundred_kills(machines: Lab) -> None:
    kills(machines, 100)
    machines.ok("alpha", "dq down --force")
    assert not left(machines)
