"""The part of `dq doctor` about DQ's own ranks: do they start here, and how fast, both ways."""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import time
from typing import Any

from dq_client.base.launch import ONE_THREAD
from dq_client.node.agent.starters import Starters

RANKS = 2
TRIES = 3
PROGRAM = """
import os, time
import numpy as np
from mpi4py import MPI
total = np.zeros(1)
MPI.COMM_WORLD.Allreduce(np.ones(1), total)
took = time.time() - float(os.environ["DQ_WISHED_S"])
if MPI.COMM_WORLD.rank == 0 and total[0] == MPI.COMM_WORLD.size:
    print(took)
"""
NO_RANKS = 'no job runs under launcher = "dq": try dq up --launcher mpiexec'
NO_STARTER = "ranks are executed, which takes several times as long"


def rank_facts(limit_s: float) -> list[dict[str, Any]]:
    """Two checks: ranks by exec, and ranks from a starter."""
    executed, why = measured(["--exec"], limit_s)
    facts = [_fact("ranks, executed", executed, why, NO_RANKS)]
    forked, why = measured([], limit_s)
    fact = _fact("ranks, from a starter", forked, why, NO_STARTER)
    memory, refused = starter_mib(limit_s)
    if refused:
        fact |= {"ok": False, "detail": refused, "consequence": NO_STARTER}
    elif forked is not None:
        fact["detail"] += f"; an idle starter keeps {memory:.0f} MiB"
    return [*facts, fact]


def c_fact(limit_s: float) -> dict[str, Any]:
    """Whether libdq can be built here; jobs in Python need none of it."""
    words = [sys.executable, "-m", "resize_lib.c", "check"]
    why = ""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit_s, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    except subprocess.TimeoutExpired:
        why = f"no answer within {limit_s:g} s"
    detail = why.removeprefix("dq: ") or "libdq can be built (python -m resize_lib.c build)"
    otherwise = "programs in C and Fortran cannot be built for DQ (docs/c.md)" if why else ""
    return {"name": "C and Fortran", "ok": not why, "detail": detail, "consequence": otherwise}


def _fact(name: str, took_s: float | None, why: str, otherwise: str) -> dict[str, Any]:
    if took_s is None:
        return {"name": name, "ok": False, "detail": why, "consequence": otherwise}
    detail = f"{RANKS} ranks compute {1e3 * took_s:.0f} ms after they are wanted"
    return {"name": name, "ok": True, "detail": detail, "consequence": "", "start_s": took_s}


def measured(how: list[str], limit_s: float) -> tuple[float | None, str]:
    """The median time from the wish to the first allreduce (s); or None, and why."""
    words = [sys.executable, "-m", "dq_client.ranks", "-n", str(RANKS), *how]
    times = []
    for _ in range(TRIES):
        try:
            done = subprocess.run(
                [*words, "--", sys.executable, "-c", PROGRAM],
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
            times.append(float(done.stdout))
        except subprocess.TimeoutExpired:
            return None, f"no answer within {limit_s:g} s"
        except ValueError:
            return None, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return statistics.median(times), ""


def starter_mib(limit_s: float) -> tuple[float, str]:
    """Memory of an idle starter for this interpreter; or why it cannot be had."""
    starters = Starters()
    starter = starters.wanted([sys.executable], {**os.environ, **ONE_THREAD}, "/")
    until = time.monotonic() + limit_s
    try:
        while starter is not None and starter.ready is None and time.monotonic() < until:
            select.select([starter.sock], [], [], limit_s)
            starters.look()
        if starter is None or not starter.ready:
            return 0.0, (starter.refused if starter is not None else "") or "it does not start"
        return starter.rss_bytes / 2**20, ""
    finally:
        starters.close()
