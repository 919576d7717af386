"""The MPI part of `dq doctor`: probes what the MPI on this machine can do, and what follows for DQ.

Each probe runs under mpiexec in processes of its own with a time limit, because what an MPI cannot
do often shows as a hang or a crash of the whole job. The programs that they run are in
resize_lib/processes/probe.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from dq_client.base.dq_rsh import spelled_in_numbers
from dq_client.base.launch import MPI_TUNING, ONE_THREAD, LaunchError
from dq_client.node.mpiexec.command import find_mpiexec

LIMIT_S = 30.0
ANSWER_START = "dq-probe: "
REFUSAL_START = "dq-probe-not: "
MARK_VARIABLE = "DQ_PROBE_MARK"
OTHER_NODE = spelled_in_numbers("another-node")

NO_JOBS = "no MPI job can run on this machine"
NO_MPIEXEC_JOBS = 'no job runs under launcher = "mpiexec"'  # DQ may start ranks itself all the same
NO_JOINING = "no rank joins a running job: a resize ends them all and starts others (docs/mpi.md)"


@dataclass(frozen=True)
class Probe:
    """One trial: its name for people, its name for the program, ranks, what its failure means."""

    name: str
    trial: str
    ranks: int
    consequence: str


@dataclass(frozen=True)
class ProbeResult:
    """How one trial went. `consequence` is empty if `ok`."""

    name: str
    ok: bool
    detail: str
    consequence: str
    trial: str = ""


PROBES = (
    Probe("start two ranks", "start", 2, NO_MPIEXEC_JOBS),
    Probe("spawn on a named host", "spawn", 1, NO_JOINING),
    Probe("merge old and new ranks", "merge", 1, NO_JOINING),
    Probe("disconnect", "disconnect", 1, NO_JOINING),
    Probe("exit of one process", "exit", 2, NO_JOINING),
    Probe(
        "release a spawned group, spawn again on its host",
        "release",
        1,
        NO_JOINING,
    ),
)


def probe_mpi(limit_s: float = LIMIT_S) -> list[ProbeResult]:
    """Try everything, in order; `limit_s` for each trial. Later trials are left out when no MPI
    job can run at all."""
    library = probe_library(limit_s)
    if not library.ok:
        return [library]
    try:
        mpiexec = find_mpiexec(library.detail)
    except LaunchError as error:
        return [library, ProbeResult("mpiexec", False, str(error), NO_MPIEXEC_JOBS)]
    results = [library, ProbeResult("mpiexec", True, mpiexec, "")]
    is_mpich = library.detail.startswith("MPICH")
    with tempfile.TemporaryDirectory(prefix="dq-probe") as folder:
        options = _mpich_options(Path(folder)) if is_mpich else []
        host = OTHER_NODE if is_mpich else "localhost"
        for probe in PROBES:
            argv = [mpiexec, *options, "-n", str(probe.ranks), *_trial(probe.trial, host)]
            result = _judge(probe, argv, limit_s)
            results.append(result)
            if probe.trial == "start" and not result.ok:
                break  # the others need a running job: each would cost its time limit
    return results


def can_resize(results: Iterable[ProbeResult]) -> bool:
    """True if every trial went well: jobs can grow and shrink here."""
    return all(result.ok for result in results)


def probe_library(limit_s: float) -> ProbeResult:
    """Which MPI library mpi4py loads, found without mpiexec."""
    probe = Probe("MPI library", "library", 1, NO_JOBS)
    return _judge(probe, _trial("library", "-"), limit_s)


def _trial(trial: str, host: str) -> list[str]:
    return [sys.executable, "-m", "resize_lib.processes.probe", trial, host]


def _mpich_options(folder: Path) -> list[str]:
    """A launcher that takes every node name for this machine, so that no agent is needed."""
    launcher = folder / "any-node"
    launcher.write_text('#!/bin/sh\nshift\neval "exec $*"\n')
    launcher.chmod(0o700)
    return ["-iface", "lo", "-launcher", "rsh", "-launcher-exec", str(launcher)]


def _judge(probe: Probe, argv: list[str], limit_s: float) -> ProbeResult:
    try:
        code, out, err = _run(argv, limit_s)
    except OSError as error:
        return ProbeResult(probe.name, False, str(error), probe.consequence)
    if code is None:
        detail = f"no end after {limit_s:g} s"
        return ProbeResult(probe.name, False, detail, probe.consequence)
    said = [line for line in out.splitlines() if line.startswith(ANSWER_START)]
    if code == 0 and said:
        return ProbeResult(probe.name, True, said[0].removeprefix(ANSWER_START), "", probe.trial)
    return ProbeResult(probe.name, False, _why(code, out, err), probe.consequence)


def _why(code: int, out: str, err: str) -> str:
    """The reason given; else the line of the MPI library's long complaint that says most."""
    for line in out.splitlines():
        if line.startswith(REFUSAL_START):
            return line.removeprefix(REFUSAL_START)
    lines = [line.strip() for line in err.splitlines() if line.strip(" =-*")]
    telling = [line for line in lines if "rror" in line]
    return (telling or lines or [f"exit code {code}"])[-1][:300]


def _run(argv: list[str], limit_s: float) -> tuple[int | None, str, str]:
    """Exit code (None: out of time), stdout and stderr; nothing it started is left over."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    trial = subprocess.Popen(
        argv,
        env={**os.environ, **ONE_THREAD, **MPI_TUNING, **_permissive(), MARK_VARIABLE: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    code: int | None
    try:
        out, err = trial.communicate(timeout=limit_s)
        code = trial.returncode
    except subprocess.TimeoutExpired:
        code = None
        _kill_marked(mark)
        out, err = trial.communicate()
    _kill_marked(mark)  # also after a good end: a crashed job may leave daemons
    return code, out, err


def _permissive() -> dict[str, str]:
    """Open MPI refuses root and more ranks than cores unless told otherwise."""
    return {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }


def _kill_marked(mark: str) -> None:
    """Kill every process of a trial."""
    # By a mark in the environment, not by process group: the MPI's own daemons call setsid.
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK_VARIABLE) == mark:
                process.kill()
        except psutil.Error:
            continue
