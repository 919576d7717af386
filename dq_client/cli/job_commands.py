"""Commands about jobs and nodes."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dq_client import messages as m
from dq_client.bringup import connect
from dq_client.cli.output import clock, duration, note, print_json, table
from dq_client.cli.protecting import parse_protection, protection_line
from dq_client.cli.values import (
    JOB_ID,
    parse_env,
    parse_jobs,
    parse_profile,
    parse_size,
    parse_sizes,
    parse_time,
)
from dq_client.connection import Connection
from dq_client.errors import UsageError
from dq_client.home import Home
from dq_client.report.growth import ENDED, NOT_STARTED

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@contextmanager
def server() -> Iterator[Connection]:
    """A connection for one command."""
    connection = connect(Home.default())
    try:
        yield connection
    finally:
        connection.close()


def ask(connection: Connection, body: m.RequestBody) -> Any:
    """The data of a query."""
    reply = connection.call(body)
    return reply.data if isinstance(reply, m.Data) else None


def resolve(connection: Connection, job_id: int) -> int:
    """The number of a job given as `last`."""
    return job_id or int(ask(connection, m.JobQuery(0))["id"])


class JobId(click.ParamType[int]):
    """A job's number, or `last`."""

    name = "ID"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:  # noqa: ARG002
        """0 stands for the last one."""
        if value == "last":
            return 0
        if JOB_ID.fullmatch(str(value)):
            return int(value)
        raise UsageError(f"{value!r} is no job id: give its number, or last")


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-n", "initial", type=int, help="Processors to start on.")
@click.option(
    "--sizes",
    help="Legal sizes, as 2,4,6,9; or grids, as 2x2,1x4,2x4,1x8: those of one size are tried, and"
    " the fastest is used.",
)
@click.option("--min", "smallest", type=int, help="Smallest legal size.")
@click.option("--max", "largest", type=int, help="Largest legal size.")
@click.option(
    "--chain", type=click.Choice(["square", "powers", "multiple"]),
    help="Which sizes between --min and --max are legal.  [default: square]",
)  # fmt: skip
@click.option(
    "--multiple", type=click.IntRange(1, m.COUNT_MAX), help="With --chain multiple: of this number."
)
@click.option(
    "--kind", type=click.Choice(["rigid", "moldable", "malleable", "evolving"]),
    help="Who may resize the job.  [default: malleable; evolving with --profile]",
)  # fmt: skip
@click.option(
    "--profile", metavar="STEPS",
    help="An evolving job's needs, known in advance: 60:4,120:8 (seconds:processors) or a JSON file"
    " [[60,4],[120,8]].",
)  # fmt: skip
@click.option("--walltime", help="Limit on the run time: 90s, 10m, 2h.")
@click.option("--estimate", help="Expected run time, for planning: 90s, 10m, 2h.")
@click.option("--name", help="A name for people.")
@click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@click.option("--priority", type=click.IntRange(-(10**9), 10**9), default=0)
@click.option("--group", default="")
@click.option("--account", default="")
@click.option("--qos", default="")
@click.option("--class", "job_class", default="")
@click.option("--after", metavar="ID,ID", help="Start once these jobs have ended successfully.")
@click.option("--after-any", metavar="ID,ID", help="Start once these jobs have ended.")
@click.option(
    "--protect", is_flag=False, flag_value="disk", type=click.Choice(["disk", "partner"]),
    help="Copy the data at remap points, on disk or in another node's memory; restart from the"
    " last copy when a node or a rank is lost. Alone: disk.",
)  # fmt: skip
@click.option(
    "--protect-every", metavar="K|TIME",
    help="A copy every K remap points, or 30s, 5m apart. Else as often as takes 5 % of the time.",
)  # fmt: skip
@click.option(
    "--protect-dir", type=click.Path(path_type=Path),
    help="Where copies on disk go; all nodes must see it. Else the job's folder.",
)  # fmt: skip
@click.option("--restarts", type=int, help="How often to restart at most; with --protect, 3.")
@click.option(
    "--app-name", default="",
    help="Program and problem by name: what earlier jobs of it have measured is not probed again.",
)  # fmt: skip
@click.option("--reservation", default="", help="Run inside this reservation (dq reserve).")
@click.option("--hold", is_flag=True, help="Do not start before dq release.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit code 1 if the job failed.")
@json_option
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def submit(program: tuple[str, ...], as_json: bool, **o: Any) -> int:
    """Submit PROGRAM (after --) as a job; prints the job's id.

    The program runs under MPI, one rank per processor, in the current folder.
    """
    body = m.Submit(
        request=uuid.uuid4().hex,
        name=o["name"] or Path(_script(program)).stem,
        argv=list(program),
        cwd=str(Path.cwd()),
        kind=o["kind"] or ("evolving" if o["profile"] else "malleable"),
        initial=o["initial"],
        sizes=_sizes(o),
        env=parse_env(o["env"]),
        inherited=dict(os.environ),
        walltime_s=parse_time("--walltime", o["walltime"]) if o["walltime"] else None,
        estimate_s=parse_time("--estimate", o["estimate"]) if o["estimate"] else None,
        group=o["group"],
        account=o["account"],
        qos=o["qos"],
        job_class=o["job_class"],
        priority=o["priority"],
        hold=o["hold"],
        app_name=o["app_name"],
        reservation=o["reservation"],
        after=parse_jobs("--after", o["after"]),
        after_any=parse_jobs("--after-any", o["after_any"]),
        profile=parse_profile(o["profile"]) if o["profile"] else [],
        protect=parse_protection(o),
    )
    with server() as connection:
        reply = connection.call(body, timeout_s=10.0)
        assert isinstance(reply, m.Submitted)
        if as_json:
            print_json(job={"id": reply.job})
        else:
            print(reply.job, flush=True)
        return wait_for(connection, reply.job) if o["wait"] else 0


