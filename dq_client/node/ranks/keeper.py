"""The keeper: parent of one job's ranks on one node. It outlives the agent that directs it.

Its agent and it exchange lines of JSON over a socket. The keeper listens in its folder, too, for an
agent that was killed and started again. What it knows it says as a whole whenever that changes
(`state`), so that nothing is lost with an agent, and repeats what has not had its effect.

    agent → keeper   {"do": "start", "world": W, ...}    see Start
                     {"do": "relayed", "data": {...}}    from another keeper of the job
                     {"do": "spawn", "ticket": T, "why": ""}   a spawn was granted, or refused
                     {"do": "end", "world": W}           end the ranks of a world; with "signal" and
                                                         "grace_s": a worker, by that signal first
                     {"do": "leave"}                     the job is over: end when no rank is left
    keeper → agent   {"state": {...}}                    see Keeper.state
                     {"relay": NODE, "data": {...}}      to another keeper of the job
                     {"spawn": {...}}                    a rank calls MPI_Comm_spawn
                     {"await": {...}}                    rank 0 waits for a world

SIGALRM to the keeper ends all ranks: SIGTERM to every descendant, SIGKILL after GRACE_S. It is a
subreaper, so that no descendant is lost, and at most one keeper ever runs for a folder
(process.claim). FOLDER/ends says how the ranks stand, for agents without keeper (ends.py).
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import time
from contextlib import suppress
from functools import partial
from typing import Any, Callable, NoReturn, Optional

from ...base import process
from ...base.channel import Channel, listen
from . import output, program
from .adoption import Adoption
from .dialogue import Dialogue
from .ends import EndsFile
from .learned import Learned
from .world import Rank, World, WorldStart, remove_shared_memory
from .worlds import Worlds

GRACE_S = 2.0
KILL_AGAIN_S = 0.1
LINGER_S = 600.0  # without an agent and ranks: then the server has given the node up, too
AGAIN_S = 1.0  # until what has not had its effect is said again
MESSAGE_BYTES_MAX = 64 << 20
QUIET_END_S = 2.0  # how long the other ranks of a world may outlive one that ended in MPI
# How long a full disk may keep a job's last output from being written; its end, if it was killed.
WRITE_FOR_S = 60.0
FOREIGN = b"dq: the output of the %d ranks that attached themselves goes where mpiexec sends it\n"
Json = dict[str, Any]
Becoming = Callable[[process.Birth], NoReturn]


class Become(BaseException):
    """Raised in a forked rank, so that it leaves the keeper's frames before the program runs."""

    def __init__(self, wanted: program.PythonProgram) -> None:
        super().__init__()
        self.program = wanted


