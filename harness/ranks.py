"""Running a program's ranks for a test, under either launcher, and counting what is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from dq_client.base.dq_rsh import spelled_in_letters
from dq_client.base.launch import MPI_TUNING, ONE_THREAD
from dq_client.node.mpiexec.command import find_mpiexec, install_rsh, launch_command
from harness.commands import ROOT
from harness.rsh_listener import RshListener

MARK = "DQ_TEST_JOB"


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Recipe:
    """Where a test's ranks run: the host to start on, and all hosts it may expand onto.

    launcher  own: DQ's keepers, one for each host; mpiexec
    growth    DQ_GROWTH
    """

    name: str
    launcher: str
    start: str
    hosts: tuple[str, ...]
    growth: str = ""


OWN = Recipe("own", "own", "n01", ("n01", "n02", "n03", "n04"))
OWN_SPAWN = replace(OWN, name="own, spawn", growth="spawn")
ONE_HOST = Recipe("mpiexec, one host", "mpiexec", "localhost", ("localhost",))
LABELS = Recipe("mpiexec, labelled nodes", "mpiexec", "n01", ("n01", "n02", "n03", "n04"))
LABELS_SPAWN = replace(LABELS, name="mpiexec, spawn", growth="spawn")


def one_node(ranks: int) -> Recipe:
    """What starts so many ranks on one node with the least computing: forks, but for one."""
    return OWN if ranks > 1 else ONE_HOST


def node_here() -> str:
    """In a rank: the name of its node."""
    return os.environ.get("DQ_NODE") or spelled_in_letters(os.environ["PMI_HOSTNAME"])


@contextmanager
def labelled_nodes(nodes: Iterable[str]) -> Iterator[tuple[Path, Path, RshListener]]:
    """A folder with a dq-rsh and a listening socket for these nodes."""
    with tempfile.TemporaryDirectory(prefix="dq") as folder:
        socket_path = Path(folder, "rsh")
        with RshListener(socket_path, set(nodes)) as listener:
            yield install_rsh(Path(folder, "bin")), socket_path, listener


def run_job(
    recipe: Recipe,
    ranks: int,
    program: Sequence[str],
    *,
    limit_s: float = 300,  # only a hang takes that long, on a busy machine, too
    env: Mapping[str, str] | None = None,
    nodes: Iterable[str] | None = None,
) -> Ended:
    """Run `ranks` ranks of `program` (argv after the interpreter); ends with nothing left over."""
    command = [sys.executable, *program]
    growth = {"DQ_GROWTH": recipe.growth} if recipe.growth else {}
    extra = {**ONE_THREAD, **MPI_TUNING, "PYTHONPATH": str(ROOT), **growth, **(env or {})}
    if recipe.launcher == "own":
        launcher = [sys.executable, "-m", "harness.standalone", "-n", str(ranks)]
        return _run([*launcher, "--hosts", recipe.start, "--", *command], extra, limit_s)
    if recipe is ONE_HOST:
        argv = [find_mpiexec(), "-hosts", f"{recipe.start}:{ranks}", "-n", str(ranks), *command]
        return _run(argv, extra, limit_s)
    with labelled_nodes(nodes or recipe.hosts) as (rsh, socket_path, _):
        placement = [(recipe.start, ranks)]
        launch = launch_command(command, placement, rsh=rsh, rsh_socket=socket_path)
        return _run(launch.argv, {**extra, **launch.env, **(env or {})}, limit_s)


def _run(argv: Sequence[str], extra: Mapping[str, str], limit_s: float) -> Ended:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    job = subprocess.Popen(
        argv,
        env={**os.environ, **extra, MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = job.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        for process in processes_of(mark):
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                process.kill()
        out, err = job.communicate()
        raise AssertionError(f"no end after {limit_s} s: {argv}\n{out}\n{err}") from None
    assert_nothing_left(mark)
    return Ended(job.returncode, out, err)


def processes_of(mark: str) -> list[psutil.Process]:
    """Every process started for one job: the mark travels in the environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def assert_nothing_left(mark: str, patience_s: float = 5.0) -> None:
    """Ranks take a moment to die after their launcher; a rank that stays is an orphan."""
    end = time.monotonic() + patience_s
    while left := processes_of(mark):
        if time.monotonic() > end:
            words = [" ".join(p.cmdline()) for p in left if p.is_running()]
            for process in left:
                process.kill()
            raise AssertionError(f"processes left over: {words}")
        time.sleep(0.02)
