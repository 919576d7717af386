"""Forecasts of starts (sim/forecast.py): exact where nothing is unknown, else calibrated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.forecast import calibrate
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.launching import Launching
from dq_server.core.model.sizes import nearest_square
from dq_server.core.settings import named_config
from dq_server.sim.cli import sim
from dq_server.sim.engine import Simulation
from dq_server.sim.forecast import (
    DAY_S,
    Ended,
    PastJobs,
    Present,
    RunTimes,
    StartForecast,
    _middle,
    forecast,
    of_journal,
    of_log,
)
from dq_server.sim.journal import JournalLine
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.workload import RigidWorkload
from harness.generators.lublin import lublin

JOIN = Launching.JOIN
EASY = named_config("easy")


def took(user: int, planned_s: float, run_s: float, submit_s: float = -1e6) -> Ended:
    """A job that has ended, long ago."""
    jobs = RigidWorkload("log", [0], [run_s], [1], [planned_s], users=[user])
    return Ended(submit_s, jobs.spec(0), run_s)


def test_of_jobs_that_take_what_they_plan_the_forecast_is_the_schedule() -> None:
    # 4 processors; job 0 runs 100 s, job 1 needs all of them, jobs 2 and 3 come after it
    jobs = RigidWorkload("log", [0, 10, 20, 21], [100, 50, 30, 200], [3, 4, 2, 1],
                         users=[1, 1, 2, 2])  # fmt: skip
    played = Simulation(jobs, 4, EASY).run()
    present = of_log(jobs, played, 30.0)
    assert [(job.number, job.ran_s) for job in present.jobs] == [(0, 30.0), (1, None), (2, None),
                                                                 (3, None)]  # fmt: skip
    for _ in range(5):
        present.history.add(took(1, 10.0, 10.0))  # every job took what it planned
    found = forecast(present, EASY, draws=3, seed=0)
    for job in present.waiting:
        start_s = played.start_s[job.number] - 30.0
        assert found[job.number] == StartForecast(start_s, start_s, start_s)


def test_how_a_server_starts_ranks_changes_no_simulation() -> None:
    """Processors are only counted here: which ranks would leave first cannot be told."""
    jobs = MalleableWorkload(lublin(60, 16, load=1.2, seed=3), 16, Malleability(1.0), seed=0)
    configs = [replace(named_config("easy+reshape"), launching=kind, farewells=kind is JOIN)
               for kind in (Launching.MPIEXEC, JOIN)]  # fmt: skip
    one, other = (Simulation(jobs, 16, config).run() for config in configs)
    assert one.resizes and one.end_s == other.end_s and one.resizes == other.resizes


def test_a_running_job_is_drawn_beyond_what_it_has_run() -> None:
    history, random = PastJobs(), np.random.default_rng(0)
    jobs = RigidWorkload("log", [0], [100], [1], [100], users=[1])
    for ratio in (0.1, 0.2, 0.5, 0.8, 0.9):
        history.add(took(1, 100.0, 100.0 * ratio))
    drawn = {RunTimes(history, random).of(Present(0, jobs.spec(0), 60.0)) for _ in range(50)}
    assert drawn == {80.0, 90.0}
    # nothing took so long: until its plan says
    assert all(95.0 < RunTimes(history, random).of(Present(0, jobs.spec(0), 95.0)) <= 104.5
               for _ in range(50))  # fmt: skip


def test_a_user_with_few_ended_jobs_is_drawn_from_everybody() -> None:
    history, random = PastJobs(), np.random.default_rng(0)
    jobs = RigidWorkload("log", [0], [100], [1], [100], users=[7])
    history.add(took(7, 100.0, 10.0))
    for _ in range(9):
        history.add(took(1, 100.0, 50.0))
    assert {RunTimes(history, random).of(Present(0, jobs.spec(0))) for _ in range(60)} == {
        10.0,
        50.0,
    }


def test_the_jobs_of_a_user_are_long_or_short_together() -> None:
    history, random = PastJobs(), np.random.default_rng(0)
    jobs = RigidWorkload("log", [0], [100], [1], [100], users=[1])
    for k in range(100):
        history.add(took(1, 100.0, 10.0 if k < 50 else 90.0))
    apart = 0
    for _ in range(40):
        run_times = RunTimes(history, random)
        apart += len({run_times.of(Present(k, jobs.spec(0))) for k in range(20)}) > 1
    assert apart < 10, "only where one habit follows the other, or in the last draws of the first"


def test_later_submissions_are_those_from_the_same_time_of_an_earlier_day_on() -> None:
    history, random, now = PastJobs(), np.random.default_rng(0), 10 * DAY_S
    for day in range(10):
        history.add(took(1, 100.0, 50.0, day * DAY_S + 60.0))
        history.add(took(1, 100.0, 50.0, day * DAY_S - 60.0))
    for _ in range(20):
        came = [in_s for in_s, _ in history.later(now, random)]
        assert came and set(came) <= {60.0, DAY_S - 60.0, DAY_S + 60.0, 2 * DAY_S - 60.0}
    assert list(PastJobs().later(now, random)) == []


def test_an_interval_is_wider_than_that_of_the_draws_and_never_before_now() -> None:
    draws = [float(k) for k in range(101)]
    assert _middle(draws) == StartForecast(0.0, 50.0, 100.0)
    assert _middle([1000.0 + k for k in draws]) == StartForecast(1000.0, 1050.0, 1100.0)
    assert _middle([7.0] * 11) == StartForecast(7.0, 7.0, 7.0)
    never = [1.0] * 2 + [float("inf")] * 9
    assert _middle(never) == StartForecast(1.0, float("inf"), float("inf"))


def test_intervals_of_few_draws_hold_seventy_to_ninety_percent_of_the_starts() -> None:
    found = calibrate(lublin(240, 64, load=0.9, seed=3), 64, "easy", moments=12, draws=8, seed=1)
    assert found.early + found.within + found.late > 100
    assert 0.7 <= found.share <= 0.9, found


@pytest.mark.slow
def test_eighty_percent_intervals_hold_seventy_to_ninety_percent_of_the_starts() -> None:
    found = calibrate(lublin(400, 64, load=0.9, seed=3), 64, "easy", moments=12, draws=20, seed=1)
    assert found.early + found.within + found.late > 60
    assert 0.7 <= found.share <= 0.9, found


def run(*words: Any) -> Any:
    return CliRunner().invoke(sim, ["forecast", *map(str, words)])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    rows = [(1, 0, 100, 4), (2, 10, 50, 4), (3, 20, 10, 2)]
    path.write_text("; MaxProcs: 4\n" + "".join(
        f"{k} {submit} -1 {run_s} {size} -1 -1 {size} {run_s} -1 1 1 1 -1 -1 -1 -1 -1\n"
        for k, submit, run_s, size in rows
    ))  # fmt: skip
    return path


def test_the_command_forecasts_under_several_policies(log: Path) -> None:
    done = run(log, "--at", 30, "--policy", "easy", "--policy", "shortest-first", "--json",
               "--draws", 5)  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["schema"] == 1
    assert [row["job"] for row in told["jobs"]] == [2, 3]
    for row in told["jobs"]:
        assert row["starts"].keys() == {"easy", "shortest-first"}
        for starts in row["starts"].values():
            assert 0 <= starts["earliest_s"] <= starts["median_s"] <= starts["latest_s"]
    assert "80 %" in run(log, "--at", 30).stdout
    assert run(log, "--at", 500).stdout == "no job waits\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Give --at"),
        (["--at", 1, "--policy", "eazy"], "unknown policy"),
        (["--at", 1, "--draws", 0], "--draws"),
    ],
)
def test_what_makes_no_sense_is_one_line(log: Path, words: list[Any], says: str) -> None:
    done = run(log, *words)
    assert done.exit_code == 2
    assert done.stdout == "" and done.stderr.count("\n") == 1 and says in done.stderr


def test_a_journal_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "journal.sqlite")
    assert done.exit_code == 2 and "no such journal" in done.stderr


def entries(*happened: tuple[float, Any]) -> list[JournalLine]:
    return [JournalLine(k, time, event, []) for k, (time, event) in enumerate(happened, start=1)]


def spec(size: int, **more: Any) -> JobSpec:
    shape = nearest_square(size)
    return JobSpec("job", JobKind.RIGID, shape, (shape,), user="u", **more)


def test_a_journal_is_forecast_at_its_end_with_what_is_reserved() -> None:
    reserved = ev.AdvanceReservation("noon", 4, 500.0, 600.0)
    present, config = of_journal("journal", entries(
        (0.0, ev.Configured(EASY)),
        (0.0, ev.NodeJoined("n01", 4)),
        *[event for k in range(1, 6) for event in [
            (k, ev.JobSubmitted(spec(1, walltime_s=10.0))), (k, ev.JobStarted(k, 1)),
            (k + 10.0, ev.JobEnded(k, 1, 0)), (k + 10.0, ev.ProcessorsVacated(k, (0,))),
        ]],
        (100.0, ev.JobSubmitted(spec(3, walltime_s=100.0))),
        (100.0, ev.JobStarted(6, 1)),
        (110.0, ev.JobSubmitted(spec(4, walltime_s=350.0))),
        (130.0, ev.ReservationMade(reserved)),
    ))  # fmt: skip
    assert config.start == "easy" and present.processors == 4
    assert [(job.number, job.ran_s) for job in present.jobs] == [(6, 30.0), (7, None)]
    assert present.reservations[0].start_s == 370.0
    # all took what they planned: job 6 ends in 70 s, job 7 would then run into the reservation
    assert forecast(present, config, draws=3, seed=0)[7].median_s == 470.0