class Keeper:
    """See the module's docstring. `tops`: None unless this process was forked from a starter."""

    def __init__(
        self, folder: str, nodes: list[str], control: socket.socket, tops: Optional[dict[str, str]]
    ) -> None:
        self.folder, self.nodes, self._tops = folder, nodes, tops
        self.worlds = Worlds()
        self._ends = EndsFile(folder)
        self._files = output.Files()
        self._cancelled: set[int] = set()  # worlds
        self._selector = selectors.DefaultSelector()
        self._dialogue = Dialogue(
            nodes,
            self.worlds,
            send=self._to_agent,
            fail=self._fail,
            watch=self._watch,
            file=self._files.file,
            cancel=self._cancel,
            kill=lambda rank: process.kill(rank.pid),
            learn=Learned(self._selector, tops).hear,
        )
        self.failed: Optional[Json] = None  # the first failure
        self._leaving = self._terminating = False
        self._killed = False  # ranks were running when it was told to end them
        self._kill_s = float("inf")
        self._again_s = time.monotonic() + AGAIN_S
        self._said = self._noted = ""  # by the agent, and on disk
        self._agent: Optional[Channel] = None
        self._adoption = Adoption(
            folder, self._selector, hear=self._hear, ended=self._ended, fail=self._fail
        )
        self._listener = self._listen()
        self._wake, self._wakes = socket.socketpair()
        for end in (self._wake, self._wakes):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(process.KEEPER_ENDS, self._terminate)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        self._meet(control)

    # --- the loop -----------------------------------------------------------------------------

    def run(self) -> None:
        """Until the job is over and no rank is left."""
        while not self._over():
            for key, _ in self._selector.select(self._patience_s()):
                key.data()
            self._look()
        self._end()

    def _patience_s(self) -> float:
        now = time.monotonic()
        due = min(self._kill_s, self.worlds.kill_due_s, self._adoption.due_s)
        due = min(due, self._dialogue.losses.due_s)
        if any(rank.quiet_s for rank in self.worlds.ranks()):
            due = min(due, now + 0.1)
        if self._dialogue.something_open() or self._files.waits:
            due = min(due, self._again_s)
        if not self.worlds.any_alive():
            due = min(due, self._alone_s + LINGER_S)
        return max(0.0, min(due - now, 3600.0))

    def _over(self) -> bool:
        if self.worlds.any_alive():
            return False
        if self._leaving or self._terminating:
            return True
        if self._agent is not None or not self.worlds:
            return False
        # Who has not heard of the end of the last barrier (MPI_Finalize) waits in it: the word may
        # have been lost with the agent, and only this keeper can say it again to the next.
        asked = any(world.is_asked for world in self.worlds.values())
        return not asked or time.monotonic() >= self._alone_s + LINGER_S

    def _look(self) -> None:
        """What time brings about, and telling the agent what is new."""
        now = time.monotonic()
        if now >= self._kill_s:
            self._kill_s = now + KILL_AGAIN_S
            self._adoption.kill()
        self._dialogue.losses.look(now)
        self._adoption.look(now)
        self.worlds.forget()
        for world in self.worlds.values():
            self._quiet_ends(world, now)
            if now >= world.kill_s:
                world.kill()
        if now >= self._again_s:
            self._again_s = now + AGAIN_S
            self._dialogue.say_again()
            self._files.flush()
        if not self.worlds.any_alive():
            self._files.write_last(WRITE_FOR_S)
        for channel in self._channels():
            self._watch(channel)
        self._tell_state()

    def _end(self) -> None:
        while self._adoption.kill():
            process.reap_all()
            time.sleep(0.005)
        remove_shared_memory(self.worlds.shared_memory())
        patience_s = GRACE_S if self._terminating else WRITE_FOR_S
        until = time.monotonic() + WRITE_FOR_S
        while not self._files.write_last(patience_s):
            time.sleep(0.5)
        # An end that nobody has heard of yet must not be lost, however long the disk is full.
        while not self._terminating or time.monotonic() < until:
            if self._write_ends(over=True):
                return
            time.sleep(0.5)

    def state(self) -> Json:
        """What the agent is told of it, as a whole."""
        return {
            **self.worlds.state(),
            "failed": self.failed,
            "killed": self._killed,
            "losing": self._dialogue.losses.pending,
            **self._files.state(),
        }

    def _write_ends(self, *, over: bool = False) -> bool:
        """See ends.py; True also if nobody wants it any more."""
        more = {
            "over": over,
            "at_stake_bytes": self._files.at_stake_bytes,
            "memory": self.worlds.shared_memory(),
        }
        try:
            return self._ends.write({**self.state(), **more})
        except FileNotFoundError:
            return True

    def _tell_state(self) -> None:
        """Tell the agent what is new, once it is on disk."""
        state = json.dumps(self.state())
        if state == self._noted and (state == self._said or self._agent is None):
            return
        if self._write_ends():
            self._noted = state
        if state != self._said and self._agent is not None:
            self._said = state
            self._agent.send('{"state": ' + state + "}")
            self._watch(self._agent)

    # --- the agent ----------------------------------------------------------------------------

    def _listen(self) -> socket.socket:
        listener = listen(self.folder, "control")
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        return listener

    def _accept(self) -> None:
        try:
            caller, _ = self._listener.accept()
        except OSError:
            return
        if self._agent is not None:  # its successor: the lock of agents lets only one run
            self._drop_agent()
        self._meet(caller)

    def _meet(self, caller: socket.socket) -> None:
        self._alone_s = float("inf")  # else since when there is no agent
        self._agent = agent = Channel(caller, MESSAGE_BYTES_MAX)
        self._selector.register(agent, selectors.EVENT_READ, lambda: self._from_agent(agent))
        self._said, self._again_s = "", 0.0

    def _drop_agent(self) -> None:
        assert self._agent is not None
        self._selector.unregister(self._agent)
        self._agent.sock.close()
        self._agent, self._alone_s = None, time.monotonic()

    def _from_agent(self, agent: Channel) -> None:
        agent.flush()
        lines = agent.lines()
        if lines is None:
            if agent is self._agent:
                self._drop_agent()
            return
        for line in lines:
            self._carry_out(json.loads(line))

    def _to_agent(self, message: Json) -> None:
        if self._agent is not None:
            self._agent.send(json.dumps(message))
            self._watch(self._agent)

    def _carry_out(self, message: Json) -> None:
        what = message.pop("do")
        if what == "start":
            self._start(WorldStart(**message))
        elif what == "relayed":
            self._dialogue.exchange.heard(message["data"])
        elif what == "spawn":
            self._dialogue.answer_spawn(message["ticket"], message["why"])
        elif what == "end":
            self._cancel(message["world"], message.get("signal", 0), message.get("grace_s", 0.0))
        elif what == "leave":
            self._leaving = True

    # --- ranks --------------------------------------------------------------------------------

    def _start(self, wanted: WorldStart) -> None:
        if self.worlds.has_had(wanted) or self._terminating:
            return  # said again
        world = self.worlds[wanted.world] = World(wanted, self.nodes)
        if wanted.world in self._cancelled:
            world.ending = True
            return
        if wanted.adopted:
            self._expect(world)
            self._write_ends()
            return
        if self._tops is not None:
            process.set_environment(wanted.env)  # what is forked here has most of it then
        world.expected |= world.machine.local
        self._write_ends()  # before there is anything that could get lost
        for number in sorted(world.machine.local):
            rank = world.run(number, self._files.file, self._becoming(wanted, number))
            world.expected.discard(number)
            for channel in rank.channels():
                hear = partial(self._hear, world, rank, channel)
                self._selector.register(channel, selectors.EVENT_READ, hear)
            for stream in rank.streams:
                pump = partial(self._pump, rank, stream)
                self._selector.register(stream, selectors.EVENT_READ, pump)

    def _becoming(self, start: WorldStart, number: int) -> Optional[Becoming]:
        """What makes a forked rank its program; None if that must be executed."""
        if self._tops is None:
            return None
        plan = program.plan(start.argv_of(number), start.env, start.cwd, self._tops)
        if plan is None:
            return None

        def become(_: process.Birth) -> NoReturn:
            self._detach()
            raise Become(plan)

        return become

    def _expect(self, world: World) -> None:
        """Ranks that run already shall be taken in."""
        self._adoption.expect(world)
        if 0 in world.expected:  # one keeper says it
            file = self._files.file(world.start.folder, "out")
            file.write(FOREIGN % len(world.start.adopted))

    def _detach(self) -> None:
        """In a forked rank: forget the sockets without closing their numbers, which are reused."""
        self._selector.close()
        self._listener.detach()
        self._adoption.detach()
        for end in (self._wake, self._wakes):
            end.detach()
        for channel in self._channels():
            channel.sock.detach()

    def _channels(self) -> list[Channel]:
        found = [c for r in self.worlds.ranks() if not r.closed for c in r.channels()]
        return found if self._agent is None else [*found, self._agent]

    def _watch(self, channel: Channel) -> None:
        """Wait for room to send if something is left to be sent."""
        try:
            key = self._selector.get_key(channel)
        except (KeyError, ValueError):
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.waiting else 0)
        if key.events != events:
            self._selector.modify(channel, events, key.data)

    def _pump(self, rank: Rank, stream: output.Stream) -> None:
        if not stream.pump():
            self._selector.unregister(stream)
            rank.streams.remove(stream)
            stream.close()

    def _woken(self) -> None:
        try:
            self._wake.recv(4096)
        except OSError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            whose = self.worlds.of_pid(pid)
            if whose is not None:
                self._ended(*whose, os.waitstatus_to_exitcode(status))

    def _ended(self, world: World, rank: Rank, code: int) -> None:
        for channel in reversed(rank.channels()):  # what it said last counts
            if not rank.closed:
                self._dialogue.read(world, rank, channel, to_the_end=True)
        rank.code = code
        for stream in list(rank.streams):
            # What it wrote is safe before its end is told. A child of it may still hold the pipe.
            stream.drain()
        if not rank.closed:
            self._close(rank)
        if not (self._terminating or world.ending or rank.retired):
            self._judge(world, rank, code)
        if not world.is_alive:
            if world.start.worker:
                world.kill()  # what it has left behind
            world.forget()

    def _judge(self, world: World, rank: Rank, code: int) -> None:
        """What the end of a rank, which nobody had asked for, means for its world and the job."""
        if code:
            world.note_shared_memory()
        if not world.is_part:
            self._fails_to_join(world, rank, code)
            return
        if code == 0 and not rank.in_session:
            if rank.number in world.machine.initialized - world.machine.finalized and not rank.left:
                rank.quiet_s = time.monotonic() + QUIET_END_S
            return
        failure: Json = {"code": code, "why": ""}
        if code == 0:
            failure = {"code": 1, "why": f"{world.called(rank)} ended without leaving the job"}
        elif code < 0:
            how = f"was ended by {process.names(code)}"
            failure = {"code": 128 - code, "why": f"{world.called(rank)} {how}"}
        losses = self._dialogue.losses
        if code > 0 or not losses.begin(world, rank, failure, time.monotonic()):
            self._fail(failure["code"], failure["why"])

    def _fails_to_join(self, world: World, rank: Rank, code: int) -> None:
        """A rank ended before it joined: the job goes on without its world."""
        how = f": {rank.why}" if rank.why else f", ended with {process.names(code)}"
        why = f"{world.called(rank)}, which was to join{how}"
        data = {"failed": world.start.world, "why": why, "mistake": rank.mistake}
        self._dialogue.exchange.relay(world.start.root or self.nodes[0], data)
        self._cancel(world.start.world)

    def _quiet_ends(self, world: World, now: float) -> None:
        """A rank that ended in MPI without MPI_Finalize: the others wait for it for ever."""
        for rank in world.local.values():
            if rank.quiet_s and now >= rank.quiet_s:
                rank.quiet_s = 0.0
                if world.running() and not world.ending:
                    self._fail(1, f"{world.called(rank)} ended without MPI_Finalize")

    def _fail(self, code: int, why: str) -> None:
        if self.failed is None and not self._terminating:
            self.failed = {"code": code, "why": why}

    def _hear(self, world: World, rank: Rank, channel: Channel) -> None:
        if rank.closed or channel not in self._selector.get_map():
            return  # its end was noticed in the same round
        if not self._dialogue.read(world, rank, channel) and not rank.closed:
            self._selector.unregister(channel)
            self._adoption.unlinked(world, rank)

    def _close(self, rank: Rank) -> None:
        for channel in rank.channels():
            with suppress(KeyError, ValueError):
                self._selector.unregister(channel)
            channel.sock.close()
        rank.closed = True

    def _terminate(self, *_: object) -> None:
        if not self._terminating:
            self._terminating, self._killed = True, self.worlds.any_alive()
            for world in self.worlds.values():
                world.note_shared_memory()
            self._kill_s = time.monotonic() + GRACE_S
            self._adoption.release()
            self._adoption.terminate()

    def _cancel(self, number: int, signal_number: int = 0, grace_s: float = 0.0) -> None:
        """End the ranks of a world that has not joined, or shall not be there any more."""
        self._cancelled.add(number)  # the order to start it may still be on its way
        if number in self.worlds:
            self.worlds[number].end(signal_number, grace_s)
