"""Proxies on other nodes: for a job that runs there, and never for one that is to end."""

from __future__ import annotations

import pytest
from serving import Serving, submission

from dq_client import messages as m
from dq_client.errors import DQError


@pytest.fixture
def two_nodes(tmp_path):
    """One job on the nodes of two agents, a processor each; MPI's launcher runs on the first."""
    server = Serving(tmp_path)
    server.agents = [server.agent(name, f"n{name}", processors=1) for name in "ab"]
    server.user = server.role("user")
    server.user.call(submission("r", 2))
    server.agents[0].call(m.AppStarted(1, 1, 100))
    yield server
    server.close()


def ask(server, job=1, instance=1, host="nb", run="run"):
    return server.agents[0].call(m.RemoteRun(run, job, instance, host, ["true"]))


def test_a_job_gets_a_proxy_on_its_other_node(two_nodes):
    assert isinstance(ask(two_nodes), m.Done)


def test_a_job_that_is_to_end_gets_none(two_nodes):
    """Its other nodes may have confirmed already that nothing of it is left there."""
    two_nodes.user.call(m.Kill(1))
    assert two_nodes.state.active[1].state == "killing"
    with pytest.raises(DQError, match="not running here"):
        ask(two_nodes)


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"instance": 2}, "not running here"), ({"host": "elsewhere"}, "no processor on elsewhere")],
)
def test_nor_does_a_start_that_is_over_or_a_stranger_node(two_nodes, asked, said):
    with pytest.raises(DQError, match=said):
        ask(two_nodes, **asked)
