"""What a keeper hears from its ranks, on both of their sockets, and what it answers."""

from __future__ import annotations

import json
import time
from typing import Any, Callable

from ...base.channel import Channel
from . import output, pmi
from .exchange import Exchange
from .loss import Losses
from .world import Rank, World

Json = dict[str, Any]


class Dialogue:
    """With the ranks of one job on one node.

    send     a message to the agent
    fail     the job has failed: exit code and reason
    watch    a channel has something left to be sent
    file     of the job's output
    cancel   end the ranks of a world
    kill     end one rank
    learn    what a rank has imported
    """

    def __init__(
        self,
        nodes: list[str],
        worlds: dict[int, World],
        *,
        send: Callable[[Json], None],
        fail: Callable[[int, str], None],
        watch: Callable[[Channel], None],
        file: Callable[[str, str], output.File],
        cancel: Callable[[int], None],
        kill: Callable[[Rank], None],
        learn: Callable[[Json], None],
    ) -> None:
        self._send, self._fail, self._watch, self._file = send, fail, watch, file
        self._kill, self._learn = kill, learn
        self.exchange = Exchange(nodes, worlds, send, self.say, self._carry, cancel)
        self.losses = Losses(
            nodes[0],
            worlds,
            self.exchange.relay,
            self.say,
            lambda failure: fail(failure["code"], failure["why"]),
        )
        self.exchange.losses = self.losses
        self.spawns: dict[int, tuple[World, Rank, Json]] = {}  # by ticket, unanswered
        self._tickets = 0

    def read(self, world: World, rank: Rank, channel: Channel, *, to_the_end: bool = False) -> bool:
        """Take in what a rank says; False once nothing more can come.

        `to_the_end`: of a rank that has ended. One that lives might never stop.
        """
        channel.flush()
        try:
            while True:
                lines = channel.lines()
                for line in lines or ():
                    self._hear(world, rank, channel, line)
                if lines is None:
                    return False
                if not lines or not to_the_end:
                    return True
        except (pmi.Garbage, ValueError, KeyError, TypeError, RecursionError) as e:
            # It ends its own job and nothing else.
            why = f"{world.called(rank)} sent what its process manager does not understand: {e}"
            self._fail(1, why[:1000])
            self._kill(rank)
            return False

    def say(self, rank: Rank, line: str) -> None:
        """To the resize library of a rank."""
        if not rank.closed:
            rank.link.send(line)
            self._watch(rank.link)

    def answer_spawn(self, ticket: int, why: str) -> None:
        """The server has granted a spawn, or refused it for a reason."""
        world, rank, asked = self.spawns.pop(ticket, (None, None, None))
        if world is None or rank is None or asked is None or rank.closed:
            return
        if why:
            told = f"MPI_Comm_spawn by rank {rank.number} is refused: {why}"
            self._file(world.start.folder, "err").write(f"dq: {told}\n".encode())
            goes_on = world.start.env.get("DQ_SPAWN_REFUSED") == "return"
            if not goes_on and "dq_world" not in asked["info"]:
                # Most programs wait for ever for ranks that they are sure to get.
                self._fail(1, told)
                return
        self._effect(world, rank, pmi.answer_spawn(rank.number, why))

    def something_open(self) -> bool:
        """Whether something may have to be said again."""
        return bool(self.spawns) or self.exchange.something_open()

    def say_again(self) -> None:
        """Say again what has not had its effect."""
        self.exchange.say_again()
        for _, _, asked in self.spawns.values():
            self._send({"spawn": asked})

    def _hear(self, world: World, rank: Rank, channel: Channel, line: str) -> None:
        if channel is not rank.pmi:
            self._heard(world, rank, json.loads(line))
            return
        for effect in world.machine.handle(rank.number, line):
            self._effect(world, rank, effect)

    def _effect(self, world: World, rank: Rank, effect: pmi.Effect) -> None:
        if isinstance(effect, pmi.Say):
            channel = world.local[effect.rank].pmi
            assert channel is not None, "who speaks PMI is heard on it"
            channel.send(effect.line)
            self._watch(channel)
        elif isinstance(effect, pmi.Fence):
            self.exchange.fence(world, effect)
        elif isinstance(effect, pmi.Abort):
            for stream in list(rank.streams):
                stream.drain()
            if world.is_part:
                self._fail(effect.code & 0xFF or 1, "")
            else:  # the job does without this world
                self._kill(rank)
        elif isinstance(effect, pmi.Publish):
            answer = pmi.answer_publish(effect)
            self.exchange.publish(
                effect.name, effect.port, lambda: self._effect(world, rank, answer)
            )
        elif isinstance(effect, pmi.Lookup):
            port = self.exchange.names.get(effect.name) or None
            self._effect(world, rank, pmi.answer_lookup(effect, port))
        elif isinstance(effect, pmi.Spawn):
            self._ask_for_spawn(world, rank, effect)

    def _ask_for_spawn(self, world: World, rank: Rank, effect: pmi.Spawn) -> None:
        self._tickets += 1
        # Beyond this process: a keeper that was made later for the same job must not reuse it.
        ticket = time.time_ns() // 1000 + self._tickets
        asked = {
            "ticket": ticket,
            "node": world.start.nodes[rank.number],
            "programs": effect.programs,
            "program_of": effect.program_of,
            "info": effect.info,
            "keys": effect.keys,
            "cwd": effect.info.get("wdir", world.start.cwd),
            "world": world.start.world,
        }
        self.spawns[ticket] = world, rank, asked
        self._send({"spawn": asked})

    def _heard(self, world: World, rank: Rank, said: Json) -> None:
        """A line of the resize library (docs/ranks.md)."""
        if not isinstance(said, dict):
            raise TypeError("a line that is no object")
        if "session" in said:
            rank.in_session = bool(said["session"])
            rank.left = not rank.in_session
            rank.retired = rank.retired or bool(said.get("retired"))
            self.losses.back(rank)
        elif "exit" in said:
            self._fail(int(said["exit"]) & 0xFF or 1, "")
        elif "free" in said:
            self.losses.freed(rank, said)
        elif "arrived" in said:
            touched = bool(said.get("touched"))
            self.exchange.arrive(world, rank, str(said["arrived"]), touched=touched)
        elif "await" in said:
            self._send({"await": {**said, "node": rank.node}})
            self.exchange.wait_for(rank, said)
        elif "go" in said:
            self.exchange.decide("go", int(said["go"]))
        elif "why" in said:
            rank.why, rank.mistake = str(said["why"])[:1000], bool(said.get("mistake"))
        elif "imported" in said:
            self._learn(dict(said["imported"]))
        elif "cancel" in said:
            self.exchange.decide("cancel", int(said["cancel"]))

    def _carry(self, world: World, effects: list[pmi.Effect]) -> None:
        if not world.is_alive:
            return  # the others come out of a barrier in which its ranks here have ended
        for effect in effects:
            self._effect(world, next(iter(world.local.values())), effect)
