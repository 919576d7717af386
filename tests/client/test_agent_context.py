"""What the parts of an agent share."""

from __future__ import annotations

from pathlib import Path

import pytest

from dq_client.base import messages as m
from dq_client.base.errors import NoServer
from dq_client.base.home import Home
from dq_client.base.process_tree import Owner
from dq_client.node.agent import context
from dq_client.node.agent.context import ClosedInstances, Context


def test_a_closed_instance_closes_the_earlier_ones_and_no_later_one() -> None:
    closed = ClosedInstances()
    assert (1, 1) not in closed
    closed.close(1, 2)
    closed.close(1, 1)  # an order that was overtaken opens nothing again
    assert [(1, n) in closed for n in (1, 2, 3)] == [True, True, False]
    assert (2, 1) not in closed


def test_the_job_closed_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "CLOSED_MAX", 2)
    closed = ClosedInstances()
    for job in (1, 2, 1, 3):
        closed.close(job, 1)
    assert [(job, 1) in closed for job in (1, 2, 3)] == [True, False, True]


class Line:
    """A connection whose queue is full, or not."""

    full = False

    def send(self, body: m.RequestBody) -> str:
        if self.full:
            raise NoServer("the queue is full")
        return "id-1"


def test_a_full_queue_to_a_server_that_is_away_is_said_once_and_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(context.log, "warning", lambda text, *_: warnings.append(text))
    line = Line()
    made = Context(
        home=Home(tmp_path),
        owner=Owner(Path("/nowhere"), "a"),
        connection=line,  # type: ignore[arg-type]
        holdings=None,  # type: ignore[arg-type]
    )
    assert made.name == "a"
    ids, said = [], []
    for full in (False, True, True, False, True):
        line.full = full
        ids.append(made.send(m.Hello(m.PROTOCOL)))
        said.append(len(warnings))
    assert ids == ["id-1", "", "", "id-1", ""]
    assert said == [0, 1, 1, 1, 2]
