"""Where DQ keeps its state: `$DQ_HOME`, by default the XDG state folder.

Two homes are two clusters that know nothing of each other. Everything below is private to its
owner: the folder holds keys.

    server.json   pid and address of the running server       journal.sqlite  events
    keys/         one key pair per principal                   jobs/ID/        output of jobs
    agents/NAME/  state of node agents on this machine         log/            of server and agents
    audit/        who asked for what (audit.py)                allocations/    see of_allocation
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from dq_client.base import opened
from dq_client.base.errors import NoServer, UsageError
from dq_client.base.private import NotPrivate, check_own, check_way
from dq_client.base.text_files import object_of

ALLOCATIONS = "allocations"  # below a home, one home for each


class Home(Struct, frozen=True):
    """Paths below one DQ_HOME."""

    root: Path

    @staticmethod
    def default() -> Home:
        """`$DQ_HOME`, else `$XDG_STATE_HOME/dq`, else `~/.local/state/dq`.

        Inside of an allocation of Slurm that has a cluster of its own (dq up --cluster slurm), the
        home of that, which lies below. UsageError if DQ_HOME is the one of another allocation.
        """
        explicit = os.environ.get("DQ_HOME")
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        named = Path(explicit) if explicit else Path(state, "dq")
        home = Home(named.expanduser().absolute())
        own = home.of_allocation()
        return own if own.root.is_dir() else home

    def of_allocation(self) -> Home:
        """The home of a cluster in the allocation that this runs in; itself if this is in none.

        UsageError if this is the home of another allocation.
        """
        job, cluster = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_CLUSTER_NAME")
        if not job:
            return self
        name = f"{cluster or 'slurm'}-{job}"
        if self.root.parent.name != ALLOCATIONS:
            return Home(self.root / ALLOCATIONS / name)
        if self.root.name != name:
            raise UsageError(
                f"DQ_HOME={self.root} is the home of another allocation than this one, {name}:"
                f" unset it, or set it to {self.root.parent.parent}"
            )
        return self

    def create(self) -> None:
        """Make the folder, private; UsageError if it is not ours alone (it holds keys)."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_way(self.root)
            check_own(self.root.resolve())
        except NotPrivate as e:
            raise UsageError(f"DQ_HOME: {e}") from e
        except OSError as e:
            raise UsageError(
                f"{self.root}: cannot be used as DQ_HOME ({e.strerror}); choose another"
            ) from e

    def identity(self) -> str:
        """A name of the folder that is the same on every machine that shares it."""
        path = self.root / "identity"
        with suppress(OSError):  # mostly: it exists
            fd = opened.open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(fd, "w") as f:
                f.write(os.urandom(8).hex())
        try:
            return opened.read_text(path)
        except (OSError, ValueError):
            return ""

    @property
    def server_file(self) -> Path:
        """Pid and address of the running server, as JSON."""
        return self.root / "server.json"

    @property
    def standby_file(self) -> Path:
        """A home that has it is a standby's (standby.py)."""
        return self.root / "standby.json"

    @property
    def lock_file(self) -> Path:
        """Held by the running server."""
        return self.root / "server.lock"

    @property
    def journal(self) -> Path:
        """The server's events."""
        return self.root / "journal.sqlite"

    @property
    def keys(self) -> Path:
        """Key pairs."""
        return self.root / "keys"

    @property
    def cluster_file(self) -> Path:
        """The name of the cluster (dq_server/live/store/identity.py)."""
        return self.keys / "cluster"

    def cluster(self) -> str:
        """The name of the cluster; empty: none is known. UsageError if it cannot be read."""
        try:
            return opened.read_text(self.cluster_file).strip()
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as e:
            text = "put the file back, or restore a backup (dq restore FILE)"
            raise UsageError(f"{self.cluster_file}: cannot be read ({e}): {text}") from e

    @property
    def log(self) -> Path:
        """Logs of the server and the agents."""
        return self.root / "log"

    @property
    def audit(self) -> Path:
        """The audit log (audit.py)."""
        return self.root / "audit"

    def agent(self, name: str) -> Path:
        """State of one node agent."""
        return self.root / "agents" / name

    def job(self, job_id: int) -> Path:
        """Output of one job."""
        return self.root / "jobs" / str(job_id)

    def server(self) -> dict[str, Any]:
        """Contents of the server file; NoServer if there is none or its process is gone."""
        try:
            info = _checked(object_of(self.server_file))
        except FileNotFoundError:
            if self.standby_file.exists():
                text = (
                    f"{self.root} is a standby's: the server has another DQ_HOME (docs/standby.md)"
                )
                raise NoServer(text) from None
            raise NoServer(f"no server is running in {self.root}: start one with dq up") from None
        except (OSError, ValueError) as e:
            text = "remove it; if a server runs, dq down --force ends it, then dq up"
            raise NoServer(f"{self.server_file} cannot be read ({e}): {text}") from e
        # A pid means something on its own machine only: on another one the connection will tell.
        here = info.get("machine", machine()) == machine()
        if here and not is_alive(info.get("pid", 0), info.get("create_time")):
            raise NoServer(
                f"the server of {self.root} (pid {info.get('pid')}) is gone: start it with dq up"
            )
        return info


def _checked(info: dict[str, Any]) -> dict[str, Any]:
    """Contents of a server file; ValueError if what everybody needs of it is not there."""
    for name, kind in (("pid", int), ("address", str), ("create_time", int | float)):
        if not isinstance(info.get(name), kind):
            raise ValueError(f"no {name} in it")  # noqa: TRY004 - as any other damage
    return info


def machine() -> str:
    """What tells this machine, or container, from others: pids of one mean nothing on another."""
    try:
        boot = opened.kernel("/proc/sys/kernel/random/boot_id").decode().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no path: a label
    except OSError:
        return os.uname().nodename


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads, atomically: a reader never sees half of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened.write(path, text.encode())


def is_alive(pid: int, create_time: float | None = None) -> bool:
    """Whether this very process still runs (pids are used again; creation times are not)."""
    try:
        state, began_s = _stat(int(pid))
        return state != "Z" and (create_time is None or abs(began_s - create_time) < 1.0)
    except (ProcessLookupError, ValueError, TypeError, OverflowError):  # a damaged note's numbers
        return False


def created_s(pid: int) -> float:
    """When a process began, in seconds since the machine's boot.

    Not psutil's create_time: that adds the time of the boot, which is another one when the system
    clock has been set. psutil.NoSuchProcess if there is none.
    """
    try:
        return _stat(pid)[1]
    except ProcessLookupError:
        import psutil

        raise psutil.NoSuchProcess(pid) from None


def _stat(pid: int) -> tuple[str, float]:
    """State letter of a process, and its start in seconds since boot. ProcessLookupError."""
    try:
        words = os.fsdecode(opened.kernel(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return words[0], int(words[19]) / os.sysconf("SC_CLK_TCK")