def _sizes(o: dict[str, Any]) -> m.Sizes:
    """The legal sizes as given; UsageError where options contradict each other."""
    for option in ("initial", "smallest", "largest"):
        if o[option] is not None and o[option] < 1:
            raise UsageError("a job needs at least one processor: -n, --min and --max start at 1")
        if o[option] is not None and o[option] > m.COUNT_MAX:
            raise UsageError(
                f"{o[option]} processors: -n, --min and --max are at most {m.COUNT_MAX}"
            )
    if o["sizes"] and o["chain"]:
        raise UsageError("--sizes lists the legal sizes: leave --chain out")
    if o["multiple"] is not None and o["chain"] != "multiple":
        raise UsageError("--multiple is about one kind of sizes: give --chain multiple, too")
    return m.Sizes(
        listed=parse_sizes(o["sizes"]) if o["sizes"] else [],
        min=o["smallest"],
        max=o["largest"],
        chain=o["chain"] or "square",
        multiple=o["multiple"] or 1,
    )


def _script(program: tuple[str, ...]) -> str:
    """What to call the job: the script or module rather than the interpreter."""
    words = list(program)
    if Path(words[0]).name.startswith("python"):
        for i, word in enumerate(words[1:], 1):
            if word == "-m" and i + 1 < len(words):
                return words[i + 1].rpartition(".")[2]
            if not word.startswith("-"):
                return word
    return words[0]


def wait_for(connection: Connection, job_id: int) -> int:
    """Wait for the end of a job; 0 if it is done, 1 if it failed."""
    pause_s = 0.05
    while True:
        view = ask(connection, m.JobQuery(job_id))
        if view["state"] in ENDED:
            note(f"job {job_id} {view['state']}: {view['reason']}")
            return 0 if view["state"] == "done" else 1
        time.sleep(pause_s)
        pause_s = min(0.5, pause_s * 1.3)


@click.command()
@click.option("--active", is_flag=True, help="Leave out jobs that have ended.")
@json_option
def jobs(active: bool, as_json: bool) -> None:
    """List jobs, oldest first."""
    with server() as connection:
        found = ask(connection, m.JobsQuery(active))
    if as_json:
        print_json(jobs=found)
        return
    now = time.time()
    rows = []
    for j in found:
        end = j["end_s"] or now
        took = duration(end - j["start_s"]) if j["start_s"] else "-"
        size = j["processors"] if j["state"] not in NOT_STARTED else None
        spot = j["sweet_spot"]
        rows.append((j["id"], j["name"], j["kind"], j["state"], size, spot, took))
    print(table(("ID", "NAME", "KIND", "STATE", "PROCS", "SWEET SPOT", "RAN"), rows))


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@json_option
def job(job_id: int, as_json: bool) -> None:
    """Show one job and the sizes it has run on."""
    with server() as connection:
        view = ask(connection, m.JobQuery(job_id))
    if as_json:
        # Also under `job`, as `dq submit` and `dq demo` have it.
        print_json(**view, job=view)
        return
    for key in ("id", "name", "kind", "state", "processors", "nodes", "legal_sizes", "reason"):
        value = "-" if view[key] is None else view[key]
        print(f"{key + ':':14}{' '.join(map(str, value)) if isinstance(value, list) else value}")
    if len(view.get("legal_grids", ())) > len(view["legal_sizes"]):  # a size has several
        print(f"{'legal_grids:':14}{' '.join(map(grid_word, view['legal_grids']))}")
    for key in ("submit_s", "start_s", "end_s"):
        print(f"{key[:-2] + ':':14}{clock(view[key])}")
    if view["protection"]:
        print(f"{'protection:':14}{protection_line(view)}")
    if view["scheduled"]:
        print()
        print(scheduled_table(view["scheduled"]))
    if view["sizes"]:
        print()
        print(sizes_table(view["sizes"]))


