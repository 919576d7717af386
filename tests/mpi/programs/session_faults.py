"""A session under a DQ server that checks all its data at every turn while things go wrong.

    dq submit ... -- python -m tests.mpi.programs.session_faults FOLDER

FOLDER/fault holds one line, "WHERE: WHAT"; it strikes once, and the file is gone then.

    WHERE  pack R, unpack R   rank R hands its part of the data over, or takes it (redistribution)
           arrive R           the R-th new rank has started and has not joined the job yet
           asked              rank 0 has heard of a resize (prepared)
           told               rank 0 is about to report one (commit)
           heard              rank 0 has reported one and the answer is here
    WHAT   raise | die | cut (the connection) | server (is killed) | agent NAME (is killed)

The job ends when FOLDER/stop appears, and prints the sizes it had.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from dq_client.base import messages as m
from dq_client.base.home import Home
from resize_lib.server_link import ServerLink
from tests.mpi.programs.session_data import Everything

if TYPE_CHECKING:
    from resize_lib.declared.packed import Value
    from resize_lib.descriptors import ProcessGrid
    from resize_lib.jobsession import Session


class Trouble:
    """What happens, and where."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "fault"

    def strikes(self, where: str) -> str | None:
        """What shall happen here; None if nothing."""
        try:
            at, what = self.file.read_text().strip().split(": ")
        except OSError:
            return None
        if at != where:
            return None
        self.file.rename(self.file.with_name("struck"))
        return what

    def at(self, where: str) -> str | None:
        """Let happen what shall happen here; what it was."""
        what = self.strikes(where)
        if what is None:
            return None
        if what == "raise":
            raise MemoryError(f"{where} finds no memory")
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "cut":
            cut_connections()
        if what == "server":
            kill(Home.default().server()["pid"])
        if what.startswith("agent "):
            file = Home.default().agent(what.split()[1]) / "agent.json"
            kill(json.loads(file.read_text())["pid"])
        return what


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)


def cut_connections() -> None:
    """Shut every connection of this process to the server: what a broken cable looks like."""
    port = int(os.environ["DQ_SERVER"].rpartition(":")[2])
    for found in psutil.Process().net_connections("tcp"):
        if found.raddr and found.raddr.port == port:
            with socket.socket(fileno=os.dup(found.fd)) as there:
                there.shutdown(socket.SHUT_RDWR)


class Link(ServerLink):
    """Rank 0's line to the server, at which trouble may be."""

    trouble: Trouble

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        answer = super().remap(point)
        if answer.what != "continue" and self.trouble.at("asked") is not None:
            return super().remap(point)  # the first answer never came
        return answer

    def tell(self, body: m.Committed | m.Aborted) -> None:
        self.trouble.at("told")
        super().tell(body)
        if self.trouble.at("heard") is not None:
            super().tell(body)  # that answer never came


class Faulty(Everything):
    """Data that may fail to move."""

    def __init__(self, rs: Session, trouble: Trouble) -> None:
        self.trouble = trouble
        super().__init__(rs)

    def fail(self, what: str, grid: ProcessGrid, rank: int) -> None:
        self.trouble.at(f"{what} {rank}")


def main() -> None:
    folder = Path(sys.argv[1])
    trouble = Link.trouble = Trouble(folder)
    import resize_lib  # MPI starts here

    if "DQ_JOIN" in os.environ or "DQ_JOINS" in os.environ:
        # Among the new ranks. COMM_WORLD's would be the one in the job, once it has joined.
        trouble.at(f"arrive {os.environ['PMI_RANK']}")
    with resize_lib.session(connect=Link.from_environment, report_interval_s=0) as rs:
        data = Faulty(rs, trouble)
        sizes: Value[list[int]] = rs.value("sizes", [])
        for _ in rs.iterations():
            data.check()
            data.check_survivors()
            if sizes.value[-1:] != [rs.size]:
                sizes.value.append(rs.size)
            if rs.comm.bcast((folder / "stop").exists() if rs.rank == 0 else None):
                break
            data.advance()
            time.sleep(0.05)
        if rs.rank == 0:
            print(json.dumps({"sizes": sizes.value, "turns": rs.step}), flush=True)


if __name__ == "__main__":
    main()
