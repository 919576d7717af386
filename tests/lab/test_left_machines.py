"""Machines that leave: what was written there, and what they have."""

from __future__ import annotations

import json

import pytest

from tests.lab.conftest import left
from tests.lab.machines import Lab
from tests.lab.test_hosts import nodes, until

pytestmark = [pytest.mark.live, pytest.mark.mpi]

HOSTS = """\
engine = "hosts"
[[nodes]]
names = "alpha"
processors = 1
[[nodes]]
names = ["beta", "gamma"]
processors = 1
memory = "8G"
features = ["far"]
[network]
interface = "10.77.0.0/24"
ports = "30000-30100"
"""
SAYS = 'from mpi4py import MPI; import os; print(MPI.COMM_WORLD.rank, os.environ["DQ_NODE"])'


def test_what_was_written_on_a_machine_that_left_is_read_on_the_servers(lab: Lab) -> None:
    lab.ok("alpha", f"cat > hosts.toml <<'X'\n{HOSTS}\nX")
    lab.ok("alpha", "dq up --cluster hosts.toml --detach --all")
    rows = {row["name"]: row for row in json.loads(lab.ok("alpha", "dq nodes --json"))["nodes"]}
    assert (rows["beta"]["memory"], rows["beta"]["features"]) == (8 << 30, ["far"])
    assert rows["alpha"]["memory"] > 1 << 28, "what the machine has"
    lab.ok("alpha", f"dq submit -n 3 --kind rigid --wait -- python -c '{SAYS}'")
    lab.ok("alpha", f"dq submit -n 2 --memory 5G --constraint far --wait -- python -c '{SAYS}'")
    written = {1: ["0 alpha", "1 beta", "2 gamma"], 2: ["0 beta", "1 gamma"]}

    def read() -> dict[int, list[str]]:
        return {n: lab.run("alpha", f"dq logs {n}").stdout.splitlines() for n in written}

    assert read() == written
    lab.ok("alpha", "dq node remove beta --reason sold")
    until(lambda: nodes(lab)["beta"] == "left", "it does not leave")
    until(lambda: not left(lab, ["beta"]), "its agent does not end")
    lab.ok("alpha", "dq server stop")
    lab.ok("alpha", "dq server start --detach")
    until(lambda: nodes(lab)["gamma"] == "up", "it does not come back")
    # The node is up in what the server has read; its agent, which has the output, comes soon.
    until(lambda: read() == written, "not all is there")
    refused = lab.run("alpha", "dq submit -n 2 --memory 5G --constraint far -- true")
    assert refused.returncode == 4
    assert "the largest node is gamma with 1 processor, 8 GiB of memory" in refused.stderr

    # As docs/cluster.md has it: an agent that something else starts, with a folder of its own.
    secret = lab.ok("alpha", "dq agent credentials")
    lab.ok("beta", f"umask 77; cat > beta.secret <<'X'\n{secret}\nX")
    lab.ok(
        "beta",
        "setsid dq agent run --node beta --processors 3 --memory 2G --gpus 1"
        " --credentials beta.secret > agent.log 2>&1 < /dev/null &",
    )
    until(lambda: nodes(lab)["beta"] == "up", "it does not come back")
    rows = {row["name"]: row for row in json.loads(lab.ok("alpha", "dq nodes --json"))["nodes"]}
    assert [rows["beta"][what] for what in ("processors", "memory", "gpus")] == [3, 2 << 30, 1]
    lab.ok("alpha", "dq down")
    assert not left(lab)