def scheduled_table(scheduled: dict[str, Any]) -> str:
    """The steps that were promised to a profile; > marks the one that runs."""
    rows, at_s = [], scheduled["start_s"]
    for step, (duration_s, processors) in enumerate(scheduled["steps"]):
        mark = ">" if step == scheduled["step"] else ""
        rows.append((mark, step + 1, clock(at_s), duration(duration_s), processors))
        at_s += duration_s
    return table(("", "STEP", "SCHEDULED", "FOR", "PROCS"), rows)


def grid_word(grid: list[int]) -> str:
    """`2x4`, as users type it."""
    return f"{grid[0]}x{grid[1]}"


def sizes_table(sizes: list[dict[str, Any]]) -> str:
    """The sizes a job has run on, with what was measured and decided there."""
    head = ("SIZE", "GRID", "ITERATIONS", "ITERATION s", "REDISTRIBUTION s", "DECISION", "REASON")
    rows = [
        (
            s["processors"],
            grid_word(s["grid"]),
            s["iterations"],
            s["iteration_time_s"],
            s["redistribution_time_s"],
            s["decision"],
            s["reason"],
        )
        for s in sizes
    ]
    return table(head, rows)


@click.command()
@json_option
def nodes(as_json: bool) -> None:
    """List nodes."""
    with server() as connection:
        found = ask(connection, m.NodesQuery())
    if as_json:
        print_json(nodes=found)
        return
    rows = [
        (n["name"], n["state"], n["processors"], n["idle"], " ".join(map(str, n["jobs"])) or "-")
        for n in found
    ]
    print(table(("NODE", "STATE", "PROCS", "IDLE", "JOBS"), rows))


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@json_option
def why(job_id: int, as_json: bool) -> None:
    """Explain why a job is where it is, and how it got there."""
    with server() as connection:
        view = ask(connection, m.WhyQuery(job_id))
    if as_json:
        print_json(**view)
        return
    print(f"job {view['job']} is {view['state']}")
    for reason in view["now"]:
        print(f"  {reason['text']}")
    if view["story"]:
        print("so far:")
    for line in view["story"]:
        print(f"  {clock(line['time_s'])}  {line['what']:10} {line['text']}")


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option("--err", "stream", flag_value="err", help="Standard error instead of output.")
@click.option("--out", "stream", flag_value="out", default="out", hidden=True)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@json_option
def logs(job_id: int, stream: str, follow: bool, as_json: bool) -> None:
    """Show what a job has written."""
    with server() as connection:
        number = resolve(connection, job_id)
        pieces = output_of(connection, number, stream, follow=follow)
        if as_json:
            text = b"".join(pieces).decode(errors="replace")
            print_json(job={"id": number}, stream=stream, text=text)
            return
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()


def output_of(
    connection: Connection, job_id: int, stream: str = "out", *, follow: bool = False
) -> Iterator[bytes]:
    """What a job has written, piece by piece; with `follow` until it has ended."""
    offset = 0
    while True:
        reply = connection.call(m.LogsQuery(job_id, stream, offset))
        assert isinstance(reply, m.LogPiece)
        offset = reply.offset
        yield reply.data
        if reply.end or not (reply.data or follow):
            return
        if not reply.data:
            time.sleep(0.2)


def _simple(name: str, body: Any, done: str, doc: str) -> click.Command:
    """A command that names a job and is answered by `done`."""

    @click.command(name, help=doc)
    @click.argument("job_id", type=JobId(), metavar="ID")
    @json_option
    def command(job_id: int, as_json: bool) -> None:
        with server() as connection:
            number = resolve(connection, job_id)
            connection.call(body(number))
        if as_json:
            print_json(job={"id": number})
        else:
            note(f"job {number}: {done}")

    return command


kill = _simple("kill", m.Kill, "is being killed", "Kill a job and all its processes.")
hold = _simple("hold", m.Hold, "is on hold", "Keep a queued job from starting.")
release = _simple("release", m.Release, "is in the queue", "Let a held job start.")


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.argument("wanted", metavar="N")
def resize(job_id: int, wanted: str) -> None:
    """Bring a job to N processors at its next remap point; also to one of its grids, as 2x4."""
    size, rows = parse_size(wanted)
    with server() as connection:
        number = resolve(connection, job_id)
        connection.call(m.Resize(number, size, rows))
    grid = f" as {wanted}" if rows else ""
    note(f"job {number}: {size} processors{grid} at its next remap point")
