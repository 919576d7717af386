"""The job instances that have processes on this agent's nodes: on disk, so that they outlive it.

Each is a folder with a record of what it is for, the claim of its keeper (pid and start time), so
that an agent that was killed and started again finds the same processes, and an `exit` file that
the keeper writes at the end. The folder goes when the server has acknowledged the end. The record
is written before the keeper is started: see program_keeper.py for why nothing runs twice.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psutil

from dq_client.base import opened, process, process_tree
from dq_client.base.home import Home, created_s, is_alive, write_private
from dq_client.node.ranks import adoption, boot, ends
from dq_client.node.ranks.ends import State
from dq_client.node.ranks.world import open_shared_memory, remove_shared_memory

KEEPER_KILLED = 137  # the keeper itself was killed: the program's own exit code is lost


class HoldingRecord(msgspec.Struct):
    """What the agent remembers of one process tree. `run` names a proxy, empty for the job.

    `ranks`: DQ's own ranks (own_ranks.py). `pid` and `create_time` are the keeper's; on disk they
    are 0, there the claim tells.
    """

    job: int
    instance: int
    run: str = ""
    asker: str = ""  # the agent that wants to hear of the proxy's end
    pid: int = 0
    create_time: float = 0.0
    ranks: bool = False


@dataclass(slots=True)
class Tree:
    """One process tree and its folder."""

    record: HoldingRecord
    folder: Path
    owner: process_tree.Owner
    killed: bool = False
    swept: bool = False  # nothing of it was left, and nobody is there to start more
    over: bool = False  # of own ranks: their keeper has ended, or never was
    memory: set[str] = field(default_factory=set)  # of MPICH, that killed ranks had open

    @property
    def is_proxy(self) -> bool:
        """A proxy started for MPI, as opposed to the application itself."""
        return bool(self.record.run)

    def running(self) -> bool:
        """Whether the keeper still runs."""
        if self.record.ranks:
            return not self.over
        return is_alive(self.record.pid, self.record.create_time)

    def find(self) -> bool:
        """Look for the keeper that claimed the folder; whether there is one."""
        if not self.record.pid:
            self.record.pid, self.record.create_time = _claimed(self.folder)
        return bool(self.record.pid)

    def exit_code(self) -> int | None:
        """The program's exit code; None while it runs."""
        try:
            return int(opened.read_text(self.folder / "exit"))
        except (OSError, ValueError):
            return None if self.running() else KEEPER_KILLED

    def last_state(self) -> State | None:
        """What the keeper of ranks wrote last of them; None if there is nothing."""
        return ends.read(str(self.folder))

    def abandoned(self) -> bool:
        """Whether the keeper was killed before it could end the tree."""
        return not self.running() and not (self.folder / "exit").exists()

    def terminate(self) -> None:
        """Ask the keeper to end the tree. OSError, and nothing was done, if the disk is full."""
        if self.record.ranks and not self.find() and process.claim(str(self.folder)):
            self.over = True  # a keeper that comes later finds the claim, and starts nothing
        self.killed = True  # its exit code is our doing: no sign of a proxy that went wrong
        if self.running():
            # A keeper of ranks takes SIGTERM for a batch system's.
            number = process.KEEPER_ENDS if self.record.ranks else signal.SIGTERM
            process_tree.kill([self.record.pid], number)
            process_tree.kill(
                [self.record.pid], signal.SIGCONT
            )  # one that was stopped would not hear it
        else:
            self.sweep()

    def sweep(self) -> bool:
        """Kill what is left of the instance without a keeper; True once nothing is."""
        if self.running():
            return False
        if self.swept:
            return True
        left = process_tree.members(self.record.job, self.record.instance, self.owner)
        left += adoption.adopted(str(self.folder))
        for pid in left:
            self.memory |= open_shared_memory(pid)
        process_tree.kill(left)
        self.swept = not left
        if self.swept and self.record.ranks:  # a keeper that was killed has left it
            remove_shared_memory({*self.memory, *ends.memory(str(self.folder))})
        return self.swept

    def forget(self) -> None:
        """The server knows the end."""
        shutil.rmtree(self.folder, ignore_errors=True)


