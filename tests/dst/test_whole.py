"""Thousands of lives of the whole, each from a seed; and bugs planted to see that they are found.

By hand, with progress: `python tests/dst --seeds 100000`; one run: `--first 4711 --seeds 1`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.node.agent import local_start
from dq_client.node.ranks.ends import KeptEnd
from dq_server.core.features import nodes, protection
from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import InvariantViolation
from dq_server.core.model.jobs import JobState
from dq_server.core.model.processors import Node, Processors
from dq_server.core.settings import configured, named_config
from dq_server.core.turn import Turn
from dq_server.live import requests, server
from dq_server.live.agents import rank_reports
from dq_server.live.agents.silent_jobs import SilentJobs
from dq_server.live.clock import ClusterClock
from dq_server.live.engines import driver, link
from dq_server.live.orders import dispatch, job_ranks, reconciliation
from dq_server.live.server import Server
from dq_server.live.store.journal import JournalError
from tests.dst import stand_ins
from tests.dst.verdict import Wrong
from tests.dst.world import World

SEEDS = int(os.environ.get("DQ_SEEDS", "500"))
FIRST_SEED = int(os.environ.get("DQ_FIRST_SEED", "0"))
CHUNKS = 4
PLANTED_SEEDS = 500
RENEWED = (169, 361)
RESTARTED = (93, 137)
BY_SET_ORDER = 1047  # a power cut that mixed the journal's files in the order of a set
ROOT = Path(__file__).parents[2]


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
    "reshape": ((), {"sweet_spot": "search"}),
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
    for seed in (*seeds, *range(FIRST_SEED, FIRST_SEED + SEEDS // 100)):
        try:
            World(seed, config=config).run()
        except Exception as e:
            raise AssertionError(f"{policy}, seed {seed}: {e}") from e


@pytest.mark.parametrize(
    "seed",
    [
        714,
        1022,
        1553,
        3609,
        7125,
        1000287,
        1010865,
        1020760,
        1024171,
        2005066,
        4001502,
        4003084,
        4015830,
    ],
)
def test_lives_that_were_wrong(seed: int) -> None:
    """One in 8,000: nodes of a pool that stayed for ever, ranks that an ended start was to get;
    processors that were said to be empty for those who had left them before; copies that were made
    after the word to remove them; ranks that were started again after their keeper was killed; a
    node that joined while ranks whose keeper was killed still ran there."""
    World(seed).run()


def test_a_seed_replays_identically() -> None:
    for seed in (0, 1, 8, 11):
        one, two = World(seed).run(), World(seed).run()
        assert one.store.safe == two.store.safe
        assert (one.trace, one.now, one.events) == (two.trace, two.now, two.events)


def test_a_seed_does_not_go_by_the_order_of_sets() -> None:
    """Sets of texts have another order in another process."""
    program = (
        "from tests.dst.world import World\n"
        f"world = World({BY_SET_ORDER})\n"
        "world.run()\n"
        "print(world.store.safe, world.trace)"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "2")
    }
    assert len(told) == 1


FAULTS = (
    "server dies", "agent n", "cut n", "drain n", "remove n", "leave n", "resume n",
    "holder 2 of ticket", "revoke p", "kill p", "out of time", "full disk of the server",
    "full disk n", "power lost, 1", "keeper of", "clock set by +86400", "clock set by -3600",
    "asleep for 3600",
)  # fmt: skip
# Of events, actions or decisions.
EFFECTS = (
    '"expand"', '"shrink"', '"regrid"', "user_resize", "node_lost", "resize_aborted",
    "killed_by_user", "JobRestarts", "ArrayAccepted", '"retry"', "torn_down", "processes_lost",
    "launch_failed", "JobAttached", "spawn_granted", "spawn_ended", "spawn_too_few",
    "spawn_expansion", "NodeLeft", "BackgroundLoad", "UsageMeasured", "drain_shrink",
    "drain_detour", "drain_withdrawn", '"drained"', "TicketPending", "TicketRefused",
    "TicketEnded", "pool_for_queue", "succession_done", "back_from_copy", "succession_undone",
    "pool_for_growth", "pool_renew", "pool_unknown",
)  # fmt: skip
# An expansion onto a node that is drained while its ranks start; jobs on nodes that end soon; a
# pool that is refused; resizes by restart that fail.
RARE = (355, 362, 496, *RENEWED, 139, *RESTARTED)
SHOW_ALL = (361, 93, 1, 54, 44, 47, 355, 12, 28, 36, 67, 75)  # as they are now; found by a search


def test_the_faults_do_happen() -> None:
    """Otherwise the tests above show nothing. Ends once each has been seen."""
    faults, effects = set(FAULTS), set(EFFECTS)
    for seed in dict.fromkeys((*SHOW_ALL, *RARE, *range(100))):
        world = World(seed).run()
        story = " ".join(world.trace)
        faults = {fault for fault in faults if fault not in story}
        journal = " ".join(f"{entry.actions} {entry.event}" for entry in world.store.safe)
        jobs = world.last_server.scheduler.state.jobs.values()
        decisions = " ".join(str(job.decisions) for job in jobs)
        effects = {
            effect for effect in effects
            if effect not in journal and effect.strip('"') not in decisions
        }  # fmt: skip
        if not faults and not effects:
            return
    pytest.fail(f"not seen: {sorted(faults | effects)}")


def caught(first: int = 0, **world: Any) -> int:
    """A seed whose run is wrong, from the `first` on; a failure if none of PLANTED_SEEDS is.

    A `first` close to one that shows the bug saves the lives that do not.
    """
    for seed in range(first, first + PLANTED_SEEDS):
        try:
            World(seed, **world).run()
        except (Wrong, InvariantViolation, JournalError):
            return seed
    raise AssertionError(f"{PLANTED_SEEDS} seeds did not show it")


class AcknowledgesFirst(Server):
    """Bug 1: an answer leaves before the commit. Slurm 22.05 does so."""

    def reply(self, identity: bytes, request_id: str, body: m.ReplyBody) -> None:
        super().reply(identity, request_id, body)
        to, frame, _ = self._outbox.pop()
        self._outlet(to, frame)


def test_an_acknowledgement_before_the_commit_is_caught() -> None:
    caught(first=15, server_class=AcknowledgesFirst)


def test_an_end_that_is_acknowledged_in_a_stall_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: while nothing can be saved everybody is told that it is done."""
    right = requests.answer

    def done(*call: Any) -> Any:
        answer = right(*call)
        said = isinstance(answer, m.Error) and answer.text.startswith("not saved")
        return m.Done() if said else answer

    monkeypatch.setattr(server, "answer", done)
    caught(first=190)


