"""Thousands of lives of the whole, each from a seed; and bugs planted to see that they are found.

By hand, with progress: `python tests/dst --seeds 100000`; one run: `--first 4711 --seeds 1`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

from dq_client import messages as m
from dq_server.core.features import nodes, protection
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import InvariantViolation
from dq_server.core.model.processors import Node, Processors
from dq_server.core.settings import configured, named_config
from dq_server.core.turn import Turn
from dq_server.live import job_ranks, orders, rank_reports, reconciliation, requests
from dq_server.live.journal import JournalError
from dq_server.live.server import Server
from tests.dst.verdict import Wrong
from tests.dst.world import World

SEEDS = int(os.environ.get("DQ_SEEDS", "2000"))
FIRST_SEED = int(os.environ.get("DQ_FIRST_SEED", "0"))
CHUNKS = 8
PLANTED_SEEDS = 500


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.timeout(0)
def test_every_life_is_right(chunk: int) -> None:
    for seed in range(FIRST_SEED + chunk, FIRST_SEED + SEEDS, CHUNKS):
        try:
            World(seed).run()
        except Exception as e:
            raise AssertionError(f"seed {seed}: {e}") from e


OTHER_POLICIES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "conservative+fairshare": ((48, 84, 114, 119, 142, 277, 285), {}),
    "reshape-model": ((33, 294), {"grids": "spot", "history": "always"}),
    "easy+dfs+reshape": ((), {}),
    "reservations+priority+dfs+reshape": ((), {"moldable": True}),
    "mebf-shrink+": ((), {}),
    "easy+never": ((), {"dependency_failed": "hold"}),
}


@pytest.mark.parametrize("policy", OTHER_POLICIES)
@pytest.mark.timeout(0)
def test_every_life_is_right_under_other_policies(policy: str) -> None:
    """Named are the seeds that were not."""
    seeds, more = OTHER_POLICIES[policy]
    config = configured(named_config(policy), samples=1, discard=0, **more)
    for seed in (*seeds, *range(FIRST_SEED, FIRST_SEED + SEEDS // 50)):
        try:
            World(seed, config=config).run()
        except Exception as e:
            raise AssertionError(f"{policy}, seed {seed}: {e}") from e


def test_a_seed_replays_identically() -> None:
    for seed in range(5):
        one, two = World(seed).run(), World(seed).run()
        assert one.store.safe == two.store.safe
        assert (one.trace, one.now, one.events) == (two.trace, two.now, two.events)


def test_the_faults_do_happen() -> None:
    """Otherwise the tests above show nothing."""
    rare = (355, 362, 496)  # an expansion onto a node that is drained while its ranks start
    worlds = [World(seed).run() for seed in (*range(100), *rare)]
    story = " ".join(line for world in worlds for line in world.trace)
    for fault in ("server dies", "agent n", "cut n", "drain n", "remove n", "leave n", "resume n"):
        assert fault in story
    journal = [entry for world in worlds for entry in world.store.safe]
    for what in ('"expand"', '"shrink"', '"regrid"', "user_resize", "node_lost", "resize_aborted",
                 "killed_by_user", "JobRestarts", "torn_down", "processes_lost", "launch_failed",
                 "JobAttached", "spawn_granted", "spawn_ended", "spawn_too_few",
                 "spawn_expansion", "NodeLeft",
                 "drain_shrink", "drain_detour", "drain_withdrawn", '"drained"'):  # fmt: skip
        assert any(what in entry.actions or what in str(entry.event) for entry in journal) or any(
            what.strip('"') in str(job.decisions)
            for world in worlds
            for job in world.last_server.scheduler.state.jobs.values()
        ), what


def caught(**world: Any) -> int:
    """The first seed whose run is wrong; a failure if none is."""
    for seed in range(PLANTED_SEEDS):
        try:
            World(seed, **world).run()
        except (Wrong, InvariantViolation, JournalError):
            return seed
    raise AssertionError(f"{PLANTED_SEEDS} seeds did not show it")


class AcknowledgesFirst(Server):
    """Bug 1: an answer leaves before the commit. Slurm 22.05 does so."""

    def reply(self, identity: bytes, request_id: str, body: m.ReplyBody) -> None:
        super().reply(identity, request_id, body)
        self._outlet(*self._outbox.pop())


def test_an_acknowledgement_before_the_commit_is_caught() -> None:
    caught(server_class=AcknowledgesFirst)


def test_processors_granted_twice_are_caught() -> None:
    """Bug 2: released processors are granted again before they are empty."""
    caught(config=SchedulerConfig(samples=1, discard=0, confirm_vacated=False))


def test_a_forgotten_release_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 3: the word that processors are empty again gets lost in the server."""
    table = requests.TABLE | {m.Vacated: lambda *_: m.Done()}
    monkeypatch.setattr(requests, "TABLE", table)
    caught()


