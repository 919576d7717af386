"""`dq submit`."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dq_client.base import environment
from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import UsageError
from dq_client.base.home import Home
from dq_client.base.states import ENDED
from dq_client.base.values import (
    name_of,
    parse_env,
    parse_folder,
    parse_go_on,
    parse_input,
    parse_jobs,
    parse_memory,
    parse_parts,
    parse_profile,
    parse_range,
    parse_recipe,
    parse_sizes,
    parse_time,
    parse_workers,
)
from dq_client.cli import program as programs
from dq_client.cli.arrays import parse_array
from dq_client.cli.requests import json_option, server
from dq_client.cli.script_options import with_script_options
from dq_client.show.output import note, print_json, say

SESSION_WITHIN_S = 20.0  # then the submitter is told that the program has opened none
STALL_LOOK_S = 5.0
INF = float("inf")


# The first word that is no option begins the program, and every word after it is the program's own.
# Unknown options before it must stay errors: one taken for the program would be submitted as a job.
@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-n", "initial", type=int, help="Processors to start on.")
@click.option(
    "--sizes",
    help="Legal sizes, as 2,4,6,9; all from 2 to 9, as 2:9; or grids, as 2x2,1x4,2x4,1x8: those of"
    " one size are tried, and the fastest is used.",
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
    "--kind", type=click.Choice(["rigid", "moldable", "malleable", "evolving", "workers"]),
    help="How the size may change; workers: processes without MPI that come and go.  [default:"
    " malleable; evolving with --profile]",
)  # fmt: skip
@click.option(
    "--stop-signal", metavar="NAME",
    help="With --kind workers: signal that makes a worker leave.  [default: TERM]",
)  # fmt: skip
@click.option(
    "--grace", metavar="TIME",
    help="With --kind workers: time until a leaving worker is killed.  [default: 10s]",
)  # fmt: skip
@click.option(
    "--profile", metavar="STEPS",
    help="An evolving job's needs, known in advance: 60:4,120:8 (seconds:processors) or a JSON file"
    " [[60,4],[120,8]].",
)  # fmt: skip
@click.option("--walltime", help="Limit on the run time: 90s, 10m, 2h.")
@click.option("--estimate", help="Expected run time, for planning: 90s, 10m, 2h.")
@click.option("--name", help="A name for people.")
@click.option(
    "--env", "env", multiple=True, metavar="NAME[=VALUE]",
    help="Set a variable; NAME alone: as it is here, even if it is one that is left out otherwise.",
)  # fmt: skip
@click.option(
    "--clean-env", is_flag=True,
    help="Take nothing along of the environment but PATH, HOME, the language and a few more.",
)  # fmt: skip
@click.option(
    "--array", metavar="INDICES[%N]",
    help="One job for each index, as 0-99, 1,3,7-9 or 0-20:5; %8 behind it: at most 8 at once."
    " DQ_ARRAY_INDEX is a job's own index.",
)  # fmt: skip
@click.option(
    "--each-line", type=click.Path(path_type=Path), metavar="FILE",
    help="One job for each line of a file that is not blank; DQ_ARRAY_LINE has it.",
)  # fmt: skip
@click.option(
    "--chdir", type=click.Path(path_type=Path), metavar="FOLDER", help="Run there, not here."
)
@click.option(
    "--output", default="", metavar="PATTERN",
    help="A file for the output, also made of %j (job), %A, %a (array, index), %n (name). dq logs"
    " shows it all the same.",
)  # fmt: skip
@click.option("--error", default="", metavar="PATTERN", help="The same for stderr.")
@click.option(
    "--retry", type=click.IntRange(0, 1000), default=0, metavar="N",
    help="Start again when it has failed, up to N times.",
)  # fmt: skip
@click.option(
    "--priority", type=click.IntRange(-(10**9), 10**9), default=0,
    help="Added to the job's score under order = \"priority\"; the highest score is first.",
)  # fmt: skip
@click.option("--group", default="", help="Group for priorities and [dfs.group.NAME].")
@click.option("--account", default="", help="Account for priorities and [dfs.account.NAME].")
@click.option("--qos", default="", help="Quality of service for priorities and [dfs.qos.NAME].")
@click.option(
    "--class", "job_class", default="", help="Job class for priorities and [dfs.class.NAME]."
)
@click.option("--after", metavar="ID,ID", help="Start once these jobs have ended successfully.")
@click.option("--after-any", metavar="ID,ID", help="Start once these jobs have ended.")
@click.option("--after-not", metavar="ID,ID", help="Start once these jobs have failed.")
@click.option(
    "--protect", is_flag=False, flag_value="auto", type=click.Choice(["auto", "disk", "partner"]),
    help="Copy the data at remap points, on disk or in another node's memory; restart from the"
    " last copy when a node or a rank is lost. Alone, or auto: the server chooses partner for a job"
    " of several nodes if nodes come from a pool or are on several machines; otherwise disk.",
)  # fmt: skip
@click.option(
    "--protect-every", metavar="K|TIME",
    help="A copy every K remap points, or 30s, 5m apart. Else as often as takes 5 % of the time.",
)  # fmt: skip
@click.option(
    "--protect-budget", metavar="SHARE", help="Share of the time that copies may take, as 2%."
)
@click.option(
    "--protect-dir", type=click.Path(path_type=Path),
    help="Where copies on disk go; all nodes must see it. Else the job's folder.",
)  # fmt: skip
@click.option(
    "--restarts", type=int, help="How often to restart at most; with --protect or --recipe, 3."
)
@click.option(
    "--recipe", metavar="NAME|FILE",
    help="Resize a program that writes checkpoints, as it is: lammps, gromacs, quantum-espresso, or"
    " a file of your own (docs/recipes.md).",
)  # fmt: skip
@click.option(
    "--checkpoint-every", metavar="K|TIME",
    help="With --recipe: a checkpoint every K steps of the program, or every 30s, 5m.",
)  # fmt: skip
@click.option(
    "--go-on", type=click.IntRange(1), metavar="ID",
    help="With --recipe: begin with the last checkpoint of this job, which ran in the same folder.",
)  # fmt: skip
@click.option(
    "--app-name", default="",
    help="Name of program and problem; sizes measured by earlier jobs of it are not probed again.",
)  # fmt: skip
@click.option(
    "--memory", metavar="SIZE",
    help="Memory of its node for each rank: 4G, 512M. It is counted, and not enforced.",
)  # fmt: skip
@click.option(
    "--gpus", type=click.IntRange(0, m.GPUS_MAX), default=0,
    help="GPUs of its node for each rank; CUDA_VISIBLE_DEVICES names them.",
)  # fmt: skip
@click.option(
    "--constraint", metavar="FEATURES", default="",
    help='Features of the nodes: "a&b|c" is (a and b) or c.',
)  # fmt: skip
@click.option("--reservation", default="", help="Run inside this reservation (dq reserve).")
@click.option(
    "--input", "input_file", type=click.Path(path_type=Path), metavar="FILE",
    help="Standard input of rank 0.",
)  # fmt: skip
@click.option("--label", is_flag=True, help="Put the rank before each line of output.")
@click.option(
    "--exec", "executed", is_flag=True, help="Execute Python for each rank; fork no starter."
)
@click.option(
    "--with-dq",
    is_flag=True,
    help="Run a Python program with the Python of this dq, which has DQ and mpi4py.",
)
@click.option(
    "--mpmd", is_flag=True,
    help="Several programs, as with mpirun: dq submit --mpmd -- -n 2 PROG A : -n 1 OTHER B.",
)  # fmt: skip
@click.option(
    "--watch", type=click.Choice(["warn", "abort", "kill"]), default=None,
    help="When a rank is missing for longer than [watch] allows: warn, abort the resize whose"
    " ranks do not come, or kill the job.  [default: the cluster's setting, or abort]",
)  # fmt: skip
@click.option("--hold", is_flag=True, help="Do not start before dq release.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit code 1 if the job failed.")
@json_option
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def submit(ctx: click.Context, /, program: tuple[str, ...], **options: Any) -> int:
    """Submit PROGRAM (after --) as a job; prints the job's id, of an array the array's.

    A script may begin with lines such as #DQ --sizes 1,2,4; options given here override them.
    The program runs under MPI, one rank per processor, in the current folder. One that mpiexec has
    started becomes a job with DQ_ATTACH=1 mpiexec -n 4 python app.py (docs/attach.md).
    """
    o = with_script_options(ctx, program, options)
    body = submission(program, o)
    with server() as connection:
        reply = connection.call(body, timeout_s=10.0)
        assert isinstance(reply, m.Submitted)
        note_protection(connection, body, reply)
        if o["as_json"] and body.array is not None:
            print_json(job={"id": reply.job}, jobs=reply.jobs)
        elif o["as_json"]:
            print_json(job={"id": reply.job})
        else:
            say(reply.job)
        return wait_for(connection, reply.job, sized=has_sizes(o)) if o["wait"] else 0


def note_protection(connection: Connection, body: m.Submit, reply: m.Submitted) -> None:
    """Print a note if the server has chosen partners' memory for the copies of the job's data."""
    if body.protect is None or body.protect.how != "auto":
        return
    view = ask(connection, m.JobQuery((reply.jobs or [reply.job])[0]))
    if view["protection"]["how"] == "partner":
        note(
            "protected by partner: each copy is in memory, on two nodes; with --protect disk it is"
            " in files"
        )


def message_of(words: Sequence[str]) -> tuple[m.Submit, str]:
    """What `dq submit WORDS` would send, and a note about what of the environment it cannot hold.

    Raises:
        click.ClickException: no such option, or no such value of one.
        UsageError: options that make no sense.
    """
    ctx = submit.make_context("dq submit", list(words))
    options = {name: value for name, value in ctx.params.items() if name != "program"}
    program = ctx.params["program"]
    return _submission(program, with_script_options(ctx, program, options))


def submission(program: tuple[str, ...], o: dict[str, Any]) -> m.Submit:
    """The message for these options. Notes say what of the environment it cannot hold, and what of
    the program may be missing.

    Raises:
        Refused: the program cannot run.
    """
    body, left_out = _submission(program, o)
    for text in (left_out, programs.check(body, Home.default())):
        if text:
            note(text)
    return body


def _submission(program: tuple[str, ...], o: dict[str, Any]) -> tuple[m.Submit, str]:
    """The message, and a note about what of the environment it cannot hold."""
    parts = parse_parts(program) if o["mpmd"] else []
    if parts:
        _make_rigid(o, parts)
    folder = parse_folder(o["chdir"]) if o["chdir"] is not None else Path.cwd()
    argv = list(program) if parts else programs.runnable(program, folder, with_dq=o["with_dq"])
    inherited, left_out = environment.inherited(os.environ, clean=o["clean_env"])
    env = parse_env(o["env"])
    environment.check_size(inherited | env)
    recipe, protect = parse_recipe(o, argv, folder)
    if o["go_on"] is not None:
        env["DQ_RECIPE_FROM"] = parse_go_on(o, folder)
    body = m.Submit(
        request=uuid.uuid4().hex,
        name=o["name"] or name_of(parts[0].argv if parts else argv),
        argv=argv,
        cwd=str(folder),
        kind=o["kind"] or ("evolving" if o["profile"] else "malleable"),
        initial=o["initial"],
        sizes=_sizes(o),
        env=env,
        inherited=inherited,
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
        after_not=parse_jobs("--after-not", o["after_not"]),
        profile=parse_profile(o["profile"]) if o["profile"] else [],
        protect=protect,
        input=parse_input(o["input_file"]) if o["input_file"] is not None else "",
        label=o["label"],
        exec_only=o["executed"],
        parts=parts,
        watch=o["watch"] or "",
        memory=parse_memory("--memory", o["memory"]) if o["memory"] is not None else 0,
        gpus=o["gpus"],
        constraint=o["constraint"],
        output=o["output"],
        error=o["error"],
        retry=o["retry"],
        array=parse_array(o["array"], o["each_line"]),
        workers=parse_workers(o["kind"], o["stop_signal"], o["grace"]),
        recipe=recipe,
    )
    return body, left_out


def _make_rigid(o: dict[str, Any], parts: list[m.Part]) -> None:
    """Kind and size of a job of several programs; UsageError where the options say otherwise."""
    ranks = sum(part.ranks for part in parts)
    if o["kind"] not in (None, "rigid"):
        raise UsageError(f"--kind {o['kind']}: a job of several programs (--mpmd) is rigid")
    if o["initial"] not in (None, ranks):
        raise UsageError(f"-n {o['initial']}: the programs of --mpmd have {ranks} ranks together")
    o["kind"], o["initial"] = "rigid", ranks


def _sizes(o: dict[str, Any]) -> m.Sizes:
    """The legal sizes from the options; UsageError where options contradict each other."""
    for option in ("initial", "smallest", "largest"):
        if o[option] is not None and o[option] < 1:
            raise UsageError("a job needs at least one processor: -n, --min and --max start at 1")
        if o[option] is not None and o[option] > m.COUNT_MAX:
            raise UsageError(
                f"{o[option]} processors: -n, --min and --max are at most {m.COUNT_MAX}"
            )
    if o["sizes"] and o["chain"]:
        raise UsageError("--sizes lists the legal sizes: leave --chain out")
    if o["sizes"] and ":" in o["sizes"]:
        return _range(o)
    if o["multiple"] is not None and o["chain"] != "multiple":
        raise UsageError("--multiple belongs to one kind of sizes: give --chain multiple with it")
    return m.Sizes(
        listed=parse_sizes(o["sizes"]) if o["sizes"] else [],
        min=o["smallest"],
        max=o["largest"],
        chain=o["chain"] or "square",
        multiple=o["multiple"] or 1,
    )


def _range(o: dict[str, Any]) -> m.Sizes:
    """All sizes from the smallest to the largest, as --sizes 2:8."""
    least, most = parse_range(o["sizes"])
    if o["smallest"] is not None or o["largest"] is not None:
        raise UsageError("--sizes 2:8 sets both ends: leave --min and --max out")
    if o["kind"] == "workers":
        return m.Sizes(min=least, max=most)
    if least == 0:
        raise UsageError(f"--sizes {o['sizes']}: only a job of workers may have none of them")
    return m.Sizes(min=least, max=most, chain="multiple")


def has_sizes(o: dict[str, Any]) -> bool:
    """Whether the options ask for a job that is resized."""
    return any(o[option] is not None for option in ("sizes", "smallest", "largest", "chain"))


def wait_for(connection: Connection, job_id: int, *, sized: bool = False) -> int:
    """Wait for the end of a job; 0 if it is done, 1 if it failed. `sized`: see until_ended."""
    from dq_client.cli.logs import more_about  # only with --wait
    from dq_client.show.job_output import last_errors  # only with --wait

    try:
        view = until_ended(connection, job_id, sized=sized)
    except KeyboardInterrupt:
        note(f"job {job_id} goes on; dq logs -f {job_id} follows it, dq kill {job_id} ends it")
        raise
    note(f"job {job_id} {view['state']}: {view['reason']}")
    if view["state"] == "failed" and "jobs" not in view:
        errors = last_errors(connection, job_id)
        if errors:
            note("\n".join(["its last lines on stderr:", *(f"  {line}" for line in errors)]))
        note(more_about(job_id))
    return 0 if view["state"] == "done" else 1


def until_ended(connection: Connection, job_id: int, *, sized: bool) -> dict[str, Any]:
    """Wait for the end of a job, or of an array; returns it as lists have it.

    sized  the user gave sizes: a note says so if the program opens no session and cannot be resized
    """
    from dq_client.show.feed.one_job import looks  # only where somebody waits

    due_s: float | None = None if sized else INF
    stalls = _Stalls()
    for view in looks(connection, job_id):
        if view["state"] in ENDED:
            break
        stalls.look(connection)
        if due_s is None and view["state"] == "running":
            due_s = time.monotonic() + SESSION_WITHIN_S
        if due_s is not None and time.monotonic() >= due_s:
            due_s = INF
            for reason in ask(connection, m.WhyQuery(job_id))["now"]:
                if reason["code"] == "no_session":
                    note(f"job {job_id}: {reason['text']}")
    return view


class _Stalls:
    """Notes for who waits when the server stops saving (a full disk), and when it goes on."""

    def __init__(self) -> None:
        self._next_s = 0.0
        self._text = ""

    def look(self, connection: Connection) -> None:
        """Ask the server, at most every few seconds."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + STALL_LOOK_S
        text = ask(connection, m.StatusQuery()).get("stalled") or ""
        if text and not self._text:
            note(f"the server waits, and so does the job: {text}")
        elif self._text and not text:
            note("the server goes on")
        self._text = text
