"""The batch script of a holder.

Where the processes have to be. Under proctrack/cgroup everything that a *step* leaves behind dies
with it, so the agent and its ranks belong to the batch script. What Slurm sends:

| What happens | SIGTERM goes to | What is left is killed |
|---|---|---|
| preempted with GraceTime | every process of every step | KillWait after the grace |
| scancel, end of its time, other preemption | these, and the batch script | KillWait later |

Of the batch script that is the shell under proctrack/cgroup, and every process under linuxproc. So
ranks ignore such signals (base/process.py), the agent takes each for its notice (node/agent/
notice.py), the shell hands it on, and so does a step of its own, which does nothing else, with what
reaches steps only.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from dq_client.deploy.slurm.commands import name_of
from dq_client.deploy.slurm_settings import SlurmTable, option_of

# Not `sleep` in the foreground: the shell would look at signals only after it.
SENTINEL = 'trap "kill -USR2 $1 2>/dev/null; exit 0" TERM; sleep infinity & wait'

SCRIPT = """\
#!/bin/bash
{options}
# One node of a DQ cluster. dq down ends it, and so does scancel.
trap '' HUP INT USR1 XCPU
trap 'kill -TERM $agent 2>/dev/null' TERM
trap 'kill -USR2 $agent 2>/dev/null' USR2
{agent} &
agent=$!
# SIGTERM of a preemption reaches steps only: this one hands it on to the agent.
srun --quiet --overlap --nodes=1 --ntasks=1 --cpus-per-task=1 --mpi=none --input=none \\
    bash -c {sentinel} sentinel $agent &
sentinel=$!
wait $agent
code=$?
while kill -0 $agent 2>/dev/null; do wait $agent; code=$?; done
kill -KILL $sentinel 2>/dev/null
exit $code
"""


@dataclass(frozen=True, slots=True)
class HolderRequest:
    """A node to ask Slurm for."""

    cluster: str
    ticket: int
    processors: int
    folder: str  # that all nodes see
    python: str
    home: str  # DQ_HOME of the server
    grace_s: float  # GraceTime and KillWait
    kill_wait_s: float


def script(ask: HolderRequest, table: SlurmTable) -> str:
    """The text."""
    ours = ["--nodes=1", "--ntasks=1", f"--cpus-per-task={ask.processors}"]
    for name in ("partition", "time", "account", "constraint", "qos"):
        value = getattr(table, name)
        if value not in ("", None):
            ours.append(f"--{name}={value}")
    lines = [f"#SBATCH {option}" for option in (*ours, *map(option_of, table.lines))]
    agent = [
        "env",
        f"DQ_HOME={ask.home}",
        ask.python,
        "-P",
        "-m",
        "dq_client.cli.main",
        "agent",
        "run",
        f"--holder={ask.ticket}",
        f"--processors={ask.processors}",
        f"--credentials={ask.folder}/credentials",
        f"--notice=TERM={notice_s(ask.kill_wait_s):g}s",
        f"--notice=USR2={notice_s(ask.grace_s or ask.kill_wait_s):g}s",
    ]
    return SCRIPT.format(
        options="\n".join(lines), agent=shlex.join(agent), sentinel=shlex.quote(SENTINEL)
    )


def notice_s(left_s: float) -> float:
    """A little before Slurm's own end: what is left then is ended by the agent."""
    return left_s - min(1.0, left_s / 8)


def submission(ask: HolderRequest) -> list[str]:
    """The command that submits it from its standard input. What stands here holds in any case."""
    return [
        "sbatch",
        "--parsable",
        f"--job-name={name_of(ask.cluster, ask.ticket)}",
        f"--comment=node of DQ cluster {ask.cluster}, ticket {ask.ticket}",
        f"--output={output(ask.folder, ask.ticket)}",
        "--open-mode=truncate",
        "--no-requeue",  # its ticket would come back without having been asked for
        "--chdir=/",
    ]


def output(folder: str, ticket: int) -> str:
    """The file with what a holder says."""
    return f"{folder}/holder-{ticket}.out"