def test_processors_that_a_job_does_not_give_back_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug 4: the core forgets one processor of every job that ends."""
    right = Turn.let_go
    monkeypatch.setattr(Turn, "let_go", lambda turn, job, leaving: right(turn, job, leaving[1:]))
    caught()


def test_a_restart_before_the_nodes_are_clear_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 6: an interrupted job does not wait for the word that its last start is gone."""

    def at_once(_: Any, turn: Any) -> None:
        for job in list(protection.Interrupted.of(turn.state).jobs.values()):
            protection._decide(turn, job)

    monkeypatch.setattr(protection.Protecting, "vacated", at_once)
    caught()


class LaunchesAgain(Server):
    """Bug 5: a server that starts launches what runs already."""

    def resume(self) -> None:
        paused = self.scheduler.state.paused
        super().resume()
        if paused and not self.scheduler.state.paused:
            for job in self.scheduler.state.active.values():
                job.instance += 1
                orders.launch(self.desk, job)


def test_a_second_launch_is_caught() -> None:
    caught(server_class=LaunchesAgain)


def test_processors_that_are_granted_while_they_drain_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug 13: what comes back on a draining node is idle."""

    def to_idle(pool: Processors, processors: Iterable[int]) -> None:
        pool.idle = sorted([*pool.idle, *processors])

    monkeypatch.setattr(Processors, "_to_idle", to_idle)
    caught()


def test_processors_that_rest_for_ever_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 14: a node that is resumed offers only what jobs give back later."""

    def offer(pool: Processors, node: Node) -> None:
        pool.withheld.difference_update(node.processors)
        pool.capacity += len(node.processors)

    monkeypatch.setattr(Processors, "offer", offer)
    caught()


# --- ranks that the agents start ---------------------------------------------------------------


def test_a_job_that_ends_with_its_first_node_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 7: one agent's word on its ranks counts for those on all nodes."""
    monkeypatch.setattr(job_ranks, "not_ended", lambda *_: "")
    caught()


def test_an_end_that_counts_for_a_later_world_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 8: what was said before ranks joined on a node is taken for their end."""
    right = rank_reports.not_ended

    def forgetful(said: Any, *rest: Any) -> str:
        said.ended = dict.fromkeys(said.ended, 1 << 40)
        return right(said, *rest)

    monkeypatch.setattr(job_ranks, "not_ended", forgetful)
    caught()


def test_a_world_that_did_not_join_and_is_forgotten_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug 9: the processors of an aborted expansion count as empty at once."""
    monkeypatch.setattr(orders, "_end_worlds", lambda _desk, _link, _job, processors: processors)
    caught()


def test_a_lost_order_that_is_not_given_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 10: of a spawned world, whose processors would never come back."""
    monkeypatch.setattr(reconciliation, "start_world", lambda *_: None)
    caught()


def test_a_lost_start_that_is_not_ordered_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 11: the other nodes wait for the first barrier for ever."""
    monkeypatch.setattr(reconciliation, "start_ranks", lambda *_: None)
    caught()


def test_a_node_that_comes_back_with_a_forgotten_world_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug 12: ranks that were to end there still wait when its processors are granted."""
    monkeypatch.setattr(nodes, "_ending", lambda *_: [])
    caught()
