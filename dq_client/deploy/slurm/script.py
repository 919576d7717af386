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

from dq_client.deploy.batch.system import BEGINS, WAITS, HolderRequest, output
from dq_client.deploy.batch_settings import SlurmTable

# Not `sleep` in the foreground: the shell would look at signals only after it.
SENTINEL = 'trap "kill -USR2 $1 2>/dev/null; exit 0" TERM; sleep infinity & wait'

SCRIPT = """\
#!/bin/bash
{options}
# One node of a DQ cluster. dq down ends it, and so does scancel.
{begins}
{agent} --node="$SLURMD_NODENAME" &
agent=$!
# SIGTERM of a preemption reaches steps only: this one hands it on to the agent.
srun --quiet --overlap --nodes=1 --ntasks=1 --cpus-per-task=1 --mpi=none --input=none \\
    bash -c {sentinel} sentinel $agent &
sentinel=$!
{waits}
kill -KILL $sentinel 2>/dev/null
exit $code
"""


def name_of(cluster: str, ticket: int | str) -> str:
    """A holder's name in Slurm."""
    return f"dq-{cluster}-{ticket}"


def script(ask: HolderRequest, table: SlurmTable) -> str:
    """The text."""
    ours = ["--nodes=1", "--ntasks=1", f"--cpus-per-task={ask.processors}"]
    for name in ("partition", "time", "account", "constraint", "qos"):
        value = getattr(table, name)
        if value not in ("", None):
            ours.append(f"--{name}={value}")
    lines = [f"#SBATCH {option}" for option in (*ours, *table.options())]
    (ticket,) = ask.tickets
    notices = {"TERM": ask.kill_wait_s, "USR2": ask.grace_s or ask.kill_wait_s}
    agent = [*ask.agent(notices), f"--holder={ticket}"]
    return SCRIPT.format(
        options="\n".join(lines),
        agent=shlex.join(agent),
        begins=BEGINS,
        waits=WAITS,
        sentinel=shlex.quote(SENTINEL),
    )


def submission(ask: HolderRequest) -> list[str]:
    """The command that submits it from its standard input. What stands here holds in any case."""
    (ticket,) = ask.tickets
    return [
        "sbatch",
        "--parsable",
        f"--job-name={name_of(ask.cluster, ticket)}",
        f"--comment=node of DQ cluster {ask.cluster}, ticket {ticket}",
        f"--output={output(ask.folder, ticket)}",
        "--open-mode=truncate",
        "--no-requeue",  # its ticket would come back without having been asked for
        "--chdir=/",
    ]
