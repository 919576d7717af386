"""A real Grid Engine on this machine: a master, and one execution daemon. No init system, no ssh.

Everything (state, logs, accounting) lies in one folder, which is its SGE_ROOT's as well. Debian:
gridengine-master gridengine-exec gridengine-client. Tried with Son of Grid Engine 8.1.9.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import time
from pathlib import Path

import psutil

from tests.on_batch_system import MiniSystem, which
from tests.slurm.minislurm import free_ports

DAEMONS = ("sge_qmaster", "sge_execd")
COMMANDS = ("qsub", "qstat", "qdel", "qconf", "qhost")
LIBRARY = Path("/usr/lib/gridengine")  # Debian's
SHARE = Path("/usr/share/gridengine")
LINKED = Path("/var/lib/gridengine")
STARTS_WITHIN_S = 90.0
NOTIFY_S = 10
QUEUE = "all.q"

BOOTSTRAP = """\
admin_user none
default_domain none
ignore_fqdn true
spooling_method berkeleydb
spooling_lib libspoolb
spooling_params {root}/spool/db
binary_path {root}/sge/bin
qmaster_spool_dir {root}/spool/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
# What differs from Debian's; its users are any, so that root may run the tests.
CONFIGURATION = {
    "execd_spool_dir": "{root}/spool/execd", "min_uid": "0", "min_gid": "0",
    "load_report_time": "00:00:02", "mailer": "/bin/true",
}  # fmt: skip
SCHEDULER = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
TIMES = ("s_rt", "h_rt", "s_cpu", "h_cpu")
SIZES = ("fsize", "data", "stack", "core", "rss", "vmem")
QUEUE_SETTINGS = {
    "qname": QUEUE, "hostlist": "{host}", "seq_no": "0", "nsuspend": "1",
    "suspend_interval": "00:05:00", "priority": "0", "min_cpu_interval": "00:00:01",
    "processors": "UNDEFINED", "qtype": "BATCH", "pe_list": "smp", "rerun": "FALSE",
    "slots": "{slots}", "tmpdir": "/tmp", "shell": "/bin/bash",
    "shell_start_mode": "unix_behavior", "notify": f"00:00:{NOTIFY_S}",
    "initial_state": "default",
    **dict.fromkeys(
        ("load_thresholds", "suspend_thresholds", "ckpt_list", "prolog", "epilog",
         "starter_method", "suspend_method", "resume_method", "terminate_method", "owner_list",
         "user_lists", "xuser_lists", "subordinate_list", "complex_values", "projects",
         "xprojects", "calendar"),
        "NONE",
    ),
    **dict.fromkeys((*TIMES, *(f"{kind}_{s}" for s in SIZES for kind in "sh")), "INFINITY"),
}  # fmt: skip


def missing() -> str:
    """What keeps a Grid Engine from running here; empty: nothing."""
    absent = [name for name in (*DAEMONS, *COMMANDS) if which(name) is None]
    if absent:
        packages = "gridengine-master gridengine-exec gridengine-client"
        return f"no {', '.join(absent)} (apt-get install {packages})"
    return "" if LIBRARY.is_dir() and SHARE.is_dir() else "not Debian's Grid Engine"


