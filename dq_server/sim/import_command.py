"""`dq sim import`: a site's own accounting as a log that can be simulated."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from dq_server.sim.errors import WorkloadError
from dq_server.sim.one_line import InputError, OneLineCommand
from dq_server.sim.sacct import COLUMNS, Accounting, Unit, read_sacct
from dq_server.sim.swf import write_swf
from dq_server.sim.workload import MOST_NODES

LABELS = {"Queue": 3, "Partition": 4}  # label of the header -> place in Record.names


@click.command(
    "import",
    cls=OneLineCommand,
    short_help="Turn the output of sacct into a log.",
    help=f"""Turn FILE, the output of `sacct -P`, into a log in the Standard Workload Format.

    Steps are ignored; of requeued jobs the last start counts; jobs that have not ended are left
    out. Names of users, accounts and jobs become numbers, so that the log can be passed on. On the
    site (one line):

    \b
    sacct -a -D -P -S START -E END -o {COLUMNS}
    """,
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "log",
    required=True,
    type=click.Path(path_type=Path),
    help="The log, .swf or .swf.gz.",
)
@click.option(
    "--count",
    "unit",
    type=click.Choice(["processors", "nodes"]),
    help="Unit of a job's size.  [default: processors, or nodes if there is no column]",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, MOST_NODES),
    help="Size of the machine, in the unit of --count.  [default: the most in use at a time]",
)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME",
    help="Only jobs of this partition, a machine of its own. May be given several times.",
)
@click.option("--timezone", metavar="ZONE", help="Of the times, as Europe/Berlin.  [default: UTC]")
def import_(
    file: Path,
    log: Path,
    unit: Unit | None,
    nodes: int | None,
    partitions: tuple[str, ...],
    timezone: str | None,
) -> None:
    """See the command's help."""
    if not log.name.endswith((".swf", ".swf.gz")):
        raise InputError(f"-o {log}: the name must end in .swf or .swf.gz")
    if log.exists() and file.exists() and log.samefile(file):
        raise InputError(f"-o {log}: this is the input: name another file")
    try:
        found = read_sacct(file, unit=unit, zone=_zone(timezone), partitions=partitions)
        machine = _machine(file, found, nodes)
        write_swf(log, found.rows(), _header(found, machine, given=nodes is not None))
    except WorkloadError as error:
        raise InputError(str(error)) from error
    except OSError as error:
        raise InputError(f"{log}: cannot be written: {error.strerror}") from error
    for note, count in sorted(found.notes.items()):
        click.echo(f"{file}: {count} records: {note}", err=True)
    click.echo(f"{log}: {len(found.jobs)} jobs, a machine of {machine} {found.unit}")
    if nodes is None:
        click.echo(f"the machine is the most that was in use: give --nodes if {found.unit} were"
                   " idle all the time", err=True)  # fmt: skip
    name = shlex.quote(str(log))
    click.echo(
        f"next: dq sim run {name} --policy easy --policy mebf-spare --malleable 0.2", err=True
    )


def _machine(file: Path, found: Accounting, nodes: int | None) -> int:
    """The size of the machine: `nodes`, or else the most that was in use at a time."""
    largest = max((job.size for job in found.jobs if job.run_s > 0), default=0)
    if not largest:
        raise WorkloadError(f"{file}: no job in it ran")
    if nodes is not None and nodes < largest:
        raise WorkloadError(f"--nodes {nodes}: a job had {largest} {found.unit}")
    return nodes or max(found.most_in_use(), largest)


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InputError(f"--timezone {name}: no such zone; one is Europe/Berlin") from error


def _header(found: Accounting, machine: int, *, given: bool) -> str:
    """Comments as in the archive's logs."""
    first, last = found.jobs[0].submit_s, max(job.submit_s + job.run_s for job in found.jobs)
    lines = [
        "Version: 2.2",
        "Conversion: dq sim import, of the output of sacct",
        f"MaxJobs: {len(found.jobs)}",
        f"MaxRecords: {len(found.jobs)}",
        f"UnixStartTime: {first:.0f}",
        f"StartTime: {datetime.fromtimestamp(first, UTC):%a %b %d %H:%M:%S UTC %Y}",
        f"EndTime: {datetime.fromtimestamp(last, UTC):%a %b %d %H:%M:%S UTC %Y}",
        f"MaxNodes: {machine}" if found.unit == "nodes" else f"MaxProcs: {machine}",
        f"Note: sizes are {found.unit}",
    ]
    if not given:
        lines.append("Note: the size of the machine is the most that was in use at a time")
    lines += [f"Note: {count} records: {note}" for note, count in sorted(found.notes.items())]
    for label, which in LABELS.items():
        names = enumerate(found.names(which), 1)
        lines += [f"{label}: {number} {name}" for number, name in names]
    return "\n".join(lines)
