"""Lives with a standby, each from a seed; and bugs planted to see that they are found.

By hand, with progress: `python tests/dst --standby --seeds 10000`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from dq_client.base import messages as m
from dq_server.core.model.errors import InvariantViolation
from dq_server.live.standby.follower import Standby
from dq_server.live.standby.leader import Pairing
from dq_server.live.standby.leader_parts import PairingRecord
from dq_server.live.store.journal import JournalError
from tests.dst.paired import PairedWorld
from tests.dst.played_line import Line
from tests.dst.verdict import Wrong

if TYPE_CHECKING:
    from dq_server.live.standby.leader_parts import Surroundings

SEEDS = int(os.environ.get("DQ_SEEDS", "500")) // 5
CHUNKS = 2
PLANTED_SEEDS = 400


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.timeout(0)
def test_every_life_with_a_standby_is_right(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        try:
            PairedWorld(seed).run()
        except Exception as e:
            raise AssertionError(f"seed {seed}: {e}") from e


def test_with_sync_it_is_said_which_job_this_server_alone_has() -> None:
    record = PairingRecord(
        name="other", address="tcp://h:1", sync=True, term=1, tried=1, void=0, voters=[(0, [])]
    )
    pairing = Pairing(cast("Surroundings", None), way="alone", record=record)
    job = m.Submit("r1", "j", ["true"], "/")
    assert pairing.refusal(job, {"r1": 2}).startswith("job 2 is taken in, and this server alone")
    assert "is taken in only if it would survive" in pairing.refusal(job, {"r0": 1})
    pairing.way = "paired"
    assert pairing.refusal(job, {}) == ""


@pytest.mark.parametrize("seed", [299, 898, 1404, 3026, 3769, 6317, 9980, 108164, 805104])
def test_lives_that_were_wrong_or_went_on_for_ever(seed: int) -> None:
    PairedWorld(seed).run()


def test_the_faults_do_happen() -> None:
    """Ends once each has been seen."""
    missing = {
        "with its disk", "freeze A", "cut B", "apart A", "takes over", "begins again",
        "is replaced by", "what runs on B dies", "single epoch", "paired epoch", "alone epoch",
    }  # fmt: skip
    for seed in range(60):
        world = PairedWorld(seed)
        world.run()
        told = " ".join([*world.trace, *world.left.values()])
        missing = {fault for fault in missing if fault not in told}
        if not missing:
            return
    pytest.fail(f"not seen: {sorted(missing)}")


def caught(first: int = 0, made: type[PairedWorld] = PairedWorld) -> None:
    """A failure if none of PLANTED_SEEDS, from the `first` on, is wrong."""
    for seed in range(first, first + PLANTED_SEEDS):
        try:
            made(seed).run()
        except (Wrong, InvariantViolation, JournalError):
            return
    raise AssertionError(f"{PLANTED_SEEDS} seeds did not show it")


def test_what_leaves_before_the_standby_has_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pairing, "_may_leave", lambda pairing, _: pairing.way != "seeks")
    caught(first=25)


def test_a_server_that_goes_on_alone_unasked_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts on a time-out: the standby must be dead."""

    def alone(pairing: Pairing, _: float) -> None:
        pairing.way = "alone"
        pairing._release()

    monkeypatch.setattr(Pairing, "_seek", alone)
    caught()


def test_a_standby_that_counts_one_agent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Standby, "_most", lambda _, nodes: len(nodes) > 0)
    caught()


class Forgetful(PairedWorld):
    """Agents that are started again know the addresses, and not what they have agreed to."""

    def agent_line(self, node: str, wake: Callable[[], None]) -> Line:
        kept = self.kept_by[node]
        self.kept_by[node] = msgspec.structs.replace(kept, promised=0, term=0)
        return super().agent_line(node, wake)


def test_agents_that_forget_what_they_agreed_to_are_caught() -> None:
    caught(first=15, made=Forgetful)


def test_a_standby_that_follows_while_it_stands_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server takes what it has asked the agents for as given up."""
    right = Standby.look

    def both(standby: Standby) -> None:
        if standby._epoch and not standby.elected:
            standby._follow()
        right(standby)

    monkeypatch.setattr(Standby, "look", both)
    caught(first=40)
