"""`dq sim run`: what would these jobs have gained under other policies?"""

from __future__ import annotations

import math
import shutil
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError, SchedulerError
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.model.pool import PoolOptions
from dq_server.core.model.profile import FIT_RULES
from dq_server.core.policies.registry import SETS
from dq_server.core.settings import check, configured, from_tables, named_config
from dq_server.sim.applications import MOST_ITERATIONS
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.files import try_to_write
from dq_server.sim.malleable import SCALABILITY, Malleability, MalleableWorkload
from dq_server.sim.malleable_settings import described, read_malleability
from dq_server.sim.one_line import InputError, OneLineCommand
from dq_server.sim.output import Run, as_json, as_table, notes_of, write_csv
from dq_server.sim.pool import costs, read_pool
from dq_server.sim.progress import progress
from dq_server.sim.records import SimulatedJobs
from dq_server.sim.swf import only, processors_of, read_swf
from dq_server.sim.toml_workload import read_outages, read_reservations, read_toml, since
from dq_server.sim.workload import (
    MOST_NODES,
    ListedWorkload,
    Outage,
    RigidWorkload,
    Workload,
)

DAY_S = 86_400.0
PLOT_FORMATS = (".png", ".svg", ".pdf")


@click.command(cls=OneLineCommand)
@click.argument("workload", type=click.Path(path_type=Path))
@click.option(
    "--nodes",
    type=click.IntRange(1, MOST_NODES),
    help="Processors it has.  [default: MaxProcs, or MaxNodes, of the log's header]",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help=f"May be given several times. One of {', '.join(SETS)}; or single policies added up, as"
    " easy+reshape; or your own, package.module:Class.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="A server's configuration file; --policy overrides the policies that it names.",
)
@click.option(
    "--malleable",
    type=click.FloatRange(0, 1),
    help="Share of a log's jobs, drawn at random, that may be resized.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--scalability",
    type=click.Choice(list(SCALABILITY)),
    help="How well malleable jobs scale.  [default: medium]",
)
@click.option(
    "--overhead",
    type=click.FloatRange(min=0),
    help="Scale of the cost of a resize, seconds.  [default: 10]",
)
@click.option(
    "--iterations",
    type=click.IntRange(1, MOST_ITERATIONS),
    help="Iterations of a malleable job.  [default: 100]",
)
@click.option(
    "--transform",
    "transform",
    multiple=True,
    metavar="KEY=VALUE",
    help="How jobs are made malleable: a key of the table [malleable] of `dq sim study`, as"
    " model=amdahl or serial=[0.01,0.05]. May be given several times.",
)
@click.option(
    "--fit",
    metavar="NAME",
    help=f"How profiles known in advance are placed: {', '.join(FIT_RULES)}.  [default: 2X+c]",
)
@click.option(
    "--sweet-spot",
    type=click.Choice(["thesis", "search"]),
    help="How ReSHAPE's jobs find their sweet spots, as sweet_spot in [scheduler].  [default:"
    " thesis]",
)
@click.option(
    "--pool",
    "pool_words",
    metavar="WORDS",
    help="Nodes that are asked for and given back, instead of --nodes that are always on, beside"
    ' which the result is shown. As in "min=0,max=100,idle=5m,start=2m,spread=0.5,price=1.2":'
    " nodes at least and at most [--nodes], given back after idle; how long a node takes to start,"
    " drawn with --seed from (1 ± spread) times that; its price per hour [1]; also processors of a"
    " node [1], depth, grow=on|off and gain as in [pool].",
)
@click.option(
    "--enforce-estimates", is_flag=True, help="Kill jobs that run longer than their estimate."
)
@click.option(
    "--dependencies",
    is_flag=True,
    help="Honour a log's fields 17 and 18: preceding job and think time.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NUMBER|NAME",
    help="Only a log's jobs of this queue (field 15), by its number or its name in the header. May"
    " be given several times.",
)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NUMBER|NAME",
    help="Only a log's jobs of this partition (field 16), likewise.",
)
@click.option(
    "--reserve",
    "reserve",
    multiple=True,
    metavar="COUNT:START:LENGTH",
    help="Keep COUNT processors out of use from START seconds after a log's first submission on,"
    " for LENGTH seconds: maintenance. May be given several times.",
)
@click.option(
    "--outage",
    "outage",
    multiple=True,
    metavar="COUNT:START:LENGTH",
    help="Let COUNT processors fail, without notice, START seconds after a log's first submission,"
    " for LENGTH seconds: jobs on them start again. May be given several times.",
)
@click.option(
    "--warm-up",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="Do not count jobs that are submitted in the first days; they are simulated.",
)
@click.option("--json", "json_wanted", is_flag=True, help='One JSON object, "schema": 1.')
@click.option("--csv", "csv", type=click.Path(path_type=Path), help="Write one line per job.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    help="Draw processors over time, waits and turnarounds.",
)
def run(
    workload: Path,
    nodes: int | None,
    policies: tuple[str, ...],
    config_file: Path | None,
    malleable: float | None,
    seed: int,
    scalability: str | None,
    overhead: float | None,
    iterations: int | None,
    transform: tuple[str, ...],
    fit: str | None,
    sweet_spot: str | None,
    pool_words: str | None,
    enforce_estimates: bool,
    dependencies: bool,
    queues: tuple[str, ...],
    partitions: tuple[str, ...],
    reserve: tuple[str, ...],
    outage: tuple[str, ...],
    warm_up: float | None,
    json_wanted: bool,
    csv: Path | None,
    plot: Path | None,
) -> None:
    """Simulate a workload under one or more policies.

    WORKLOAD is a log in the Standard Workload Format (.swf, .swf.gz), whose jobs need field 8 (else
    5) processors, last field 4 and plan with field 9 (else what they last), or a .toml file.
    """
    how = _malleability(malleable, scalability, overhead, iterations, transform)
    try:
        configs = _configs(policies, config_file, {"fit": fit, "sweet_spot": sweet_spot})
        _check_outputs(workload, csv, plot)
        nodes = _processors(workload) if nodes is None else nodes
        parts = queues, partitions
        jobs = _read(workload, nodes, how, seed, enforce_estimates, dependencies, parts)
        reserved = _reserved(jobs, reserve)
        pools = pool_words is not None or any(
            PoolOptions.table in config.options for config in configs.values()
        )
        outages = _outages(jobs, outage, alone=not (dependencies or pools))
        runs = []
        for policy, config in configs.items():
            simulation = Simulation(jobs, nodes, config, reservations=reserved, outages=outages)
            records = _run(simulation, policy, warm_up)
            table = config.options.get(PoolOptions.table, {})
            if pool_words is None and not table:
                runs.append(Run(policy, records, records.metrics()))
                continue
            pool = read_pool(pool_words or "", table, nodes)
            simulation = Simulation(
                jobs, nodes, config, reservations=reserved, pool=pool, seed=seed
            )
            pooled = _run(simulation, f"{policy} + pool", warm_up)
            for label, found in ((policy, records), (f"{policy} + pool", pooled)):
                metrics = found.metrics() | costs(found, pool, records)
                runs.append(Run(label, found, metrics))
    except (WorkloadError, SchedulerError) as error:
        raise InputError(str(error)) from error
    for line in notes_of(jobs.name, runs):
        click.echo(line, err=True)
    try:
        if csv is not None:
            write_csv(csv, runs)
        if plot is not None:
            from dq_server.sim.plots import plot_runs  # matplotlib is slow to import

            plot_runs(plot, runs)
    except OSError as error:
        name = error.filename or csv or plot
        raise InputError(f"{name}: cannot be written: {error.strerror}") from error
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    made = f"{100 * how.fraction:g} % of the jobs, seed {seed}: {described(how)}" if how else ""
    click.echo(as_json(jobs.name, nodes, runs, made) if json_wanted else as_table(runs, wide))


