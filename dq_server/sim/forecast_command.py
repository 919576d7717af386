"""`dq sim forecast`: when will each waiting job start? And under another policy?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import SchedulerError
from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.forecast import Snapshot, StartForecast, forecast, of_journal, of_log
from dq_server.sim.journal import read_journal
from dq_server.sim.one_line import InputError, OneLineCommand
from dq_server.sim.output import aligned
from dq_server.sim.swf import processors_of, read_swf
from dq_server.sim.workload import RigidWorkload

AS_IT_IS = "as it is"  # the policy of the server whose journal it is


@click.command("forecast", cls=OneLineCommand)
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--policy", "policies", metavar="NAME", multiple=True,
              help="Also forecast under this policy; of a log the first one is in charge before"
              " --at (default: easy).")  # fmt: skip
@click.option("--at", "at_s", type=float, metavar="SECONDS",
              help="The moment of a log, since its first submission. Of a journal: the cluster's"
              " time.  [default: that of its last event]")  # fmt: skip
@click.option("--nodes", type=click.IntRange(1), help="Processors of a log's machine.")
@click.option("--draws", type=click.IntRange(1, 10_000), default=50, show_default=True,
              help="Simulations that the interval is made of.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Of the drawn run times.")  # fmt: skip
@click.option("--json", "json_wanted", is_flag=True, help='One JSON object, "schema": 1.')
def command(
    source: Path, policies: tuple[str, ...], at_s: float | None, nodes: int | None, draws: int,
    seed: int, *, json_wanted: bool,
) -> None:  # fmt: skip
    """When will the waiting jobs of SOURCE start?

    SOURCE is the journal of a server (journal.sqlite in its folder), which may be running, or a log
    (.swf, .swf.gz). Run times are drawn from the used shares of each user's estimates. An
    interval is meant to hold 80 % of the starts; times are seconds from the moment of the forecast.
    """
    try:
        configs: dict[str, SchedulerConfig] = {name: named_config(name) for name in policies}
        if source.name.endswith((".swf", ".swf.gz")):
            configs = configs or {"easy": named_config("easy")}
            present = _of_log(source, next(iter(configs.values())), at_s, nodes)
        else:
            if nodes is not None:
                raise InputError("--nodes is for logs; a journal has its nodes")
            present, own = of_journal(str(source), read_journal(source), at_s)
            configs = {AS_IT_IS: own, **configs}
        found = {name: forecast(present, config, draws=draws, seed=seed)
                 for name, config in configs.items()}  # fmt: skip
    except (WorkloadError, SchedulerError) as error:
        raise InputError(str(error)) from error
    click.echo(_as_json(present, found, draws) if json_wanted else _as_text(present, found))


def _of_log(path: Path, config: SchedulerConfig, at_s: float | None, nodes: int | None) -> Snapshot:
    if at_s is None:
        raise InputError(f"{path}: at which moment of the log? Give --at SECONDS")
    nodes = nodes or processors_of(path)
    if nodes is None:
        raise InputError(f"{path}: the header does not give the size of the machine: give --nodes")
    jobs = RigidWorkload.from_log(read_swf(path))
    if not len(jobs):
        raise InputError(f"{path}: no job in it ran")
    played = Simulation(jobs, nodes, config).run()
    return of_log(jobs, played, jobs.submit_s[0] + at_s)


def _as_text(present: Snapshot, found: Mapping[str, Mapping[int, StartForecast]]) -> str:
    if not present.waiting:
        return "no job waits"
    heads = ["job", "user", "processors"]
    for name in found:
        heads += [f"starts in [s] ({name})", "80 %"]
    rows = [heads]
    for job in present.waiting:
        row = [str(job.shown), job.spec.user, str(job.spec.initial.size)]
        for starts in found.values():
            start = starts[job.number]
            row += [f"{start.median_s:.0f}", f"{start.earliest_s:.0f} to {start.latest_s:.0f}"]
        rows.append(row)
    return aligned(rows)


def _as_json(
    present: Snapshot, found: Mapping[str, Mapping[int, StartForecast]], draws: int
) -> str:
    def seconds(value: float) -> float | None:
        return value if value < float("inf") else None

    rows = []
    for job in present.waiting:
        starts = {
            name: {
                "earliest_s": seconds(of[job.number].earliest_s),
                "median_s": seconds(of[job.number].median_s),
                "latest_s": seconds(of[job.number].latest_s),
            }
            for name, of in found.items()
        }
        size = job.spec.initial.size
        rows.append(
            {"job": job.shown, "user": job.spec.user, "processors": size} | {"starts": starts}
        )
    return json.dumps({"schema": 1, "source": present.name, "draws": draws, "jobs": rows})


if __name__ == "__main__":
    command()