def clear_memory(home: Home) -> None:
    """Remove what MPI has left in memory for a home, of which nothing runs here any more."""
    for folder in (home.root / "agents").glob("*/holdings/*"):
        remove_shared_memory(ends.memory(str(folder)))


def _claimed(folder: Path) -> tuple[int, float]:
    """Pid and creation time of the keeper that claimed the folder; 0, 0 once it is gone."""
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        pid, ticks = (int(word) for word in opened.read_text(folder / "claim").split())
        if process.start_ticks(pid) == ticks:
            return pid, created_s(pid)
    return 0, 0.0


class Holdings:
    """All process trees of one agent, on disk and in memory."""

    def __init__(self, folder: Path, owner: process_tree.Owner) -> None:
        self.folder, self.owner = folder, owner
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.trees: dict[str, Tree] = {}
        self.children: list[subprocess.Popen[bytes]] = []  # keepers that are to be reaped
        self.adopted = False  # trees of an earlier agent: not our children, so no signal tells
        self._adopt()

    def _adopt(self) -> None:
        """Find what an earlier agent of this name left running."""
        for folder in sorted(self.folder.iterdir()):
            try:
                record = msgspec.json.decode(
                    opened.read(folder / "record.json"), type=HoldingRecord
                )
                # Looked at first: on a full disk the attempt fails although there is one.
                known = (folder / "claim").exists() or not process.claim(str(folder))
            except msgspec.DecodeError:
                known = False
            except OSError as e:
                if e.errno not in (errno.ENOENT, *opened.STRANGE):
                    raise
                known = False
            if not known:  # nothing was started, and now nothing will be
                shutil.rmtree(folder, ignore_errors=True)  # it died before anything was started
                continue
            record.pid, record.create_time = _claimed(folder)
            self.trees[folder.name] = Tree(record, folder, self.owner)
            self.adopted = True

    @staticmethod
    def key(job: int, instance: int, run: str = "") -> str:
        """Folder name of a tree."""
        return f"{job}.{instance}" + (f".{run}" if run else "")

    def get(self, job: int, instance: int, run: str = "") -> Tree | None:
        """The tree, if it is held."""
        return self.trees.get(self.key(job, instance, run))

    def of(self, job: int, instance: int) -> list[Tree]:
        """The job's own tree and its proxies."""
        return [
            t for t in self.trees.values() if (t.record.job, t.record.instance) == (job, instance)
        ]

    def start(
        self,
        record: HoldingRecord,
        argv: list[str],
        cwd: str,
        env: dict[str, str],
        out: Path,
        err: Path,
    ) -> Tree:
        """Start a program under a keeper. OSError if that is impossible."""
        held = self.make(record)
        folder = held.folder
        program = str(Path(boot.__file__).resolve())
        words = [sys.executable, "-I", "-S", program, "program"]
        words += [str(folder), cwd, str(out), str(err), *argv]
        began = subprocess.Popen(
            words,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.children.append(began)
        record.pid, record.create_time = began.pid, created_s(began.pid)
        return held

    def make(self, record: HoldingRecord) -> Tree:
        """A folder for a new tree. OSError if there is one: an instance is started once."""
        name = self.key(record.job, record.instance, record.run)
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        try:
            write_private(folder / "record.json", msgspec.json.encode(record).decode())
        except OSError:
            folder.rmdir()  # it would be in the way of the next attempt
            raise
        self.trees[name] = Tree(record, folder, self.owner)
        return self.trees[name]

    def drop(self, held: Tree) -> None:
        """Forget a tree that has ended and was reported."""
        held.forget()
        self.trees.pop(held.folder.name, None)

    def reap(self) -> None:
        """Collect keepers that have ended, and orphans: the agent is a subreaper, too."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        # Popen notes by itself that its child was reaped by somebody else; it warns if it is
        # dropped before that.
        self.children = [p for p in self.children if p.poll() is None]
