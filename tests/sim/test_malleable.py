"""Malleable jobs in the simulator: applications, invariants at every event, the policies' gain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dq_server.core.model.actions import Action
from dq_server.core.model.events import Event
from dq_server.core.model.processors import Processors
from dq_server.core.policies.registry import SETS
from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.malleable import SCALABILITY, Malleability, MalleableWorkload
from dq_server.sim.workload import RigidWorkload
from harness.examples import examples
from harness.generators.kit import INTENSIVE, NODES, kit_like
from harness.generators.lublin import lublin

MEBF = [name for name in SETS if name.startswith("mebf")]


def simulate(workload: Any, nodes: int, policy: str, *, check: bool = False) -> Any:
    simulation = Simulation(workload, nodes, named_config(policy))
    if check:
        scheduler, handle = simulation.scheduler, simulation.scheduler.handle

        def checked(event: Event, now: float) -> list[Action]:
            actions = handle(event, now)
            scheduler.state.check()
            return actions

        scheduler.handle = checked  # type: ignore[method-assign]
    return simulation.run()


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 80), st.integers(1, 6)), max_size=30),
    st.sampled_from([*MEBF, "reshape"]),
    st.sampled_from([0.3, 1.0]),
    st.sampled_from([0.0, 30.0]),
)
@settings(max_examples=examples(60), deadline=None)
def test_invariants_hold_at_every_event(
    jobs: Any, policy: str, fraction: Any, overhead_s: float
) -> None:
    jobs.sort()
    rigid = RigidWorkload("random", *(zip(*jobs, strict=True) if jobs else ([], [], [])))
    how = Malleability(fraction, SCALABILITY["low"], overhead_s, iterations=7)
    workload = MalleableWorkload(rigid, 8, how, seed=3)
    records = simulate(workload, 8, policy, check=True)
    assert len(records.ran) == len(jobs)
    assert not records.notes
    _, held = records.held_over_time()
    assert len(jobs) == 0 or (held.max() <= 8 and held[-1] == 0 and held.min() >= 0)


@pytest.mark.parametrize("policy", MEBF)
def test_without_malleable_jobs_it_is_easy(policy: str) -> None:
    workload = lublin(300, 64, load=0.9, seed=2)
    assert simulate(workload, 64, policy).end_s == simulate(workload, 64, "easy").end_s


@pytest.mark.parametrize("make", [
    lambda seed: (kit_like(400, gaps=INTENSIVE, seed=seed), NODES),
    lambda seed: (lublin(600, 128, load=0.8, seed=seed), 128),
])  # fmt: skip
def test_every_mebf_policy_beats_easy_in_mean_turnaround(make: Any) -> None:
    for seed in (1, 2):
        rigid, nodes = make(seed)
        workload = MalleableWorkload(rigid, nodes, Malleability(), seed)
        easy = simulate(workload, nodes, "easy").turnaround.mean()
        for policy in MEBF:
            assert simulate(workload, nodes, policy).turnaround.mean() < easy, policy


def test_more_rigid_jobs_less_gain() -> None:
    rigid = kit_like(400, gaps=INTENSIVE, seed=1)

    def gain(fraction: Any) -> Any:
        workload = MalleableWorkload(rigid, NODES, Malleability(fraction), 1)
        easy = simulate(workload, NODES, "easy").turnaround.mean()
        return 1 - simulate(workload, NODES, "mebf-spare").turnaround.mean() / easy

    assert gain(1.0) > gain(0.5) > gain(0.1)


def test_a_shrunk_job_takes_as_long_as_its_model_says() -> None:
    """Ten nodes for 100 s, a remap point each 10 s: at 20 it gives four away, later they return."""
    rigid = RigidWorkload("two", [0, 15], [100, 10], [10, 4])
    how = Malleability(1.0, (0.0, 0.0), overhead_s=0.0, iterations=10)
    workload = MalleableWorkload(rigid, 10, how, seed=1)
    records = simulate(workload, 10, "mebf-spare")
    first, second = records.end_s
    assert (records.start_s[1], second) == (20, 30)
    # on six an iteration takes 16.7 s; at the end of the first one, four are idle again
    back_s = 20 + 10 * 10 / 6
    assert [(r.time_s, r.size) for r in records.resizes[0]] == [
        (20, 6),
        (pytest.approx(back_s), 10),
    ]
    assert first == pytest.approx(back_s + 70)


def test_names_of_processors_do_not_change_a_malleable_schedule() -> None:
    rigid = lublin(200, 32, load=0.9, seed=4)
    workload = MalleableWorkload(rigid, 32, Malleability(), 4)
    for policy in ("mebf-spare", "reshape"):
        config = named_config(policy)
        named = Simulation(workload, 32, config, processors=Processors()).run()
        assert named.end_s == Simulation(workload, 32, config).run().end_s


@pytest.mark.parametrize("policy", SETS)
def test_policies_remember_nothing_that_matters(policy: str) -> None:
    """A server that starts again from its state goes on exactly as it would have."""
    workload = MalleableWorkload(lublin(250, 32, load=1.0, seed=6), 32, Malleability(0.7), 6)
    usual = simulate(workload, 32, policy)
    forgetful = Simulation(workload, 32, named_config(policy))
    scheduler = forgetful.scheduler
    handle, handle_together = scheduler.handle, scheduler.handle_together

    def one(event: Event, now: float) -> list[Action]:
        scheduler.configure(scheduler.config)
        return handle(event, now)

    def together(batch: Iterable[Event], now: float) -> list[Action]:
        scheduler.configure(scheduler.config)
        return handle_together(batch, now)

    scheduler.handle, scheduler.handle_together = one, together  # type: ignore[method-assign]
    records = forgetful.run()
    assert records.end_s == usual.end_s
    assert records.resizes == usual.resizes