def test_a_commit_that_is_not_flushed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: what somebody relies on is gone when the server's machine loses its power."""
    monkeypatch.setattr(stand_ins, "relied_on", lambda event, actions: False)
    caught()


def test_walltimes_by_the_system_clock_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: who sets the clock forward ends jobs."""
    monkeypatch.setattr(ClusterClock, "__call__", lambda clock: clock._sources.wall())
    caught()


def test_walltimes_that_count_a_suspend_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: a lid that was closed for an hour ends jobs."""
    monkeypatch.setattr(
        ClusterClock, "__call__", lambda clock: clock._noted.offset_s + clock._sources.boot()
    )
    caught()


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

    def at_once(turn: Any) -> None:
        for job in list(protection.Interrupted.of(turn.state).jobs.values()):
            protection._decide(turn, job)

    monkeypatch.setattr(protection, "decide_if_clear", at_once)
    caught()


def test_ranks_that_end_for_a_resize_and_are_taken_for_done_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug: the core forgets why the ranks of a job that is resized by restart have ended."""
    monkeypatch.setattr(protection, "_ended_for_resize", lambda *_: False)
    monkeypatch.setattr(protection, "is_guarded", lambda _: False)
    assert caught(first=12_700) % 11 in (5, 6)  # one such life in 300 shows it


def test_a_copy_that_does_not_guard_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: a resize by restart that fails takes the job with it."""
    monkeypatch.setattr(protection, "is_guarded", lambda _: False)
    assert caught(first=25_130) % 11 in (5, 6)  # one such life in 300 shows it


