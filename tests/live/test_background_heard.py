"""What agents say of processes outside DQ: the server takes in what has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_server.core.model.places import load_of
from dq_server.live.views.tables import nodes_view
from tests.live.talking import Talking


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talking]:
    """Agents a, of a node, and c with nodes c1 and c2."""
    made = Talking(tmp_path)
    made.agent("a")
    made.agent("c", "c1", "c2")
    made.beat("a")
    yield made
    made.close()


def shown(talk: Talking) -> list[float]:
    return [node["load"] for node in nodes_view(talk.state, talk.server.desk.places)]


def events(talk: Talking) -> list[str]:
    return [line.kind for line in talk.server.journal.lines(0, 1000, 1 << 20)]


def test_what_has_changed_is_an_event(talk: Talking) -> None:
    before = events(talk)
    talk.beat("a", load=0.4)
    assert (shown(talk), events(talk)) == ([0.0] * 3, before)
    talk.beat("a", load=2.0)
    talk.beat("a", load=2.0)
    talk.beat("a", load=2.3)
    assert (shown(talk), events(talk)) == ([2.0, 0.0, 0.0], [*before, "BackgroundLoad"])
    talk.beat("a", load=0.0)
    assert shown(talk) == [0.0] * 3


def test_nodes_of_one_machine_have_it_all(talk: Talking) -> None:
    before = events(talk)
    talk.beat("c", load=2.0)
    assert shown(talk) == [0.0, 2.0, 2.0]
    talk.server.lose("c1", "test")
    talk.agent("c", "c1", "c2")
    talk.beat("c", load=2.0)
    assert shown(talk) == [0.0, 2.0, 2.0]
    assert events(talk)[len(before) :].count("BackgroundLoad") == 2


def test_it_outlives_the_server_and_goes_with_the_node(talk: Talking) -> None:
    talk.beat("a", load=2.0)
    talk.restart()
    assert load_of(talk.state, "a") == 2.0
    talk.server.lose("a", "test")
    assert load_of(talk.state, "a") == 0.0