def _run(simulation: Simulation, title: str, warm_up_days: float | None) -> SimulatedJobs:
    jobs = simulation.workload
    with progress(title, len(jobs), lambda: simulation.submitted):
        records = simulation.run()
    if warm_up_days and len(jobs):
        records.warm_up_until(jobs.submit_s[0] + warm_up_days * DAY_S)
    return records


def _reserved(jobs: Workload, reserve: tuple[str, ...]) -> Sequence[AdvanceReservation]:
    if isinstance(jobs, ListedWorkload):
        if reserve:
            raise InputError("--reserve is for logs: a .toml file has [[reservation]]")
        return jobs.reservations
    if not len(jobs):
        return ()
    tables = [
        {"name": f"reserved {number}", **span}
        for number, span in enumerate(_spans("--reserve", reserve), 1)
    ]
    return since(jobs.submit_s[0], read_reservations(tables))


def _outages(jobs: Workload, outage: tuple[str, ...], *, alone: bool) -> Sequence[Outage]:
    """`alone`: without what outages cannot be simulated with."""
    if outage and (isinstance(jobs, ListedWorkload) or not alone):
        raise InputError(
            "--outage is for logs, without --dependencies and without a pool: leave them out"
        )
    found = read_outages(list(_spans("--outage", outage)))
    return [one.since(jobs.submit_s[0]) for one in found if len(jobs)]


