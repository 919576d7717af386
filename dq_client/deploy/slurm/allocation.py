"""`dq up --cluster slurm`: the nodes of the allocation that this process runs in.

Inside of salloc or sbatch: the server starts here, and `srun` starts one agent on each node, which
ends with the allocation at the latest. The allocation is the user's: `dq down` leaves it as it is.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from contextlib import closing, suppress

from dq_client.base import credentials, network
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError, UsageError
from dq_client.base.home import Home
from dq_client.deploy import batch_settings, local, shutdown
from dq_client.deploy.batch.bringup import network_words
from dq_client.deploy.batch_settings import BatchRecord
from dq_client.deploy.slurm import commands
from dq_client.deploy.ssh.bringup import with_patience

WORD = "slurm"  # in place of a cluster file
REPORT_WITHIN_S = 60.0
WITHIN_S = 20.0  # each of Slurm's commands
_GROUP = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def nodes_here() -> dict[str, int]:
    """Nodes of this allocation, and the processors of each; UsageError if this is none."""
    nodes, counts = os.environ.get("SLURM_JOB_NODELIST"), os.environ.get("SLURM_JOB_CPUS_PER_NODE")
    if not os.environ.get("SLURM_JOB_ID") or not nodes or not counts:
        raise UsageError(
            "--cluster slurm takes the nodes of an allocation: run it inside of salloc or sbatch;"
            ' for a cluster that asks Slurm for its nodes give a file with engine = "slurm"'
        )
    names = commands.run(["scontrol", "show", "hostnames", nodes], WITHIN_S).split()
    processors = per_node(counts)
    if len(names) != len(processors):
        raise UsageError(f"{len(names)} nodes, but SLURM_JOB_CPUS_PER_NODE = {counts}")
    return dict(zip(names, processors, strict=True))


def home_here(base: Home) -> Home:
    """A home for the cluster of this allocation alone, below the user's."""
    home = base.of_allocation()
    if home != base:
        base.create()
        home.root.parent.mkdir(mode=0o700, exist_ok=True)
        home.create()
    return home


def per_node(text: str) -> list[int]:
    """Slurm's `4(x2),1` is 4, 4, 1."""
    found = [_GROUP.fullmatch(word) for word in text.split(",")]
    return [n for g in found if g is not None for n in [int(g[1])] * int(g[2] or 1)]


def bring_up(
    home: Home, nodes: dict[str, int], options: list[str], address: str | None
) -> dict[str, object]:
    """Server and agents; returns the server's file once all nodes have reported."""
    home.create()
    shown = commands.run(["scontrol", "show", "node", "--oneliner", ",".join(nodes)], WITHIN_S)
    addresses = re.findall(r"\bNodeAddr=(\S+)", shown)
    words = network_words(home, network.Network(), addresses, address)
    names = f"--expected={','.join(nodes)}"
    batch_settings.note(home, BatchRecord("", {}, WORD, allocated=True))
    try:
        info = local.start_server(home, [*with_patience(options), *words, names])
    except BaseException:
        batch_settings.forget(home)
        raise
    try:
        _start_agents(home, nodes)
    except BaseException:
        with suppress(DQError):
            shutdown.bring_down(home, force=True)
        batch_settings.forget(home)
        raise
    return info


def _start_agents(home: Home, nodes: dict[str, int]) -> None:
    secret = credentials.encode(credentials.of_home(home)) + "\n"
    left_s = _left_s()
    steps = [
        _start_step(home, [n for n in nodes if nodes[n] == count], count, left_s, secret)
        for count in sorted(set(nodes.values()))
    ]
    until_s = time.monotonic() + REPORT_WITHIN_S
    with closing(Connection.to(home)) as connection:
        while missing := nodes.keys() - local.nodes_up(connection):
            ended = [step for step in steps if step.poll() is not None]
            if ended or time.monotonic() > until_s:
                raise DQError(f"no agent has reported from {min(missing)}: {_said(home)}")
            time.sleep(0.05)


def _start_step(
    home: Home, nodes: list[str], processors: int, left_s: float | None, secret: str
) -> subprocess.Popen[str]:
    """One step with an agent on each of these nodes. Keys go over its standard input, to all."""
    agent = [sys.executable, "-P", "-m", "dq_client.cli.main", "agent", "run", "--credentials", "-"]
    agent += ["--processors", str(processors)]
    if left_s is not None:
        agent += ["--lasts", f"{left_s:g}s"]
    words = [
        "srun",
        "--quiet",
        "--overlap",
        f"--nodelist={','.join(nodes)}",
        f"--nodes={len(nodes)}",
        f"--ntasks={len(nodes)}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={processors}",
        "--cpu-bind=none",
        "--mpi=none",
        "--input=all",
        # An agent that ends must not take the others with it.
        "--kill-on-bad-exit=0",
        "--wait=0",
        "bash",
        "-c",
        f'exec {shlex.join(agent)} --node "$SLURMD_NODENAME"',
    ]
    home.log.mkdir(mode=0o700, exist_ok=True)
    with (home.log / "srun.err").open("ab") as err:
        step = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=err,
            stderr=err,
            text=True,
            cwd="/",
            env={**os.environ, "DQ_HOME": str(home.root)},
            start_new_session=True,  # the terminal's Ctrl-C is for the command, not for the cluster
        )
    assert step.stdin is not None
    with suppress(BrokenPipeError), step.stdin:
        step.stdin.write(secret)
    return step


def _left_s() -> float | None:
    """Of the allocation's time; None: it has no limit."""
    words = ["squeue", "--noheader", f"--jobs={os.environ['SLURM_JOB_ID']}", "--format=%L"]
    return batch_settings.left_s(commands.run(words, WITHIN_S).strip())


def _said(home: Home) -> str:
    try:
        lines = (home.log / "srun.err").read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else f"see {home.log}"
