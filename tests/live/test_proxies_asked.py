"""Proxies on other nodes: for a job that runs there, and never for one that is to end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base.errors import DQError
from tests.live.serving import Serving, submission


class OneJob(Serving):
    """A server with two agents of one node each, a user, and a job on both."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.agents = [self.agent(name, f"n{name}", processors=1) for name in "ab"]
        self.user = self.role("user")
        self.user.call(submission("r", 2))
        self.agents[0].call(m.AppStarted(1, 1, 100))


@pytest.fixture
def two_nodes(tmp_path: Path) -> Iterator[OneJob]:
    """One job on the nodes of two agents, a processor each; MPI's launcher runs on the first."""
    server = OneJob(tmp_path)
    yield server
    server.close()


def ask(
    server: OneJob, job: int = 1, instance: int = 1, host: str = "nb", run: str = "run"
) -> m.ReplyBody:
    return server.agents[0].call(m.RemoteRun(run, job, instance, host, ["true"]))


def test_a_job_gets_a_proxy_on_its_other_node(two_nodes: OneJob) -> None:
    assert isinstance(ask(two_nodes), m.Done)


def test_a_job_that_is_to_end_gets_none(two_nodes: OneJob) -> None:
    """Its other nodes may have confirmed already that nothing of it is left there."""
    two_nodes.user.call(m.Kill(1))
    assert two_nodes.state.active[1].state == "killing"
    with pytest.raises(DQError, match="not running here"):
        ask(two_nodes)


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"instance": 2}, "not running here"), ({"host": "elsewhere"}, "no processor on elsewhere")],
)
def test_nor_does_a_start_that_is_over_or_a_stranger_node(
    two_nodes: OneJob, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(DQError, match=said):
        ask(two_nodes, **asked)
