"""`dq sim shadow`: what would another policy have done with the jobs of a running server?"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import SchedulerError
from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.journal import read_journal
from dq_server.sim.journal_workload import Lived, jobs_of
from dq_server.sim.one_line import InputError, OneLineCommand
from dq_server.sim.output import Run, aligned, as_table, notes_of
from dq_server.sim.records import SimulatedJobs

AS_IT_WAS = "as it was"
SHOWN = ("jobs", "mean_wait_s", "mean_turnaround_s", "mean_bounded_slowdown", "p95_wait_s",
         "makespan_s", "utilization")  # fmt: skip
SAME_S = 1.0  # differences below it are none
HOUR_S = 3600.0


@click.command(cls=OneLineCommand)
@click.argument("journal", type=click.Path(path_type=Path))
@click.option("--policy", "policies", metavar="NAME", multiple=True, required=True,
              help="The policy to compare with; may be given several times.")  # fmt: skip
@click.option("--last", "last_h", type=click.FloatRange(0, min_open=True), metavar="HOURS",
              help="Count only the jobs submitted in the last HOURS before the newest end; all jobs"
              " are simulated.  [default: count all]")  # fmt: skip
@click.option("--follow", "every_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
              help="Read the journal again every SECONDS, and print when jobs have ended, until"
              " Ctrl-C.")  # fmt: skip
@click.option("--jobs", "with_jobs", is_flag=True, help="Also print a line per job.")
@click.option("--json", "json_wanted", is_flag=True,
              help='One JSON object, "schema": 1; a line each with --follow.')  # fmt: skip
def shadow(
    journal: Path, policies: tuple[str, ...], last_h: float | None, every_s: float | None, *,
    with_jobs: bool, json_wanted: bool,
) -> None:  # fmt: skip
    """Simulate the ended jobs of JOURNAL under another policy, beside what happened to them.

    JOURNAL is that of a server (journal.sqlite in its folder), which may be running. The jobs have
    their real times of submission, run times and iteration times. Jobs that wait or run are left
    out until they have ended.
    """
    seen = -1
    try:
        configs = {policy: named_config(policy) for policy in policies}
        while True:
            lived = jobs_of(journal, read_journal(journal))
            if len(lived.workload) != seen:
                seen = len(lived.workload)
                click.echo(_compared(lived, configs, last_h, jobs=with_jobs, as_json=json_wanted))
            if every_s is None:
                return
            time.sleep(every_s)
    except KeyboardInterrupt:
        return
    except (WorkloadError, SchedulerError) as error:
        raise InputError(str(error)) from error


def _compared(
    lived: Lived, configs: dict[str, SchedulerConfig], last_h: float | None, *, jobs: bool,
    as_json: bool,
) -> str:  # fmt: skip
    """What happened, beside the simulation under each policy."""
    workload, processors, was = lived
    if not len(workload):
        raise WorkloadError(f"{workload.name}: no job has ended yet")
    found = {AS_IT_WAS: was}
    for policy, config in configs.items():
        found[policy] = Simulation(workload, processors, config).run()
    if last_h is not None:
        begin_s = max(was.end_s) - last_h * HOUR_S
        if max(workload.submit_s) < begin_s:
            raise WorkloadError(f"--last {last_h:g}: no ended job was submitted in these hours")
        for records in found.values():
            records.warm_up_until(begin_s)
    runs = [Run(name, records, records.metrics()) for name, records in found.items()]
    if as_json:
        rows = [{"policy": run.policy, **run.metrics, "notes": dict(run.records.notes)}
                for run in runs]  # fmt: skip
        body: dict[str, Any] = {"schema": 1, "nodes": processors, "runs": rows}
        if jobs:
            body["jobs"] = list(_by_job(runs))
        return json.dumps(body)
    for line in notes_of(workload.name, runs):
        click.echo(line, err=True)
    shown = [Run(run.policy, run.records, {name: run.metrics[name] for name in SHOWN})
             for run in runs]  # fmt: skip
    parts = [as_table(shown), *(_sooner(was, run) for run in runs[1:])]
    if jobs:
        parts.append(_job_table(runs))
    return "\n".join(parts)


def _sooner(was: SimulatedJobs, run: Run) -> str:
    """How many jobs would have ended sooner, and how many later."""
    gain_s = np.frombuffer(was.end_s)[was.ran] - np.frombuffer(run.records.end_s)[was.ran]
    sooner, later = (gain_s > SAME_S).sum(), (gain_s < -SAME_S).sum()
    return f"{run.policy}: {sooner} of {len(gain_s)} jobs would have ended sooner, {later} later"


def _by_job(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """Wait and turnaround of each job that counts, by policy; None: it does not end."""
    workload, submit_s = runs[0].records.workload, runs[0].records.workload.submit_s
    for k in runs[0].records.ran.tolist():
        times = {
            run.policy: {
                "wait_s": _since(run.records.start_s[k], submit_s[k]),
                "turnaround_s": _since(run.records.end_s[k], submit_s[k]),
            }
            for run in runs
        }
        yield {"job": workload.number(k), "submit_s": submit_s[k], "times": times}


def _since(time_s: float, submit_s: float) -> float | None:
    return None if math.isnan(time_s) else time_s - submit_s


def _job_table(runs: list[Run]) -> str:
    heads = [f"{what} [s] ({run.policy})" for run in runs for what in ("wait", "turnaround")]
    rows = [["job", *heads]]
    for job in _by_job(runs):
        values = [value for times in job["times"].values() for value in times.values()]
        rows.append([str(job["job"]), *("-" if v is None else f"{v:.1f}" for v in values)])
    return aligned(rows)
