"""Lists of jobs and nodes that are told in pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base.connection import PAGE_ROWS
from harness.live import Live
from tests.live.talking import Talking


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talking]:
    made = Talking(tmp_path)
    yield made
    made.close()


def told(talk: Talking, body: m.JobsQuery | m.NodesQuery) -> m.Data:
    reply = talk.say("user", body)
    assert isinstance(reply, m.Data)
    return reply


def pages(talk: Talking, at_most: int, **which: Any) -> list[list[int]]:
    """The ids of each page of jobs."""
    found, after = [], 0
    while True:
        page = told(talk, m.JobsQuery(after=after, at_most=at_most, **which))
        found.append([row["id"] for row in page.data])
        if page.more is None:
            return found
        assert isinstance(page.more, int)
        after = page.more


def test_pages_together_are_the_list(talk: Talking) -> None:
    talk.agent("a", "n1", "n2", "n3", processors=2)
    ids = [talk.submit(1).id for _ in range(7)]
    whole = told(talk, m.JobsQuery())
    assert ([row["id"] for row in whole.data], whole.more) == (ids, None)
    assert pages(talk, 3) == [ids[:3], ids[3:6], ids[6:]]
    assert pages(talk, 7) == [ids, []], "there might have been more"
    assert pages(talk, 8) == [ids]
    talk.say("user", m.Kill(ids[6]))  # it had not started
    assert pages(talk, 4, active_only=True) == [ids[:4], ids[4:6]]


def test_nodes_are_told_in_pages_with_who_has_them(talk: Talking) -> None:
    talk.agent("a", "n1", "n2", "n3", processors=2)
    jobs = [talk.submit(3).id, talk.submit(2).id]
    whole = told(talk, m.NodesQuery()).data
    assert [row["owners"] for row in whole] == [[jobs[0]] * 2, [jobs[0], jobs[1]], [jobs[1], 0]]
    assert [row["idle"] for row in whole] == [0, 0, 1]
    first = told(talk, m.NodesQuery(at_most=2))
    assert (first.data, first.more) == (whole[:2], "n2")
    assert told(talk, m.NodesQuery(after="n2", at_most=2)).data == whole[2:]
    assert told(talk, m.NodesQuery(after="gone", at_most=2)).data == whole[:2]


@pytest.mark.live
def test_a_list_of_several_pages_is_one_to_those_who_ask(live: Live) -> None:
    live.up(1)
    count = 2 * PAGE_ROWS + 7
    live.dq("submit", "--hold", "--array", f"1-{count}", "-n", 1, "--", "true")
    found = json.loads(live.dq("jobs", "--json"))["jobs"]
    assert [row["id"] for row in found] == list(range(found[0]["id"], found[0]["id"] + count))
    assert len(live.dq("jobs", "--limit", 5).splitlines()) == 6