def _spans(option: str, given: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Processors for a time, as the keys of a table of a study."""
    for words in given:
        try:
            count, start_s, length_s = words.split(":")
            yield {"processors": int(count), "start_s": float(start_s),
                   "duration_s": float(length_s)}  # fmt: skip
        except ValueError as error:
            raise InputError(
                f"{option} {words}: write COUNT:START:LENGTH, as 20:86400:28800"
            ) from error


def _processors(workload: Path) -> int:
    """Return the processors of the machine that a log is from, by its header; else InputError."""
    found = processors_of(workload) if workload.name.endswith((".swf", ".swf.gz")) else None
    if found is None:
        said = "its header names neither MaxProcs nor MaxNodes"
        why = "a .toml file does not say it" if workload.suffix == ".toml" else said
        raise InputError(f"{workload}: {why}: give --nodes, the processors of the machine")
    return found


def _configs(
    policies: tuple[str, ...], config_file: Path | None, settings: dict[str, str | None]
) -> dict[str, SchedulerConfig]:
    """What to simulate under, by the name it has in the results; `settings`: those given."""
    if len(set(policies)) < len(policies):
        raise InputError("a policy is named twice")
    if not policies and config_file is None:
        raise InputError("Missing option '--policy': give one, or --config FILE")
    usual = configured() if config_file is None else _read_config(config_file)
    usual = configured(usual, **{k: v for k, v in settings.items() if v is not None})
    configs = {policy: named_config(policy, usual) for policy in policies}
    if config_file is not None and not configs:
        configs = {config_file.stem: usual}
    for config in configs.values():
        check(config)
    return configs


def _read_config(path: Path) -> SchedulerConfig:
    try:
        tables = tomllib.loads(path.read_text())
        tables.pop("launch", None)  # of a server: nothing is launched here
        return from_tables(tables)
    except OSError as error:
        raise InputError(f"--config {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--config {path}: not TOML: {error}") from error
    except ConfigError as error:
        raise InputError(f"--config {path}: {error}") from error


def _malleability(
    share: float | None,
    scalability: str | None,
    overhead: float | None,
    iterations: int | None,
    transform: tuple[str, ...],
) -> Malleability | None:
    options = {"--scalability": scalability, "--overhead": overhead, "--iterations": iterations,
               "--transform": transform or None}  # fmt: skip
    if share is None:
        for option, value in options.items():
            if value is not None:
                raise InputError(f"{option} applies to malleable jobs: give --malleable with it")
        return None
    for option, number in (("--malleable", share), ("--overhead", overhead)):
        if number is not None and not math.isfinite(number):
            raise InputError(f"{option} {number}: a finite number is needed")
    table = dict(map(_setting, transform))
    for key, value in (
        ("scalability", scalability),
        ("overhead_s", overhead),
        ("iterations", iterations),
    ):
        if value is not None:
            if key in table:
                raise InputError(f"--transform {key} and its own option: give one of them")
            table[key] = value
    try:
        return read_malleability(table, Malleability(share))
    except WorkloadError as error:
        raise InputError(f"--transform: {error}" if transform else str(error)) from error


def _setting(word: str) -> tuple[str, Any]:
    """KEY=VALUE, as a line of TOML; a value that is none is a text."""
    key, sign, value = (part.strip() for part in word.partition("="))
    if not sign or not key:
        raise InputError(f"--transform {word}: write KEY=VALUE, as model=amdahl")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def _check_outputs(workload: Path, csv: Path | None, plot: Path | None) -> None:
    """Before anything is simulated: could the results be written?"""
    for option, path in (("--csv", csv), ("--plot", plot)):
        if path is None:
            continue
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise InputError(f"{option} {path}: not a file in a directory that exists")
        if path.exists() and workload.exists() and path.samefile(workload):
            raise InputError(f"{option} {path}: this is the workload: name another file")
        try:
            try_to_write(path)
        except OSError as error:
            raise InputError(f"{option} {path}: cannot be written: {error.strerror}") from error
    if plot is None:
        return
    if plot.suffix not in PLOT_FORMATS:
        raise InputError(f"--plot {plot}: the name must end in {', '.join(PLOT_FORMATS)}")
    if csv is not None and csv.absolute() == plot.absolute():
        raise InputError("--csv and --plot name the same file")
    if find_spec("matplotlib") is None:
        raise InputError("--plot needs matplotlib: pip install 'dq-mpi[plots]'")


def _read(
    path: Path,
    nodes: int,
    how: Malleability | None,
    seed: int,
    enforce_estimates: bool,
    dependencies: bool,
    parts: tuple[tuple[str, ...], tuple[str, ...]],
) -> Workload:
    if path.suffix == ".toml":
        if how is not None:
            raise InputError("--malleable is for logs: in a .toml file each job has its kind")
        if enforce_estimates:
            raise InputError("--enforce-estimates is for logs: a .toml job has walltime_s")
        if dependencies:
            raise InputError("--dependencies is for logs: a .toml job has after")
        if any(parts):
            raise InputError("--queue and --partition are for logs: leave them out")
        return read_toml(path)
    if not path.name.endswith((".swf", ".swf.gz")):
        raise InputError(f"{path}: a workload is a .swf, .swf.gz or .toml file")
    log = only(read_swf(path), *parts)
    if not len(log.fields):
        raise InputError(f"{path}: there is no job in it that can be simulated")
    rigid = RigidWorkload.from_log(
        log, enforce_estimates=enforce_estimates, dependencies=dependencies
    )
    return rigid if how is None else MalleableWorkload(rigid, nodes, how, seed)
