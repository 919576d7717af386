"""Starters as the agent sees them: one per environment, started when first wanted, ended when idle.

A starter (ranks/starter.py) has an interpreter's packages loaded, so that a rank costs a fork. What
is read when a package is loaded cannot be changed afterwards: jobs share a starter only if their
interpreter and the variables in READ_AT_IMPORT are the same.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dq_client.base import process
from dq_client.node.ranks import boot

log = logging.getLogger("dq.agent")

IDLE_S = 600.0  # a starter that forked nothing for so long ends
STARTERS_MAX = 4  # per agent: some 40 MiB each
READY_WITHIN_S = 60.0  # imports from a slow file system; then programs are executed
# Python, the C library and the packages that are loaded read these once.
READ_AT_IMPORT = (
    *("PYTHON", "LD_", "LC_", "LANG", "TZ", "HOME", "PATH", "VIRTUAL_ENV", "CONDA_", "GLIBC_"),
    *("MALLOC_", "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "NPY_", "NUMPY_"),
    *("MPI", "UCX_", "UCS_", "UCM_", "FI_", "HWLOC_", "I_MPI_", "OMPI_", "ZMQ_", "TMPDIR"),
)
NAME_BYTES = 12


@dataclass(slots=True)
class Starter:
    """One starter. `ready`: None while it loads; `refused`: why it cannot be used."""

    name: str
    process: subprocess.Popen[bytes]
    sock: socket.socket
    began_s: float
    used_s: float
    ready: bool | None = None
    refused: str = ""
    rss_bytes: int = 0
    waiting: list[Callable[[bool], None]] = field(default_factory=list)  # told whether it is ready

    def ask(self, request: Mapping[str, object], control: socket.socket) -> bool:
        """Let it fork a keeper with this control socket; False if it is gone."""
        try:
            socket.send_fds(self.sock, [json.dumps(request).encode()], [control.fileno()])
        except OSError:
            return False
        return True

    def read(self) -> bool:
        """Take in what it says; False once it is gone."""
        try:
            data = self.sock.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            return False
        said = json.loads(data)
        if "refused" in said:
            self.ready, self.refused = False, said["refused"]
        elif "ready" in said:
            self.ready, self.rss_bytes = True, said["rss_bytes"]
        return True

    def end(self) -> None:
        """It forks nothing more; what it forked lives on."""
        self.sock.close()
        self.process.kill()
        self.process.wait()


class Starters:
    """All starters of an agent; `marks`: by what they are found to be its own (process_tree.py)."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        folder: str = "/",
        marks: Mapping[str, str] | None = None,
    ) -> None:
        self._clock, self._folder, self._marks = clock, folder, marks or {}
        self.by_name: dict[str, Starter] = {}
        self._unusable: dict[str, str] = {}  # name -> why

    def wanted(self, argv: list[str], env: Mapping[str, str], cwd: str) -> Starter | None:
        """The starter for this program, started if need be; None if it cannot have one."""
        python = interpreter(argv, env, cwd)
        if python is None:
            return None
        name = name_of(python, env)
        if name in self._unusable:
            return None
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = self._start(name, python, env)
            self._bound()
        found.used_s = self._clock()
        return found

    def look(self) -> None:
        """Take in what starters say; end those that are idle or do not come up."""
        now = self._clock()
        for starter in list(self.by_name.values()):
            alive = starter.read()
            late = starter.ready is None and now - starter.began_s > READY_WITHIN_S
            if starter.ready is False or not alive or late:
                why = starter.refused or ("it takes too long to start" if late else "it ended")
                log.warning("starter %s is of no use: %s", starter.name, why)
                if starter.ready is not True:
                    self._unusable[starter.name] = why
                self._drop(starter)
            elif starter.ready and starter.waiting:
                self._tell(starter, True)
            elif now - starter.used_s > IDLE_S and not starter.waiting:
                self._drop(starter)

    def close(self) -> None:
        """End them all."""
        for starter in list(self.by_name.values()):
            self._drop(starter)

    def _drop(self, starter: Starter) -> None:
        del self.by_name[starter.name]
        starter.end()
        self._tell(starter, False)

    def _tell(self, starter: Starter, ready: bool) -> None:
        waiting, starter.waiting = starter.waiting, []
        for callback in waiting:
            callback(ready)

    def _bound(self) -> None:
        while len(self.by_name) > STARTERS_MAX:
            idle = [s for s in self.by_name.values() if not s.waiting]
            if len(idle) < 2:  # the newest is not in use yet
                return
            self._drop(min(idle, key=lambda s: s.used_s))

    def _start(self, name: str, python: str, env: Mapping[str, str]) -> Starter:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [python, str(Path(boot.__file__).resolve()), "starter", str(its.fileno())]
        # Only what names it: other jobs' ranks are forked of it, and show what it was started with.
        clean = {k: v for k, v in env.items() if k.startswith(READ_AT_IMPORT)}
        with process.site_signals_held():
            began = subprocess.Popen(
                [*words, " " * process.PADDING_BYTES],  # until it has a name `ps` shows nothing
                # What the libraries call of each other is looked up here, and not in each rank.
                env={"LD_BIND_NOW": "1", **clean, **self._marks, **process.padding()},
                cwd=self._folder,
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        its.close()
        now = self._clock()
        log.info("starter %s: %s, pid %d", name, python, began.pid)
        return Starter(name=name, process=began, sock=ours, began_s=now, used_s=now)


def interpreter(argv: list[str], env: Mapping[str, str], cwd: str) -> str | None:
    """The Python that runs the program, by its path; None if it is not run by one."""
    program = argv[0]
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if "/" in program:
        found = str(Path(cwd, program))
    if found is None or not Path(found).name.startswith("python"):
        return None
    return os.path.abspath(found)  # noqa: PTH100 - resolve() would leave a virtual environment


def name_of(python: str, env: Mapping[str, str]) -> str:
    """One name for each interpreter with its environment."""
    read = sorted(item for item in env.items() if item[0].startswith(READ_AT_IMPORT))
    return hashlib.sha256(repr((python, read)).encode()).hexdigest()[:NAME_BYTES]
