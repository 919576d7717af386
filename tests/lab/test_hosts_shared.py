"""Machines with a shared home; a machine that dies; networks without IPv4."""

from __future__ import annotations

import pytest

from tests.lab.conftest import LabMaker, left
from tests.lab.machines import Lab
from tests.lab.test_hosts import job, nodes, product, until

pytestmark = [pytest.mark.live, pytest.mark.mpi]


def up(lab: Lab, names: str, interface: str, *options: str) -> None:
    lines = ['engine = "hosts"', "[[nodes]]", f"names = {names}", "processors = 2"]
    text = "\n".join([*lines, "[network]", f'interface = "{interface}"'])
    lab.ok("alpha", f"cat > hosts.toml <<'X'\n{text}\nX")
    lab.ok("alpha", " ".join(("dq up --cluster hosts.toml --detach --all", *options)))


def still(lab: Lab) -> str:
    """The option for a configuration under which a job stays on its nodes."""
    lab.ok("alpha", "printf '[scheduler]\\nresize = \"none\"\\n' > still.toml")
    return "--config still.toml"


def test_a_protected_job_outlives_a_machine(make_lab: LabMaker) -> None:
    lab = make_lab("alpha", "beta", shared_home=True)
    up(lab, '["alpha", "beta"]', "10.77.0.0/24", "--lost-after", "4", still(lab))
    # From the other machine: with a shared home every command works there, too.
    lab.ok(
        "beta",
        "dq submit -n 4 --sizes 1,2,4 --protect partner --"
        " python -m apps.matmul --n 600 --iterations 300 --check",
    )
    until(lambda: (job(lab)["remap_points"] or 0) > 5, "it does not get on")
    assert "beta" in job(lab)["nodes"]
    lab.kill("beta")
    until(lambda: nodes(lab).get("beta") == "lost", "beta is not missed")
    assert product(lab)
    assert job(lab)["restarts"] == 1


def test_a_network_without_ipv4(make_lab: LabMaker) -> None:
    lab = make_lab("alpha", "beta")
    for name in lab.names:
        lab.ok(name, "for e in eth0 eth1 docker0; do ip -4 addr flush dev $e; done", root=True)
    up(lab, '["alpha-v6", "beta-v6"]', "eth0")
    assert "tcp://[fd77::1]:" in lab.ok("alpha", "dq server status")
    lab.ok(
        "alpha",
        "dq submit -n 4 --kind rigid --wait --"
        " python -m apps.matmul --n 300 --iterations 5 --check",
    )
    assert product(lab)
    lab.ok("alpha", "dq down")
    assert not left(lab)
