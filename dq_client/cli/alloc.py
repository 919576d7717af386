"""`dq alloc`: processors for a shell, in which mpiexec starts ranks on them, as salloc does."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import click
import psutil

from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import NoServer, NotFound, NotNow, Refused, UsageError
from dq_client.base.home import Home
from dq_client.base.states import ENDED
from dq_client.cli.requests import server
from dq_client.cli.run import ENDING, Interrupted, exit_code_of, signals
from dq_client.cli.submit import submission, submit
from dq_client.node import fleet
from dq_client.node.mpiexec.command import find_mpiexec
from dq_client.show.feed.one_job import looks
from dq_client.show.output import note

# Of `dq submit`: what is about the processors. The program is ours: it only holds them.
TAKEN = {"initial", "walltime", "estimate", "name", "priority", "group", "account", "qos"}
TAKEN |= {"job_class", "after", "after_any", "after_not", "memory", "gpus", "constraint"}
TAKEN |= {"reservation"}
PROGRAM = ("sleep", "infinity")
HOLDER = ("--kind", "rigid", "--exec", "--clean-env", "--", *PROGRAM)  # words of dq submit
LOCAL = "local"  # the host of nodes on this machine (cluster.py)
LOOK_S = 0.5
HANGS_UP_WITHIN_S = 5.0  # a shell whose processors are gone, before it is killed


@click.command(
    "alloc",
    context_settings={"allow_interspersed_args": False},
    params=[
        *(p for p in submit.params if p.name in TAKEN),
        click.Argument(["program"], nargs=-1, type=click.UNPROCESSED),
    ],
)
def alloc(program: tuple[str, ...], **options: Any) -> int:
    """Open a shell with -n processors of the cluster (or run PROGRAM there, after --).

    In it mpiexec starts its ranks on these processors. They are given back at the shell's end.
    """
    _check_engine()
    words = program or (os.environ.get("SHELL", "sh"),)
    if shutil.which(words[0]) is None:
        raise UsageError(f"dq alloc: {words[0]}: no such program")
    mpiexec = find_mpiexec()
    held = submit.make_context("dq alloc", [*HOLDER]).params | options
    held |= {"initial": options["initial"] or 1, "name": options["name"] or "alloc"}
    del held["program"]
    body = submission(PROGRAM, held)
    with signals():
        try:
            with server() as connection:
                reply = connection.call(body, timeout_s=10.0)
                assert isinstance(reply, m.Submitted)
                return _shell(connection, reply.job, words, mpiexec)
        except Interrupted as e:
            return e.exit_code
        finally:
            _give_back(body)


def _check_engine() -> None:
    """UsageError where mpiexec, started from a shell here, would not run on the nodes."""
    record = fleet.noted(Home.default())
    if record is not None and (record.in_namespaces or record.mechanism != "none"):
        raise UsageError(
            "dq alloc: the nodes of this cluster are emulated, and mpiexec in a shell runs outside"
            " of them; use dq run -n N -- PROGRAM"
        )


def _shell(connection: Connection, job_id: int, words: tuple[str, ...], mpiexec: str) -> int:
    """Run the shell as soon as the job has its processors; returns its exit code."""
    for number, view in enumerate(looks(connection, job_id, wait_s=LOOK_S)):
        if view["state"] in ENDED or view["state"] == "running":
            break
        if number == 1 and view["state"] != "starting":
            note(f"job {job_id} waits for its processors (dq why {job_id}); Ctrl-C gives up")
    if view["state"] in ENDED:
        note(f"job {job_id} {view['state']}: {view['reason']}")
        return exit_code_of(view)
    with tempfile.TemporaryDirectory(prefix="dq-alloc-") as folder:
        hosts = _hosts(connection, view)
        file = Path(folder, "hosts")
        file.write_text("".join(f"{host}:{count}\n" for host, count in hosts.items()))
        count = sum(hosts.values())
        note(f"job {job_id}: {count} processors on {', '.join(view['nodes'])}")
        start = Path(folder, "mpiexec")
        start.write_text(f'#!/bin/sh\nexec {shlex.quote(mpiexec)} "$@"\n')
        start.chmod(0o700)
        env = {
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HYDRA_HOST_FILE": str(file),  # where mpiexec starts ranks, unless it is told
            "DQ_ALLOC": str(job_id),
            "DQ_ALLOC_PROCESSORS": str(count),
        }
        return _run(connection, job_id, words, env)


def _hosts(connection: Connection, view: dict[str, Any]) -> Counter[str]:
    """How many of the job's processors are on which machine, in the order of its nodes."""
    found: Counter[str] = Counter()
    for node in ask(connection, m.NodesQuery()):
        host = "localhost" if node["host"] == LOCAL else node["host"]
        found[host] += sum(owner == view["id"] for owner in node["owners"])
    return +found


def _run(connection: Connection, job_id: int, words: tuple[str, ...], env: dict[str, str]) -> int:
    """The shell, until it ends; it is ended if the job is."""
    # Ctrl-C is for what runs in the shell. A handler, unlike SIG_IGN, is not inherited.
    signal.signal(signal.SIGINT, lambda *_: None)
    # A signal that broke off the start would leave a shell that nobody ends: it counts afterwards.
    came = list[int]()
    handlers = {n: signal.signal(n, lambda number, _: came.append(number)) for n in ENDING}
    try:
        shell = subprocess.Popen(words, env=env)
    except OSError as e:
        raise UsageError(f"dq alloc: {words[0]}: {e.strerror or e}") from e
    try:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
        while shell.poll() is None:
            try:
                shell.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                view = _view(connection, job_id)
                if view is not None and view["state"] in (*ENDED, "killing"):
                    note(f"job {job_id} {view['state']}: {view['reason'] or 'its end has begun'}")
                    return exit_code_of(view)
    finally:
        _hang_up(shell)
    return shell.returncode if shell.returncode >= 0 else 128 - shell.returncode


def _view(connection: Connection, job_id: int) -> dict[str, Any] | None:
    """The job; None while no server answers, which says nothing of its processors."""
    try:
        found: dict[str, Any] = ask(connection, m.JobQuery(job_id))
    except (NoServer, NotNow):
        return None
    return found


def _hang_up(shell: subprocess.Popen[bytes]) -> None:
    """End the shell, and all that it has started, as a terminal that is closed does."""
    if shell.poll() is not None:
        return
    there = _held(psutil.Process(shell.pid))
    for process in there:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGHUP)
            process.resume()
    _, alive = psutil.wait_procs(there, HANGS_UP_WITHIN_S)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    shell.wait()


def _held(root: psutil.Process) -> list[psutil.Process]:
    """A process and all that it has started, stopped: none can start another that is not seen."""
    there, new = list[psutil.Process](), [root]
    while new:
        for process in new:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        there += new
        new = []
        with contextlib.suppress(psutil.NoSuchProcess):
            new = [p for p in root.children(recursive=True) if p not in there]
    return there


def _give_back(body: m.Submit) -> None:
    """End the job that holds the processors."""
    with server() as connection:
        reply = connection.call(body, timeout_s=10.0)  # said again: the same job
        assert isinstance(reply, m.Submitted)
        with contextlib.suppress(Refused, NotFound):  # it has ended
            connection.call(m.Kill(reply.job))
