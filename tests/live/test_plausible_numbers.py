"""A peer's numbers that no honest peer can have: refused in one line, and nothing has changed."""

from __future__ import annotations

import itertools
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from dq_client.base import codec
from dq_client.base import messages as m
from dq_server.live.access import Principal
from dq_server.live.standby.leader import TERM_OF_EPOCH
from dq_server.live.store import checksums
from tests.live.talking import Talking

STANDBY = Principal("standby")
FOLLOW = m.Follow(
    name="s",
    address="tcp://127.0.0.1:1",
    seq=0,
    chain=b"",
    term=-1,
    ended=-1,
    snapshot=0,
    void=0,
    voters=0,
)


@pytest.fixture
def talking(tmp_path: Path) -> Iterator[Talking]:
    made = Talking(tmp_path)
    yield made
    made.close()


def begins_again(talking: Talking) -> int:
    talking.server.tick()
    talking.server.finish_turn()
    return talking.server.begin_again


def test_a_ballot_cannot_end_the_count_of_epochs(
    talking: Talking, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(codec.MalformedMessage, match="promised"):
        codec.decode_request(codec.encode(m.Request("a", m.Ballot("x", ["n1"], 2**53, 0))))
    with caplog.at_level(logging.WARNING, "dq.server"):
        answer = talking.say("x", m.Ballot("x", ["n1"], m.EPOCH_MAX, 0))
    assert isinstance(answer, m.Error)
    assert answer.code == "refused"
    assert f"agent x has promised epoch {m.EPOCH_MAX}" in answer.text
    assert begins_again(talking) == 0
    talking.agent("a", "n1")
    answer = talking.say("a", m.Heartbeat(talking.sessions["a"], promised=m.EPOCH_MAX))
    assert isinstance(answer, m.Error)
    assert begins_again(talking) == 0


def test_a_server_that_was_away_begins_again_above_what_agents_have_promised(
    talking: Talking,
) -> None:
    talking.say("x", m.Ballot("x", ["n1"], 7 * checksums.EPOCHS, 0))
    assert begins_again(talking) == 7 * checksums.EPOCHS + 1


def test_nor_can_many_ballots_one_step_each() -> None:
    epoch = 1
    for _ in range(100_000):
        after = checksums.highest_plausible(epoch) + 1
        if after <= epoch + 1:
            break
        epoch = after
    assert epoch <= m.EPOCH_MAX // 2 + 1
    assert checksums.highest_plausible(m.EPOCH_MAX) == m.EPOCH_MAX


@pytest.mark.parametrize(
    "changes", [{"void": m.TERM_MAX}, {"term": m.TERM_MAX}, {"voters": 2**53}], ids=str
)
def test_a_standby_cannot_end_the_count_of_terms(talking: Talking, changes: dict[str, int]) -> None:
    answer = talking.say("s", msgspec.structs.replace(FOLLOW, **changes), STANDBY)
    assert isinstance(answer, m.Error)
    assert f"says {next(iter(changes))} " in answer.text
    assert talking.server.pairing.record is None


def test_the_highest_term_of_a_pair_can_be_said() -> None:
    highest = (m.EPOCH_MAX << TERM_OF_EPOCH) + 1
    beat = m.Heartbeat(1, promised=m.EPOCH_MAX, term=highest)
    assert codec.decode_request(codec.encode(m.Request("a", beat))).body == beat
    session = (m.EPOCH_MAX << 24) + 1
    beat = m.Heartbeat(session)
    assert codec.decode_request(codec.encode(m.Request("a", beat))).body == beat


def test_a_journal_with_such_an_epoch_serves_again(talking: Talking) -> None:
    talking.agent("a", "n1")
    talking.beat("a")
    job = talking.submit(1, hold=True)
    talking.close()
    with closing(sqlite3.connect(talking.home.journal)) as db, db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", (str(2**53 + 1),))
    talking.start_server()
    first = talking.server.epoch
    assert 0 < first < m.EPOCH_MAX // 2
    talking.agent("a", "n1")
    assert isinstance(talking.beat("a"), m.Heard)
    assert job.id in talking.server.scheduler.state.jobs
    talking.restart()
    assert talking.server.epoch == first + 1


def test_more_processors_than_there_is_memory_for(talking: Talking) -> None:
    nodes = [m.NodeInfo(f"n{n}", m.NODE_PROCESSORS_MAX, "h") for n in range(30)]
    answer = talking.say("a", m.AgentHello(m.PROTOCOL, "a", nodes))
    assert isinstance(answer, m.Error)
    assert "at most" in answer.text
    for n in itertools.count():
        nodes = [m.NodeInfo(f"a{n}-{i}", m.NODE_PROCESSORS_MAX, "h") for i in range(10)]
        answer = talking.say(f"a{n}", m.AgentHello(m.PROTOCOL, f"a{n}", nodes))
        if isinstance(answer, m.Error):
            break
        talking.say(f"a{n}", m.Heartbeat(answer.session))  # type: ignore[attr-defined]
    assert len(talking.server.scheduler.state.processors.node_of) == m.CLUSTER_PROCESSORS_MAX