class MiniGridEngine(MiniSystem):
    """See the module's docstring. `slots`: how many holders of one processor there may be."""

    def __init__(self, root: Path, slots: int = 4) -> None:
        super().__init__(root)
        self.slots = slots
        self.host = socket.gethostname().split(".")[0]
        self.port = free_ports(2)
        for name in ("spool/qmaster/job_scripts", "spool/db", "spool/execd", "log"):
            (root / name).mkdir(parents=True)
        common = root / "sge/default/common"
        common.mkdir(parents=True)
        for name in ("bin", "lib", "util", "utilbin"):
            (root / "sge" / name).symlink_to(LINKED / name)
        (common / "bootstrap").write_text(BOOTSTRAP.format(root=root))
        (common / "act_qmaster").write_text(f"{self.host}\n")
        # Whatever name the loopback's address has: this machine is one host.
        (common / "host_aliases").write_text(f"{self.host} localhost\n")

    def environment(self) -> dict[str, str]:
        """For Grid Engine's commands."""
        return {**os.environ, **self.variables()}

    def variables(self) -> dict[str, str]:
        """Where it is."""
        return {
            "SGE_ROOT": f"{self.root}/sge", "SGE_CELL": "default",
            "SGE_QMASTER_PORT": f"{self.port}", "SGE_EXECD_PORT": f"{self.port + 1}",
        }  # fmt: skip

    def start(self) -> None:
        """All daemons; RuntimeError with the logs' last lines if it does not serve in time."""
        text = (SHARE / "default-configuration").read_text()
        values = {name: value.format(root=self.root) for name, value in CONFIGURATION.items()}
        self._file("configuration", changed(text, values))
        resources = SHARE / "util/resources"
        self._tool("spoolinit", "berkeleydb", "libspoolb", self.root / "spool/db", "init")
        self._tool("spooldefaults", "configuration", self.root / "configuration")
        self._tool("spooldefaults", "complexes", resources / "centry")
        self._tool("spooldefaults", "usersets", resources / "usersets")
        self._tool("spooldefaults", "managers", psutil.Process().username())
        self.start_master()
        self.run("qconf", "-as", self.host)
        self.run("qconf", "-Ap", resources / "pe/smp")
        self._daemon("sge_execd", SGE_ND="1")
        queue = "".join(
            f"{name} {value.format(host=self.host, slots=self.slots)}\n"
            for name, value in QUEUE_SETTINGS.items()
        )
        self._until(lambda: self.host in self.run("qconf", "-sel", check=False).split())
        self.run("qconf", "-Aq", self._file("queue", queue))
        scheduler = changed(self.run("qconf", "-ssconf"), SCHEDULER)
        self.run("qconf", "-Msconf", self._file("scheduler", scheduler))
        # A host that has reported its load; before, its queue takes no job.
        self._until(lambda: f" 0/0/{self.slots}" in self.run("qstat", "-f", check=False)
                    and " au" not in self.run("qstat", "-f", check=False))  # fmt: skip

    def _file(self, name: str, text: str) -> Path:
        (self.root / name).write_text(text)
        return self.root / name

    def _tool(self, name: str, *words: object) -> None:
        self.run(LIBRARY / name, *words)

    def _until(self, what: object) -> None:
        assert callable(what)
        until_s = time.monotonic() + STARTS_WITHIN_S
        while not what():
            if time.monotonic() > until_s or self.master.poll() is not None:
                raise RuntimeError(f"Grid Engine does not start: {self._logs()}")
            time.sleep(0.1)

    def _logs(self) -> str:
        paths = [*(self.root / "log").iterdir(), *(self.root / "spool").rglob("messages")]
        return self._last_lines(paths)

    def start_master(self) -> None:
        """Also again, with the state that it had."""
        self.master = self._daemon("sge_qmaster", SGE_ND="1")  # in the foreground
        self._until(lambda: self.run("qconf", "-sh", check=False))

    def stop_master(self) -> None:
        """The daemon of the host and the jobs go on."""
        self.master.terminate()
        self.master.wait(60)

    def tasks(self) -> dict[str, int]:
        """Tasks that have not ended: `JOB.TASK` and TASK."""
        found = {}
        for line in self.run("qstat", "-g", "d", "-u", "*").splitlines():
            cells = line.split()
            if cells and cells[0].isdigit() and cells[-1].isdigit():
                found[f"{cells[0]}.{cells[-1]}"] = int(cells[-1])
        return found

    def stop(self) -> None:
        """Everything ends."""
        if self.processes and self.master.poll() is None:
            self.run("qdel", "-f", "-u", "*", check=False)
            self.run("qconf", "-kej", check=False)
            self.run("qconf", "-km", check=False)
        self._end_daemons()
        self._end_shepherds()
        shutil.rmtree(self.root, ignore_errors=True)

    def _end_shepherds(self) -> None:
        """Parents of jobs that wait for a daemon that is gone."""
        for process in psutil.process_iter(["name"]):
            with contextlib.suppress(psutil.Error):
                if process.info["name"] == "sge_shepherd" and process.environ().get(
                    "SGE_ROOT", ""
                ).startswith(str(self.root)):
                    process.send_signal(signal.SIGKILL)


def changed(text: str, values: dict[str, str]) -> str:
    """A configuration of lines `name value` with other values."""
    for name, value in values.items():
        text = re.sub(rf"^{name}\s.*$", f"{name} {value}", text, flags=re.M)
    return text
