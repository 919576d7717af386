"""Advance reservations in simulations: on random workloads nobody is ever in the way."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from dq_server.core.features.reservations import reservation_of
from dq_server.core.model.errors import InfeasibleRequest
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.policies.registry import SETS
from dq_server.core.settings import named_config
from dq_server.sim.applications import Rigid
from dq_server.sim.cli import sim
from dq_server.sim.engine import Simulation
from dq_server.sim.evolving import Evolving
from dq_server.sim.workload import ListedJob, ListedWorkload, configuration
from harness.examples import examples

NODES = 8


@st.composite
def workloads(draw: Any) -> Any:
    """Rigid, moldable and asking jobs with estimates too long, too short and missing; walltimes."""
    booked = []
    for n in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, 60))
        size, length = draw(st.integers(1, NODES)), draw(st.integers(1, 30))
        booked.append(AdvanceReservation(f"r{n}", size, start, start + length))
    jobs = []
    for n in range(draw(st.integers(1, 25))):
        run, size = draw(st.integers(1, 40)), draw(st.integers(1, NODES))
        estimate = draw(st.sampled_from([None, 1.0, 1.5, 0.5]))
        walltime = draw(st.sampled_from([None, None, 5.0, 20.0]))
        kind = draw(st.sampled_from([JobKind.RIGID, JobKind.MOLDABLE, JobKind.EVOLVING]))
        size = min(size, NODES - 1)  # so that one that asks can be granted it
        legal = range(1, size + 1) if kind is JobKind.MOLDABLE else [size]
        reservation = draw(st.sampled_from(["", "", *(r.name for r in booked)]))
        spec = JobSpec(
            f"j{n}", kind, configuration(size), tuple(configuration(k) for k in legal),
            estimate_s=estimate and estimate * run, walltime_s=walltime, reservation=reservation,
        )  # fmt: skip
        make = (
            (lambda run=run: Evolving(run, 0.8 * run, (0.0, run / 2), 1))
            if kind is JobKind.EVOLVING
            else (lambda run=run: Rigid(run))
        )
        jobs.append(ListedJob(float(draw(st.integers(0, 50))), spec, make, n))
    return jobs, booked


class Watched(Simulation):
    """Notes who holds how much, and inside which reservation, after everything that happens."""

    seen: list[tuple[float, int, dict[str, int]]]

    def _do(self, actions: Any) -> None:
        super()._do(actions)
        state, inside = self.scheduler.state, dict[str, int]()
        state.check()
        for job in state.active.values():
            name = reservation_of(job)
            inside[name] = inside.get(name, 0) + len(job.holds())
        self.seen.append((self.now, inside.pop("", 0), inside))


@pytest.mark.parametrize("policy", [p for p in SETS if p != "mebf-handoff"])
@given(workloads())
@settings(max_examples=examples(15), deadline=None)
def test_no_allocation_overlaps_a_reservation(policy: str, given_: Any) -> None:
    jobs, booked = given_
    accepted = list[AdvanceReservation]()
    for r in booked:  # some exclude each other
        try:
            Simulation(ListedWorkload("w", []), NODES, named_config(policy),
                       reservations=[*accepted, r])  # fmt: skip
            accepted.append(r)
        except InfeasibleRequest:
            continue
    names = {r.name for r in accepted}
    possible = [
        j for j in jobs
        if not j.spec.reservation or (j.spec.reservation in names and fits(j, accepted))
    ]  # fmt: skip
    simulation = Watched(
        ListedWorkload("w", possible), NODES, named_config(policy), reservations=accepted
    )
    simulation.seen = []
    simulation.run()
    for (since, outside, inside), (until, *_) in pairwise(simulation.seen):
        for r in accepted:
            assert inside.get(r.name, 0) <= r.processors
        now = [r for r in accepted if r.start_s < until and since < r.end_s]
        if since < until:
            kept = sum(r.processors for r in now if r.start_s <= since)
            assert outside + kept <= NODES, (since, until, outside, now)


def test_a_job_whose_reservation_ends_when_another_begins_is_killed_once() -> None:
    booked = [AdvanceReservation("own", 4, 0, 4), AdvanceReservation("next", 5, 4, 5)]
    spec = JobSpec("late", JobKind.EVOLVING, configuration(3), (configuration(3),),
                   estimate_s=1.5, reservation="own")  # fmt: skip
    job = ListedJob(2.0, spec, lambda: Evolving(3, 2.4, (0.0,), 1), 0)
    simulation = Watched(
        ListedWorkload("w", [job]), NODES, named_config("fcfs"), reservations=booked
    )
    simulation.seen = []
    simulation.run()
    assert simulation.seen[-1][0] >= 4.0
    assert not simulation.scheduler.state.active


def fits(job: Any, booked: Any) -> Any:
    """What the scheduler would refuse is not submitted."""
    r = next(r for r in booked if r.name == job.spec.reservation)
    walltime = job.spec.walltime_s or 0
    return (
        job.spec.initial.size <= r.processors
        and job.submit_s < r.end_s
        and (walltime <= r.end_s - r.start_s)
    )


def test_in_a_toml_workload(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(
        """
        [[reservation]]
        name = "lecture"
        processors = 3
        start_s = 100
        duration_s = 50
        [[job]]
        run_s = 120
        processors = 2
        [[job]]
        run_s = 10
        processors = 3
        reservation = "lecture"
        [[job]]
        run_s = 90
        processors = 2
        """
    )
    table = tmp_path / "jobs.csv"
    words = ["run", str(path), "--nodes", "4", "--policy", "easy", "--csv", str(table)]
    assert CliRunner().invoke(sim, words).exit_code == 0
    starts = [line.split(",")[2] for line in table.read_text().splitlines()[1:]]
    assert starts == ["150", "100", "0"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name = 1", "name = 1"),
        ('nmae = "x"', "unknown key 'nmae'"),
        ('name = "x"', "is missing"),
        ('name="x"\nprocessors=9\nstart_s=1\nduration_s=2', "the cluster has 4"),
    ],
)
def test_bad_reservations(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "w.toml"
    path.write_text(f"[[job]]\nrun_s = 1\n[[reservation]]\n{text}\n")
    result = CliRunner().invoke(sim, ["run", str(path), "--nodes", "4", "--policy", "easy"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert fault in result.stderr
