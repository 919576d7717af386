"""The governor's arithmetic and its notes, without processes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from dq_client.base import slowed_rank
from dq_client.node.emulation import governor
from dq_client.node.emulation.governor import PAYBACK_S_MAX, PERIOD_S, Budget


def spent(budget: Budget, duration_s: float, ticks: list[float]) -> float:
    """Processor time of a node that computes whenever it may, looked at after each of `ticks`."""
    used_s = now = 0.0
    runs = True
    for tick in ticks:
        used_s += tick if runs else 0.0
        now += tick
        runs = budget.pass_time(tick, tick if runs else 0.0)
        if now >= duration_s:
            break
    assert now >= duration_s
    return used_s


@pytest.mark.parametrize("cores", [0.01, 0.05, 0.5, 0.95])
@pytest.mark.parametrize("seed", range(5))
def test_a_busy_node_gets_its_share_however_irregularly_it_is_looked_at(
    cores: float, seed: int
) -> None:
    chance = random.Random(seed)
    ticks = [chance.choice((0.005, 0.006, 0.02)) for _ in range(40_000)]
    used_s = spent(Budget(cores), 100.0, ticks)
    assert used_s / 100.0 == pytest.approx(cores, rel=0.03)


def test_a_node_that_waited_has_at_most_one_period_in_hand() -> None:
    budget = Budget(0.1)
    for _ in range(1000):
        assert budget.pass_time(0.005, 0.0)
    assert budget.credit_s == pytest.approx(0.1 * PERIOD_S)


def test_what_a_late_governor_allowed_is_paid_back_in_a_bounded_time() -> None:
    budget = Budget(0.05)
    assert not budget.pass_time(30.0, 30.0)
    assert not budget.pass_time(0.9 * PAYBACK_S_MAX, 0.0)
    assert budget.pass_time(0.2 * PAYBACK_S_MAX, 0.0)


def test_a_note_is_taken_once_and_the_last_word_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(slowed_rank.NOTES_VARIABLE, str(tmp_path))
    slowed_rank.join("n1")
    assert slowed_rank.take_notes(tmp_path) == {os.getpid(): slowed_rank.JOINS}
    slowed_rank.join("n1")
    slowed_rank.leave()
    assert slowed_rank.take_notes(tmp_path) == {os.getpid(): slowed_rank.LEAVES}
    assert slowed_rank.take_notes(tmp_path) == {}


def test_processor_time_of_another_process_is_that_of_all_its_threads() -> None:
    me = governor.Governed(os.getpid())
    try:
        assert me.used_s() < 1.0  # since it was made, not since the process began
        sum(range(1_000_000))
        assert me.used_s() > 0
    finally:
        me.close()


def test_a_process_that_is_gone_is_told_apart() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    process = governor.Governed(child)
    os.waitpid(child, 0)
    with pytest.raises(ProcessLookupError):
        process.used_s()
    with pytest.raises(ProcessLookupError):
        process.signal(0)
    process.close()
