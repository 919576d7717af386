"""A program that mpiexec has started beside a running cluster becomes a job of it (docs/attach.md).

Rank 0 asks the server, with the key of whoever owns DQ_HOME; each rank then connects to the keeper
that its node's agent has made for it. If all have done so they are a job: from here on everything
finds what it finds in ranks that DQ has started, the link in DQ_LINK and the job's key among it. If
anything is missing the program runs on as the plain MPI program that it is, and says why.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dq_client.base.errors import DQError, UsageError
from dq_client.base.home import Home, machine
from dq_client.base.launch import MPI_TUNING
from resize_lib.attach_wish import VARIABLE, from_call, from_environment, submission
from resize_lib.processes.command import program_command, start_folder
from resize_lib.processes.link import LINK_VARIABLE

if TYPE_CHECKING:
    from mpi4py import MPI

    from dq_client.base import messages as m

ANSWER_WITHIN_S = 5.0
LINK_WITHIN_S = 10.0  # less than keepers wait (dq_client/node/ranks/adoption.py)
SOCKET, ADOPTED = "attach", b'{"adopted": true}\n'  # in the keeper's folder, and its word
USAGE = 2  # exit code, as of `dq`
RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")

_called: dict[str, str] | None = None  # by `attach`
_begun = False


@dataclass(frozen=True)
class Member:
    """A rank of the program, as its rank 0 has to know it."""

    machine: str
    pid: int
    command: tuple[str, ...]
    folder: str


@dataclass
class AttachReply:
    """What the server has told rank 0. `why`: the program is no job, for this reason."""

    why: str = ""
    job: int = 0
    instance: int = 0
    env: dict[str, str] = field(default_factory=dict)
    nodes: Sequence[str] = ()  # of each rank
    agents: dict[str, str] = field(default_factory=dict)  # by node


def attach(**options: Any) -> None:
    """See resize_lib.attach."""
    global _called
    _called = from_call(options)


def begin() -> None:
    """Attach this program if that is wanted; collective over COMM_WORLD, once a process.

    Ends the program if DQ_ATTACH cannot be understood.
    """
    global _begun
    words = _wanted()
    if words is None or _begun:
        return
    _begun = True
    from resize_lib.server_link import ServerLink, say

    if ServerLink.configured():
        return  # DQ has started it: it is a job already
    for name, value in MPI_TUNING.items():
        os.environ.setdefault(name, value)  # MPI reads it when it is initialized, perhaps now
    from resize_lib.world import bare

    world = bare()
    why = _impossible()
    if not why:
        comm = world.Dup()  # a program may have messages of its own under way
        why = _attach(comm, words)
        comm.Free()
    if why and world.rank == 0:
        ranks = "1 rank" if world.size == 1 else f"{world.size} ranks"
        say(f"not attached: {why}; the program runs on with its {ranks}")


def _wanted() -> dict[str, str] | None:
    """What the environment and the program say together; None: not to attach."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return _called
    try:
        words = from_environment(text)
    except UsageError as e:
        if _first():
            print(f"dq: {e}", file=sys.stderr, flush=True)  # noqa: T201
        raise SystemExit(USAGE) from None
    return None if words is None else {**(_called or {}), **words}


def _first() -> bool:
    """Whether this is rank 0, as far as its launcher says; MPI may not have been initialized."""
    return next((os.environ[v] for v in RANK_VARIABLES if v in os.environ), "0") == "0"


def _impossible() -> str:
    """Why no server need be asked; the same on every rank."""
    from mpi4py import MPI

    from resize_lib.processes import choice

    if LINK_VARIABLE in os.environ:
        return "it was started by a launcher of DQ's that has no server"
    netmod = os.environ.get("MPIR_CVAR_CH4_NETMOD", "ucx")
    vendor, version = MPI.get_vendor()
    return choice.reason_against(vendor, version, choice.PROCESS_MANAGER in os.environ, netmod)