def test_a_job_that_is_not_rung_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: a job rests while it is to give way."""
    monkeypatch.setattr(SilentJobs, "note", lambda *_: None)
    caught(first=80)


class LaunchesAgain(Server):
    """Bug 5: a server that starts launches what runs already."""

    def apply(self, event: ev.Event) -> list[Action]:
        done = super().apply(event)
        if event == ev.GrantsPaused(False):
            for job in self.scheduler.state.active.values():
                job.instance += 1
                dispatch.launch(self.desk, job)
        return done


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
    caught(first=760)


def test_a_world_that_did_not_join_and_is_forgotten_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug 9: the processors of an aborted expansion count as empty at once."""
    monkeypatch.setattr(dispatch, "_end_worlds", lambda _desk, _link, _job, processors: processors)
    caught()


def test_a_lost_order_that_is_not_given_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 10: of a spawned world, whose processors would never come back."""
    monkeypatch.setattr(reconciliation, "start_world", lambda *_: None)
    caught(first=325)


def test_a_lost_start_that_is_not_ordered_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 11: the other nodes wait for the first barrier for ever."""
    monkeypatch.setattr(reconciliation, "start_ranks", lambda *_: None)
    caught()


def test_a_node_that_comes_back_with_a_forgotten_world_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug 12: ranks that were to end there still wait when its processors are granted."""
    monkeypatch.setattr(nodes, "_ending", lambda *_: [])
    caught(first=3630)  # one seed in a thousand shows it


# --- nodes that an engine gives ---------------------------------------------------------------


def test_a_holder_of_an_unknown_ticket_that_is_kept_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug 15: what came of a request whose ticket was withdrawn meanwhile is nobody's."""
    monkeypatch.setattr(driver.Driver, "_end", lambda *_: None)
    caught(first=215)


def test_a_ticket_that_is_forgotten_when_it_is_given_back_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug 16: the server does not tell the engine of nodes that are given back."""
    right = link.tickets
    monkeypatch.setattr(
        link, "tickets", lambda state: {n: w for n, w in right(state).items() if not w.given}
    )
    caught()


# --- who dies together -------------------------------------------------------------------------


def test_ends_that_are_not_read_from_disk_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 17: an agent believes nothing of a keeper that was killed."""
    monkeypatch.setattr(local_start, "standing", lambda _: KeptEnd.LOST)
    caught(first=215)


def test_lost_ranks_that_are_taken_for_ended_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 18: what a killed keeper wrote last is believed, whatever ran then."""
    monkeypatch.setattr(local_start, "standing", lambda _: KeptEnd.KNOWN)
    caught(first=15)


def test_a_start_that_dies_with_its_keeper_and_fails_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug 19: it is taken for one that cannot be started."""
    monkeypatch.setattr(
        protection,
        "_could_not_start",
        lambda job, ending: bool(ending.error) and job.state is JobState.STARTING,
    )
    caught(first=100)


def test_copies_that_are_not_saved_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 20: a node joins although a job starts again from what is only in its memory."""
    monkeypatch.setattr(reconciliation, "look_after_copies", lambda *_: True)
    caught()


def test_copies_that_are_not_removed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 21: an agent that was away when a job ended keeps its copies."""
    right = dispatch.look_after_copies

    def forgets_nothing(desk: Any, link: Any) -> bool:
        active = [held for held in link.copies if held.job in desk.state.active]
        link.copies = [*active]
        return right(desk, link)

    monkeypatch.setattr(reconciliation, "look_after_copies", forgets_nothing)
    monkeypatch.setattr(dispatch, "_forget_copies", lambda *_: None)
    caught()
