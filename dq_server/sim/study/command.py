"""`dq sim study`: many simulations, their tables, figures and report, in one command."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import click

from dq_server.sim.errors import WorkloadError
from dq_server.sim.files import whole_file
from dq_server.sim.one_line import InputError, OneLineCommand
from dq_server.sim.output import aligned
from dq_server.sim.progress import progress
from dq_server.sim.study.file import Study, read_study
from dq_server.sim.study.report import report, rows
from dq_server.sim.study.results import Results, collect
from dq_server.sim.study.runs import Cache, Task, Tasks, run_all

INTERRUPTED = 130


@click.command(
    cls=OneLineCommand, short_help="Simulate many runs; write tables, figures, a report."
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the results, made if it is missing.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Simulations at a time.  [default: as many as there are cores]",
)
@click.option("--figures/--no-figures", default=True, help="Draw figures.  [default: do]")
@click.option("--json", "json_wanted", is_flag=True, help='One JSON object, "schema": 1.')
def study(
    file: Path, folder: Path, processes: int | None, figures: bool, json_wanted: bool
) -> None:
    """Simulate the study that FILE describes: logs, policies, shares of malleable jobs, seeds.

    Writes runs.csv (a row a run), summary.csv (means with 95 % intervals), jobs.csv.gz (a row a
    job), report.md (with a paragraph on methods) and figures/ (SVG and PDF). Runs that have ended
    are kept in cache/ and not repeated, so a study that was stopped goes on with the same command.
    """
    try:
        described = read_study(file)
        cache = _cache(folder, jobs=described.jobs)
        tasks = Tasks()
        _read(described)
        for scenario in described.scenarios():
            tasks.of(scenario)
        missing = [task for key, task in tasks.by_key.items() if cache.result(key) is None]
        _note(f"{len(described)} runs: {len(tasks.by_key)} simulations, {len(missing)} to do")
        _simulate(missing, cache, processes or len(os.sched_getaffinity(0)))
        results = collect(described, tasks, cache, folder)
        with whole_file(folder / "report.md") as part:
            part.write_text(report(results, len(tasks.by_key)), encoding="utf-8")
        drawn = _draw(results, folder / "figures") if figures else []
    except WorkloadError as error:
        raise InputError(str(error)) from error
    except OSError as error:
        raise InputError(f"{error.filename or folder}: {error.strerror or error}") from error
    if json_wanted:
        body = {"schema": 1, "study": str(file), "folder": str(folder), "runs": len(described),
                "simulations": len(tasks.by_key), "simulated": len(missing),
                "figures": [str(path) for path in drawn],
                "summary": list(results.summary())}  # fmt: skip
        click.echo(json.dumps(body))
        return
    click.echo(_as_text(described, results))
    _note(f"{folder}: runs.csv, summary.csv, report.md" + (", figures" if drawn else ""))


def _read(described: Study) -> None:
    """Read each log once, so that a fault is found before the first run."""
    done = 0
    with progress("reading", len(described.sources), lambda: done, "logs"):
        for source in described.sources:
            source.read()
            done += 1


def _cache(folder: Path, *, jobs: bool) -> Cache:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"-o {folder}: this is a file: name a folder")
    cache = Cache(folder / "cache", jobs)
    cache.folder.mkdir(parents=True, exist_ok=True)
    return cache


def _simulate(missing: list[Task], cache: Cache, processes: int) -> None:
    ended = 0

    def count() -> None:
        nonlocal ended
        ended += 1

    try:
        with progress("study", len(missing), lambda: ended, "simulations"):
            run_all(missing, cache, processes, count)
    except KeyboardInterrupt:
        _note(f"stopped: {ended} of {len(missing)} simulations ended; the same command goes on")
        raise click.exceptions.Exit(INTERRUPTED) from None


def _draw(results: Results, folder: Path) -> list[Path]:
    if find_spec("matplotlib") is None:
        _note("no figures: they need matplotlib: pip install 'dq-mpi[plots]'")
        return []
    from dq_server.sim.study.figures import DRAWN, FORMATS, draw_all  # matplotlib is slow to import

    folder.mkdir(exist_ok=True)
    drawn: list[Path] = []
    most = len(results.study.sources) * len(results.study.variants) * len(DRAWN) * len(FORMATS)
    with progress("drawing", most, lambda: len(drawn), "files"):
        drawn.extend(draw_all(results, folder))
    return drawn


def _as_text(described: Study, results: Results) -> str:
    parts = []
    for source in described.sources:
        for variant in described.variants:
            for share in described.shares:
                title = [source.title, variant.name, f"{100 * share:g} % malleable"]
                table = rows(results, source.title, variant.name, share)
                parts.append(f"{', '.join(filter(None, title))}\n{aligned(table)}")
    return "\n\n".join(parts)


def _note(text: str) -> None:
    click.echo(text, err=True)