def _attach(comm: MPI.Intracomm, words: dict[str, str]) -> str:
    """Become a job, or say why not; the same on every rank."""
    from resize_lib.before_arrival import agree_to_join
    from resize_lib.processes import choice
    from resize_lib.server_link import say
    from resize_lib.waiting import idle_bcast

    me = Member(machine(), os.getpid(), tuple(program_command()), start_folder())
    members = comm.gather(me)
    told: AttachReply = idle_bcast(comm, None if members is None else _ask(members, words))
    if told.why:
        return told.why
    why, link = "", None
    try:
        link = _linked(told, comm.rank)
    except OSError as e:
        why = f"it does not reach its agent: {e}"
    found, _ = agree_to_join(comm, why)
    if found:
        if link is not None:
            link.close()
        return found
    assert link is not None, "nobody has a reason"
    os.environ.update(told.env | {"DQ_NODE": told.nodes[comm.rank], "DQ_WORLD": "0"})
    os.environ[LINK_VARIABLE] = str(link.detach())
    os.environ[choice.ATTACHED_VARIABLE] = "1"
    if comm.rank == 0:
        output = Home.default().job(told.job) / "out"
        say(f"attached as job {told.job}; the output of ranks that join later: {output}")
    return ""


def _ask(members: Sequence[Member], words: dict[str, str]) -> AttachReply:
    """On rank 0: ask the server to make it a job."""
    first = members[0]
    if any((x.command, x.folder) != (first.command, first.folder) for x in members):
        return AttachReply("its ranks run different programs, and a new one could run either")
    home = Home.default()
    try:
        info = home.server()
        body = submission(words, len(members), first.command, first.folder, os.environ)
        reply = _call(home, info["address"], body, members)
    except (DQError, OSError) as e:
        return AttachReply(str(e))
    return AttachReply("", reply.job, reply.instance, reply.env, reply.nodes, reply.agents)


def _call(home: Home, address: str, body: m.Submit, members: Sequence[Member]) -> m.Attached:
    from dq_client.base import keys
    from dq_client.base import messages as m
    from dq_client.base.connection import Connection

    machines = list(dict.fromkeys(x.machine for x in members))
    asked = m.Attach(
        submission=body,
        machines=machines,
        machine_of=[machines.index(x.machine) for x in members],
        pids=[x.pid for x in members],
    )
    public = keys.load(home.keys, "server").public
    with closing(Connection(address, public, keys.load(home.keys, "user"))) as connection:
        reply = connection.call(asked, ANSWER_WITHIN_S)
    assert isinstance(reply, m.Attached)
    return reply


def _linked(told: AttachReply, rank: int) -> socket.socket:
    """The link to this rank's keeper, which has taken it in; OSError if that does not come about.

    The keeper is made while we wait.
    """
    from dq_client.base.channel import connect

    node = told.nodes[rank]
    if node not in told.agents:
        raise OSError(f"the agent of {node} is away")
    agent = Home.default().agent(told.agents[node])
    folder = agent / "holdings" / f"{told.job}.{told.instance}"
    until_s = time.monotonic() + LINK_WITHIN_S
    while True:
        try:
            link = connect(str(folder), SOCKET)
            break
        except OSError:
            if time.monotonic() > until_s:
                raise _too_late(agent, folder) from None
            time.sleep(0.005)
    link.settimeout(max(0.1, until_s - time.monotonic()))
    said = _first_line(link)
    if said != ADOPTED:
        link.close()
        raise OSError("its keeper does not take it in" + (f": {said!r}" if said else ""))
    return link


def _first_line(link: socket.socket) -> bytes:
    """Never past it: what follows is for others. Empty if the keeper hangs up or says nothing."""
    said = b""
    try:
        while not said.endswith(b"\n"):
            piece = link.recv(1)
            if not piece:
                return b""
            said += piece
    except TimeoutError:
        return b""
    return said


def _too_late(agent: Path, folder: Path) -> OSError:
    if not agent.is_dir():
        return OSError(f"there is no folder {agent} (is DQ_HOME the same on all machines?)")
    return OSError(f"no keeper has come up in {folder} within {LINK_WITHIN_S:g} s")
