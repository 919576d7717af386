"""Applications that can be resized, as the server and the agents see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dq_client.base import messages as m
from dq_client.node.agent.rsh_socket import RshRequest
from resize_lib.silence import Silence
from tests.dst.played_keeper import Start
from tests.dst.played_line import Line
from tests.dst.played_machine import NODES, Process
from tests.dst.verdict import Wrong, should_resize

if TYPE_CHECKING:
    from tests.dst.world import World


class Call:
    """Stands for rsh.Caller: a launcher that waits for its proxy on another node."""

    def __init__(self) -> None:
        self.of = (0, 0)
        self.call: m.RemoteRun | None = None
        self.request = ""
        self.accepted = self.over = False

    def answer(self, **_: object) -> None:
        self.over = True

    def close(self) -> None:
        self.over = True


@dataclass
class Spawning:
    """New ranks that are being started: the order, and the proxies they still need, by node."""

    answer: m.RemapAnswer
    calls: dict[str, tuple[str, Call]]  # node -> run, call


def not_saved(message: m.Reply) -> bool:
    """Whether this is no answer: it has to be asked again."""
    return isinstance(message.body, m.Error) and message.body.code == "later"


@dataclass
class Awaited:
    """A granted expansion whose ranks the agents start, and how many wait on which node."""

    answer: m.RemapAnswer
    since_s: float
    blocks: bool  # in MPI_Comm_spawn
    there: dict[str, int] = field(default_factory=dict)
    failed: bool = False


@dataclass
class App:
    """An application that comes to remap points and carries resizes out, or fails to."""

    world: World
    process: Process
    line: Line
    seq: int = 0
    done: int = 0
    asked: str = ""
    asked_s: float = 0.0
    spawning: Spawning | None = None
    farewells: int = 0
    awaited: Awaited | None = None
    commit: m.Committed | None = None  # not acknowledged yet
    inherits: int = 0  # the resize whose copy it begins from
    restarts: bool = False  # a resize ends all ranks
    restart_s: float = 0.0  # since when
    restart: m.RestartReady | None = None  # it has made a copy, and waits for leave to end
    silence: Silence = field(default_factory=Silence)
    rung: bool = False
    met: int = 0  # the server's life at its last report: another one is another connection
    since_s: float = 0.0  # of its last report
    overdue: bool = False  # when it came to its last remap point it should have been rung

    def __post_init__(self) -> None:
        if self.inherits:
            self.done = self.inherits
            self.tell(m.Committed(self.inherits, 0.1))

    def finish(self) -> None:
        """A job says that its work is done, until that is heard, and ends."""
        world, process = self.world, self.process
        if process.torn or process.left:
            return
        if self.awaited is not None and self.awaited.blocks and not process.over:
            world.later(0.2, self.finish)
            return
        if self.restart is not None and not process.over:
            world.later(0.2, self.finish)
            return
        told = [one for one in iter(self.line.receive, None) if isinstance(one, m.Reply)]
        answers = [reply.id for reply in told if not not_saved(reply)]
        if self.asked in answers:
            self.commit = None
        if self.commit is not None and not process.over:  # the server must know who belongs to it
            self.asked = self.line.send(self.commit)
            self.farewells = 1
            world.later(world.rng.uniform(0.2, 1.0), self.finish)
        elif any(answer.startswith("farewell") for answer in answers):
            if isinstance(process, Start):
                process.end(world)
            else:
                world.machine.end(process)
        elif not process.over:
            self.farewells += 1
            self.line.send(m.WorkDone(self.done), f"farewell.{self.farewells}")
            world.later(world.rng.uniform(0.2, 1.0), self.finish)

    def turn(self) -> None:
        """Every so often: see what came, do it, ask on."""
        world, process = self.world, self.process
        if process.over or (isinstance(process, Start) and process.ending):
            self.line.close()
            return
        if self.farewells or process.torn:
            return
        while (message := self.line.receive()) is not None:
            if isinstance(message, m.Order):
                self.rung = True
            elif message.id == self.asked:
                self.asked = ""
                if self.restart is not None:
                    if self.may_end(self.restart, message):
                        self.line.close()
                        return
                    continue
                self.copy_is_used(message)
                self.commit = self.commit if not_saved(message) else None
                if isinstance(message.body, m.RemapAnswer):
                    self.silence.begin(message.body, (self.done, ""))
                    self.carry_out(message.body)
        if self.restart is not None:
            self.ask_to_end(self.restart)
        elif self.spawning is not None:
            self.look_at_spawning(self.spawning)
        elif self.awaited is not None and self.look_at_awaited(self.awaited):
            pass
        elif isinstance(process, Start) and process.lost:
            self.regroup(process)
        elif not self.asked or world.now - self.asked_s > 3.0:
            self.come(len(process.places))
        world.later(world.rng.uniform(0.1, 0.6), self.turn)

    def come(self, size: int) -> None:
        """Come to a remap point, and report it unless the job rests."""
        world, stay = self.world, (self.done, "")
        heard = self.rung or self.met != world.served
        if not heard and self.silence.passes(1.0 / size, stay):
            late = self.since_s > world.faults_s and should_resize(world, self.process.job)
            if late and self.overdue:  # a ring takes less than the way to the next remap point
                raise Wrong(f"job {self.process.job} rests, and is to be resized")
            self.overdue = late
            return
        self.seq, self.met, self.rung, self.overdue = self.seq + 1, world.served, False, False
        self.asked_s = self.since_s = world.now
        preparing = self.awaited.answer.resize_id if self.awaited is not None else 0
        silent, passed = self.silence.end(stay)
        body = m.RemapPoint(
            self.seq, size, self.done, 1.0 / size, preparing=preparing, iterations=1 + silent,
            rests=True, silent=silent, passed=passed,
        )  # fmt: skip
        self.asked = self.line.send(body)
        if world.chance(0.2):  # asked again under the same id
            self.line.send(body, self.asked)

    def regroup(self, process: Start) -> None:
        """Ranks were lost: ask on what to go on, in place; the keepers do not wait for ever."""
        world = self.world
        if world.chance(0.1) or (self.asked and world.now - self.asked_s > 9.0):
            process.gives_up()
        elif self.commit is not None:  # the server must know first who belonged to the job
            if not self.asked or world.now - self.asked_s > 3.0:
                self.tell(self.commit)
        elif not self.asked or world.now - self.asked_s > 3.0:
            self.asked_s = world.now
            dead = sorted(rank.processor for rank in process.lost)
            self.asked = self.line.send(m.RanksLost(dead))

    def carry_out(self, answer: m.RemapAnswer) -> None:
        world, process, machine = self.world, self.process, self.world.machine
        lost = process.lost if isinstance(process, Start) else []
        if answer.what != "continue" and isinstance(process, Start) and process.misses():
            process.torn = True  # it waits for a dead rank, whose keeper has told the server
            return
        if isinstance(process, Start) and lost:
            gone = {place.processor for place in answer.places}
            if answer.what != "shrink" or not {rank.processor for rank in lost} <= gone:
                process.gives_up()  # also if the answer is to an earlier question
                return
            for rank in lost:
                rank.mended = True
            lost.clear()
        elif answer.what == "continue":
            begun = self.awaited
            if begun is None or begun.blocks or answer.resize_id == begun.answer.resize_id:
                return
            self.awaited = None
            self.line.send(m.Aborted(begun.answer.resize_id, "the server has withdrawn it"))
            return
        places = [p.processor for p in answer.places]
        if world.chance(0.15):  # spawning or redistributing failed
            self.line.send(m.Aborted(answer.resize_id, "no luck"))
            return
        if self.restarts and answer.what != "regrid":
            self.restart, self.asked, self.restart_s = (
                m.RestartReady(answer.resize_id),
                "",
                world.now,
            )
            return
        if answer.what == "expand" and isinstance(process, Start):
            self.awaited = Awaited(answer, world.now, process.growth == "spawn")
            if self.awaited.blocks:
                process.keepers[process.where[process.places[0]]].spawn(
                    answer.resize_id, len(places)
                )
            return
        if answer.what == "expand":
            self.spawn(answer)
            return
        process.places = [p for p in process.places if p not in places]
        if isinstance(process, Start):
            process.releases(set(places))
        self.fold()
        self.done = answer.resize_id
        pids = []
        for p in places:
            world.pid += 1
            pids.append(world.pid)
            machine.pids[world.pid] = (process.job, p)
            pid = world.pid

            def leaves(pid: int = pid, p: int = p) -> None:
                if isinstance(process, Start):
                    process.leaves(p)
                else:
                    machine.leave(process, [p])
                machine.pids.pop(pid, None)

            # A retiring rank takes milliseconds; the server relies on that if it forgets the pids.
            world.later(world.rng.uniform(0.001, 0.05), leaves)
        self.tell(m.Committed(answer.resize_id, 0.1, pids))

    def ask_to_end(self, restart: m.RestartReady) -> None:
        """Ask until there is an answer; without one the job goes on as it was."""
        world = self.world
        if world.now - self.restart_s > 10.0:
            self.stay(restart)
        elif not self.asked or world.now - self.asked_s > 3.0:
            self.asked_s = world.now
            self.asked = self.line.send(restart)

    def may_end(self, restart: m.RestartReady, answer: m.Reply) -> bool:
        """The server has answered: whether all ranks end."""
        if not_saved(answer):
            return False
        world, process = self.world, self.process
        if isinstance(answer.body, m.Error):
            self.stay(restart)
            return False
        process.left, process.code = True, 0
        world.machine.copies[process.job] = restart.resize_id
        if isinstance(process, Start):
            process.end(world)
        else:
            world.later(world.rng.uniform(0.0, 0.5), lambda: world.machine.end(process))
        return True

    def stay(self, restart: m.RestartReady) -> None:
        """Nobody lets the ranks end: they go on."""
        self.restart, self.asked = None, ""
        self.line.send(m.Aborted(restart.resize_id, "no leave to end"))

    def copy_is_used(self, answer: m.Reply) -> None:
        """The server knows that the data have arrived: from now on a loss is one."""
        if self.commit is not None and not isinstance(answer.body, m.Error):
            self.world.machine.copies.pop(self.process.job, None)

    def spawn(self, answer: m.RemapAnswer) -> None:
        """Ask for a proxy on every node that has none, as MPI's launcher does: of its own agent."""
        world, process = self.world, self.process
        of = process.job, process.instance
        agent = world.agents[process.node]
        self.spawning = Spawning(answer, {})
        for node in sorted({place.node for place in answer.places}):
            if any(held.running() for held in world.holdings[node].of(*of)):
                continue
            world.pid += 1
            run, call = f"run{world.pid}", Call()
            self.spawning.calls[node] = run, call
            if agent is None or not agent.context.holdings.of(*of):
                call.over = True
            else:
                agent.proxies.call(run, call, *of, RshRequest(node, ["proxy"], "/", {}))  # type: ignore[arg-type]
        self.look_at_spawning(self.spawning)

    def heard(self, node: str, data: dict[str, Any]) -> None:
        """What a keeper says of the world that is awaited."""
        awaited = self.awaited
        if awaited is not None and awaited.answer.resize_id == data.get("arrived"):
            awaited.there[node] = data["count"]
        elif awaited is not None and awaited.answer.resize_id == data.get("failed"):
            awaited.failed = True

    def look_at_awaited(self, awaited: Awaited) -> bool:
        """Take the new ranks in, or give them up; False: not yet."""
        world, process, answer = self.world, self.process, awaited.answer
        assert isinstance(process, Start)
        ranks = [rank for rank in process.alive() if rank.world == answer.resize_id]
        ready = sum(awaited.there.values()) == len(answer.places)
        if awaited.blocks:  # they connect to who has spawned them
            ready = len(ranks) == len(answer.places)
        if ready and len(ranks) == len(answer.places) and not any(r.killed for r in ranks):
            for rank in ranks:
                rank.part = True
            process.places += [place.processor for place in answer.places]
            self.done = answer.resize_id
            self.tell(m.Committed(answer.resize_id, 0.1))
        elif awaited.failed or (
            not awaited.blocks and (ready or world.now - awaited.since_s > 8.0)
        ):
            self.line.send(m.Aborted(answer.resize_id, "the new ranks do not come"))
        else:
            return False
        self.awaited = None
        return True

    def look_at_spawning(self, spawning: Spawning) -> None:
        """The new ranks are there, or one of their proxies could not be started."""
        world, process, answer = self.world, self.process, spawning.answer
        places = [p.processor for p in answer.places]
        calls = spawning.calls
        of = process.job, process.instance
        held = {node: world.holdings[node].get(*of, run) for node, (run, _) in calls.items()}
        if all(h is not None and h.running() for h in held.values()):
            process.where |= {place.processor: place.node for place in answer.places}
            world.machine.occupy(process, places)
            process.places += places
            self.done, self.spawning = answer.resize_id, None
            self.tell(m.Committed(answer.resize_id, 0.1))
        elif any(call.over for _, call in calls.values()):
            world.machine.unwanted |= {run for run, _ in calls.values()}
            for proxy in held.values():
                if proxy is not None:
                    proxy.gone = True
            self.spawning = None
            self.line.send(m.Aborted(answer.resize_id, "a node cannot be reached"))

    def tell(self, body: m.Committed) -> None:
        """Like the library: nothing else is said before the answer, or three seconds, have come."""
        self.asked_s, self.commit = self.world.now, body
        self.asked = self.line.send(body)

    def fold(self) -> None:
        """Proxies without ranks end."""
        if isinstance(self.process, Start):
            return
        world, process = self.world, self.process
        used = {process.where[p] for p in process.places}
        for node in set(NODES) - used:
            for held in world.holdings[node].of(process.job, process.instance):
                held.gone |= held.is_proxy
