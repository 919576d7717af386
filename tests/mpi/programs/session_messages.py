"""Messages that stay under way over remap points, under resizes by script.

    python session_messages.py KIND patient|begun HOST...

KIND  late      in some iterations messages are left for the next ones, in others none is
      never     messages are always under way, until three resizes were refused
      received  the same of receives that nothing is sent to; rank 1 has it in a column of the grid
      probed    the same of a message that rank 1 has taken by improbe, and not received
      drawn     messages of any size on any communicator, at random

Rank 0 prints what the session reports, and at the end how many were sent and received.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from mpi4py import MPI

import resize_lib
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink, random_moves, scripted

if TYPE_CHECKING:
    from resize_lib.grid import Grid
    from resize_lib.jobsession import Session

TAG = 5
PAUSE_S = 0.01  # the processors are for ranks that start meanwhile
REFUSED, MOVES = 3, 9


class Link(ScriptedLink):
    """Remap points of a resize that waits are not reported one by one."""

    shares = True


def three_refused(hosts: list[str]) -> Script:
    """Each kind of resize once in vain, and then again."""
    script = Script(2, hosts)
    script.expand(script.free[:1], 1, 3, works=False)
    script.shrink([0], 1, 1, works=False)
    script.regrid(1, 2, works=False)
    script.expand(script.free[:1], 3, 1)
    script.shrink([0], 1, 2)
    script.regrid(2, 1)
    return script


def main() -> None:
    kind, path, *hosts = sys.argv[1:]
    resize.PATIENT_FROM_S = 0.0 if path == "patient" else 1e9
    at_random = kind in ("late", "drawn")
    script = random_moves(7, MOVES, 2, hosts) if at_random else three_refused(hosts)
    with resize_lib.session(connect=lambda: Link(script), report_interval_s=0) as rs:
        rs.array("x", 100, init=1.0)
        if kind == "drawn":
            drawn(rs)
        else:
            islands(rs, kind)


def finished(rs: Session) -> bool:
    """Whether the script is at its end; the same on all ranks."""
    over: bool = rs.comm.bcast(rs.rank == 0 and scripted(rs).finished(rs._session.job.resize_id))
    return over


def islands(rs: Session, kind: str) -> None:
    """Who emigrates from one island arrives at the next one, an iteration later."""
    comm = rs.comm
    sent, got = rs.value("sent", 0), rs.value("got", 0)
    begun: list[Any] = []
    requests: list[MPI.Request] = []  # a dropped one would take its buffer with it
    for turn in rs.iterations():
        while begun:
            left = begun.pop()
            if isinstance(left, MPI.Message):
                left.recv()
            elif kind == "received":
                left.Cancel()
                left.Wait()
        arrived = 0
        while kind != "probed" and comm.iprobe(tag=TAG):
            comm.recv(tag=TAG)
            arrived += 1
        got.value += comm.allreduce(arrived)
        settled = comm.bcast(scripted(rs).settled if rs.rank == 0 else 0)
        if kind == "late" and turn % 6 < 4:
            requests.append(comm.isend(turn, (rs.rank + 1) % rs.size, TAG))
            sent.value += rs.size
        elif kind == "never" and settled < REFUSED:
            comm.send(turn, dest=(rs.rank + 1) % rs.size, tag=TAG)  # HERE: never
            sent.value += rs.size
        elif kind == "received" and settled < REFUSED and rs.rank == rs.size - 1:
            column = rs.grid.col_comm
            begun.append(column.irecv(source=0, tag=8))  # HERE: received
        elif kind == "probed" and settled < REFUSED:
            requests.append(comm.isend(turn, (rs.rank + 1) % rs.size, TAG))
            if rs.rank == rs.size - 1:
                begun.append(comm.mprobe(tag=TAG))  # HERE: probed
            else:
                comm.recv(tag=TAG)
        if finished(rs) and got.value == sent.value:
            break
        time.sleep(PAUSE_S)
    if rs.rank == 0:
        print(json.dumps({"sent": sent.value, "got": got.value}), flush=True)


class Post:
    """Messages on one communicator: counted by peer, each with its number as its content."""

    def __init__(self) -> None:
        self.sent: dict[int, int] = {}
        self.got: dict[int, int] = {}
        self.requests: list[MPI.Request] = []

    def send(self, comm: MPI.Intracomm, chance: random.Random) -> None:
        dest = chance.randrange(comm.size)
        content = np.full(chance.choice([0, 1, 100, 5000, 60_000]), self.sent.get(dest, 0))
        self.sent[dest] = self.sent.get(dest, 0) + 1
        self.requests.append(comm.isend(content, dest=dest, tag=chance.randrange(3)))

    def receive(self, comm: MPI.Intracomm) -> bool:
        """One message, if one has come."""
        status = MPI.Status()
        message = comm.improbe(status=status)
        if message is None:
            return False
        content = message.recv()
        assert len(set(content.tolist())) <= 1
        source = status.Get_source()
        self.got[source] = self.got.get(source, 0) + 1
        return True

    def receive_all(self, comm: MPI.Intracomm) -> None:
        """Until all have come; collective."""
        expected = comm.alltoall([self.sent.get(rank, 0) for rank in range(comm.size)])
        while sum(self.got.values()) < sum(expected):
            self.receive(comm)
        assert [self.got.get(rank, 0) for rank in range(comm.size)] == expected


class Posts:
    """Of one rank: on the job's communicator, its grid's rows and columns, and a derived one."""

    def __init__(self) -> None:
        self._post, self._size = Post(), 0
        self._posts, self._grid = (Post(), Post(), Post()), cast("Grid | None", None)

    def of(self, rs: Session, ring: MPI.Intracomm) -> list[tuple[MPI.Intracomm, Post]]:
        """Each communicator with what was sent on it; others begin anew with a resize."""
        if rs.size != self._size:
            self._post, self._size = Post(), rs.size
        if rs.grid is not self._grid:
            self._posts, self._grid = (Post(), Post(), Post()), rs.grid
        comms = (rs.comm, rs.grid.row_comm, rs.grid.col_comm, ring)
        return list(zip(comms, (self._post, *self._posts), strict=True))


def drawn(rs: Session) -> None:
    """Every rank draws what it sends; all draw together which iterations leave nothing."""
    counts, posts = rs.value("counts", [0, 0]), rs.local_state("posts", Posts())
    rings: list[MPI.Intracomm] = []

    @rs.on_resize
    def made_anew(comm: MPI.Intracomm) -> None:
        rings[:] = [comm.Create_cart([comm.size], [True])]

    for turn in rs.iterations():
        mine, alike = random.Random(turn * 1000 + rs.rank), random.Random(turn)
        for comm, post in posts.value.of(rs, rings[0]):
            before = sum(post.sent.values()), sum(post.got.values())
            for _ in range(mine.randrange(4)):
                post.send(comm, mine)
            for _ in range(mine.randrange(4)):
                post.receive(comm)
            if alike.random() < 0.75:
                post.receive_all(comm)
                MPI.Request.waitall(post.requests)
                post.requests.clear()
            after = sum(post.sent.values()), sum(post.got.values())
            total = rs.comm.allreduce(np.subtract(after, before))
            counts.value = [a + int(b) for a, b in zip(counts.value, total, strict=True)]
        if finished(rs):
            break
        time.sleep(PAUSE_S)
    for comm, post in posts.value.of(rs, rings[0]):
        before_last = sum(post.got.values())
        post.receive_all(comm)
        counts.value[1] += rs.comm.allreduce(sum(post.got.values()) - before_last)
    if rs.rank == 0:
        print(json.dumps({"sent": counts.value[0], "got": counts.value[1]}), flush=True)


if __name__ == "__main__":
    main()
