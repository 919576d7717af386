"""A real Slurm on this machine: a controller, and a daemon for each emulated node. No systemd.

Everything (state, logs, pids, keys) lies in one folder. Debian: slurmctld slurmd slurm-client.
Tried with Slurm 22.05.8.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.on_batch_system import MiniSystem, which

DAEMONS = ("slurmctld", "slurmd")
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "srun", "salloc")
STARTS_WITHIN_S = 60.0
GRACE_S, KILL_WAIT_S = 10, 2

CONF = """\
ClusterName=dqtest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd.%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd.%n.log
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
ReturnToService=2
MpiDefault=none
KillWait={kill_wait}
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_resolution=1
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
{more}
NodeName=DEFAULT CPUs={cpus} RealMemory=1000 State=UNKNOWN
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}]
PartitionName=DEFAULT Nodes=ALL MaxTime=INFINITE DefaultTime=60 State=UP
PartitionName=all Default=YES PriorityTier=1 GraceTime={grace}
PartitionName=urgent PriorityTier=9 PreemptMode=OFF
{partitions}
"""
STRICT = "ProctrackType=proctrack/cgroup"
LOOSE = "ProctrackType=proctrack/linuxproc"


def missing() -> str:
    """What keeps a Slurm from running here; empty: nothing."""
    absent = [name for name in (*DAEMONS, *COMMANDS) if which(name) is None]
    return (
        f"no {', '.join(absent)} (apt-get install slurmctld slurmd slurm-client)" if absent else ""
    )


def free_ports(count: int) -> int:
    """The first of so many ports in a row that are free; others for each process that asks."""
    for first in range(21000 + os.getpid() % 500 * 16, 30000, count):
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    probe = held.enter_context(socket.socket())
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("", port))
            except OSError:
                continue
            return first
    raise RuntimeError("no ports are free")


class MiniSlurm(MiniSystem):
    """See the module's docstring."""

    def __init__(
        self, root: Path, nodes: int = 4, cpus: int = 1, *, strict: bool = False,
        grace_s: int = GRACE_S, kill_wait_s: int = KILL_WAIT_S, partitions: str = "",
    ) -> None:  # fmt: skip
        super().__init__(root)
        self.nodes = nodes
        port, host = free_ports(nodes + 1), socket.gethostname().split(".")[0]
        for name in ("run", "log", "state", "spool"):
            (root / name).mkdir(parents=True)
        self.conf = root / "slurm.conf"
        more = STRICT if strict else LOOSE
        self.conf.write_text(
            CONF.format(
                root=root, host=host, user=pwd.getpwuid(os.getuid()).pw_name, port=port,
                first=port + 1, last=port + nodes, nodes=nodes, cpus=cpus, grace=grace_s, more=more,
                kill_wait=kill_wait_s, partitions=partitions,
            )
        )  # fmt: skip
        if strict:
            (root / "cgroup.conf").write_text("CgroupPlugin=autodetect\nIgnoreSystemd=yes\n")

    def environment(self) -> dict[str, str]:
        """For Slurm's commands."""
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def start(self) -> None:
        """All daemons; RuntimeError with the logs' last lines if not every node is idle in time."""
        self.start_controller()
        for number in range(1, self.nodes + 1):
            self._daemon("slurmd", "-D", "-N", f"n{number}")
        until_s = time.monotonic() + STARTS_WITHIN_S
        while self.run("sinfo", "-h", "-t", "idle", "-p", "all", "-o", "%D", check=False) != str(
            self.nodes
        ):
            if time.monotonic() > until_s or self.controller.poll() is not None:
                raise RuntimeError(
                    f"Slurm does not start: {self._last_lines((self.root / 'log').iterdir())}"
                )
            time.sleep(0.1)

    def start_controller(self) -> None:
        """Also again, with the state that it had."""
        self.controller = self._daemon("slurmctld", "-D")

    def stop_controller(self) -> None:
        """The nodes and the jobs on them go on."""
        self.controller.terminate()
        self.controller.wait(30)

    def jobs(self, *options: object) -> dict[int, str]:
        """Jobs that have not ended, with their names."""
        shown = self.run("squeue", "-h", "-o", "%i %j", *options)
        return {int(line.split()[0]): line.split()[1] for line in shown.splitlines()}

    def stop(self) -> None:
        """Everything ends."""
        if self.controller.poll() is None:
            self.run("scancel", "--user", pwd.getpwuid(os.getuid()).pw_name, check=False)
            until_s = time.monotonic() + 20
            while self.run("squeue", "-h", check=False) and time.monotonic() < until_s:
                time.sleep(0.1)
        self._end_daemons()
        self._end_steps()

    def _end_steps(self) -> None:
        """Managers of steps that wait for a controller that is gone."""
        for process in psutil.process_iter(["name"]):
            with contextlib.suppress(psutil.Error):
                if process.info["name"] == "slurmstepd" and str(self.conf) == process.environ().get(
                    "SLURM_CONF"
                ):
                    process.send_signal(signal.SIGKILL)


def with_path(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment with commands of the test in front of Slurm's."""
    return {**environment, "PATH": f"{folder}:{environment['PATH']}"}
