"""Simulations that only count processors: the scheduler's own schedule, and only where it may."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import SchedulerError
from dq_server.core.policies.start_backfill import EasyStart
from dq_server.core.settings import named_config
from dq_server.sim import engine
from dq_server.sim.counted import suffices
from dq_server.sim.engine import Simulation
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.output import Run, csv_lines
from dq_server.sim.records import SimulatedJobs
from dq_server.sim.workload import Follows, RigidWorkload, Workload
from harness.generators.kit import INTENSIVE, NODES, kit_like
from harness.generators.lublin import lublin


def text(records: SimulatedJobs) -> list[str]:
    """All that `dq sim run` says about a run."""
    metrics = [f"{name} {value!r}" for name, value in records.metrics().items()]
    return [*csv_lines([Run("policy", records, {})]), *metrics, str(sorted(records.notes.items()))]


def counts(workload: Workload, nodes: int, config: SchedulerConfig, **how: Any) -> bool:
    """Whether a simulation of it takes the short path."""
    taken: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "run_counted", lambda *_: taken.append("counts"))
        Simulation(workload, nodes, config, **how).run()
    return bool(taken)


# Queues of a few, of hundreds and of thousands of jobs; times of whole seconds make many ties.
LOGS = {
    "light": lublin(1500, 64, load=0.5, seed=1),
    "full": lublin(1500, 64, load=0.9, seed=2),
    "overload": lublin(3000, 64, load=2.0, seed=3),
    "exact estimates": lublin(1500, 64, load=1.2, seed=4, exact_estimates=True),
    "kit": kit_like(1000, gaps=INTENSIVE, seed=5),
}


@pytest.mark.parametrize("policy", ["easy", "fcfs"])
@pytest.mark.parametrize("name", LOGS)
def test_the_results_are_those_of_the_scheduler(name: str, policy: str) -> None:
    log = LOGS[name]
    nodes = NODES if name == "kit" else 64
    config = SchedulerConfig(start=policy, resize="none")
    assert counts(log, nodes, config)
    by_counts = Simulation(log, nodes, config)
    by_events = Simulation(log, nodes, config, by_events=True).run()
    assert text(by_counts.run()) == text(by_events)
    assert by_counts.submitted == len(log)
    assert by_events.backfilled > 0 or policy == "fcfs"


@pytest.mark.parametrize("seed", range(40))
def test_ties_are_broken_alike(seed: int) -> None:
    """Jobs of a few different lengths that come at the same seconds, on a machine of six nodes."""
    rng, nodes, count = Random(seed), 6, 150
    submits = sorted(float(rng.randrange(count)) for _ in range(count))
    runs = [float(rng.choice((1, 2, 3, 5, 8))) for _ in range(count)]
    estimates = [run + rng.choice((0, 0, 1, 5)) for run in runs]
    sizes = [rng.randint(1, nodes) for _ in range(count)]
    log = RigidWorkload("ties", submits, runs, sizes, estimates)
    for policy in ("easy", "fcfs"):
        config = SchedulerConfig(start=policy, resize="none")
        made = [Simulation(log, nodes, config, by_events=by_events) for by_events in (False, True)]
        assert text(made[0].run()) == text(made[1].run())


def test_a_smaller_machine_leaves_the_same_jobs_out() -> None:
    log, config = LOGS["full"], named_config("easy")
    runs = [Simulation(log, 16, config, by_events=by_events).run() for by_events in (False, True)]
    assert text(runs[0]) == text(runs[1])
    assert any(note.startswith("left out") for note in runs[0].notes)


TWO = ([0.0, 1.0], [10.0, 10.0], [2, 2])


@pytest.mark.parametrize(
    ("what", "workload"),
    [
        ("walltimes", RigidWorkload("w", *TWO, enforce_estimates=True)),
        ("dependencies", RigidWorkload("w", *TWO, follows={1: Follows(after_any=(0,))})),
    ],
)
def test_jobs_that_use_a_feature_are_handed_to_the_scheduler(what: str, workload: Workload) -> None:
    assert not counts(workload, 4, named_config("easy")), what


def test_malleable_jobs_are_counted_where_nothing_resizes_them() -> None:
    """They run as they are in the log, to the last digit."""
    rigid = LOGS["full"]
    malleable = MalleableWorkload(rigid, 64, Malleability(0.5), 1)
    assert counts(malleable, 64, named_config("easy"))
    assert not counts(malleable, 64, named_config("mebf-spare"))
    runs = [Simulation(workload, 64, named_config("easy")).run() for workload in (rigid, malleable)]
    assert text(runs[0]) == text(runs[1])


def test_other_policies_are_asked() -> None:
    rigid = RigidWorkload("w", *TWO)
    assert counts(rigid, 4, named_config("easy"))
    for name in ("conservative", "dfs", "mebf-spare", "easy+reshape"):
        assert not counts(rigid, 4, named_config(name)), name
    assert not counts(rigid, 4, SchedulerConfig(order="priority", start="easy", resize="none"))


class Own(EasyStart):
    """A user's, of which nothing is known."""


def test_a_policy_derived_from_easy_is_asked() -> None:
    config = SchedulerConfig(start=f"{__name__}:Own", resize="none")
    simulation = Simulation(RigidWorkload("w", *TWO), 4, config)
    assert not suffices(simulation.scheduler.policies)


def test_a_plan_that_makes_no_sense_is_refused_as_ever() -> None:
    workload = RigidWorkload("w", *TWO, estimate_s=[10.0, float("nan")])
    with pytest.raises(SchedulerError, match="estimate_s must be positive"):
        Simulation(workload, 4, named_config("easy")).run()
