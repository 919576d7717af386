"""The user: submits jobs until that is acknowledged, or has programs attach themselves, resizes
and kills them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import msgspec

from dq_client.base import messages as m
from dq_server.live.access import Principal
from tests.dst.played_line import Line
from tests.dst.played_machine import MACHINE

if TYPE_CHECKING:
    from dq_server.live.server import Server
    from tests.dst.world import World

WAS = re.compile(r"job (\d+), which it was for a moment")
RESIZES = [(1, 0), (2, 0), (4, 0), (4, 2), (4, 4)]  # processors, rows; 0: any


WALLTIME_S = 900.0


def with_walltime(body: m.Submit | m.Attach, walltime_s: float) -> m.Submit | m.Attach:
    """The same with a walltime."""
    if isinstance(body, m.Attach):
        submission = msgspec.structs.replace(body.submission, walltime_s=walltime_s)
        return msgspec.structs.replace(body, submission=submission)
    return msgspec.structs.replace(body, walltime_s=walltime_s)


@dataclass
class Wish:
    """What the user submitted."""

    body: m.Submit | m.Attach
    sent_s: float = -10.0
    job: int = 0  # acknowledged
    jobs: tuple[int, ...] = ()  # of an array
    doomed: bool = False  # killed by the user: need not be done


class User:
    """One user with a few wishes."""

    line: Line

    def __init__(self, world: World) -> None:
        self.world = world
        self.wishes = [self.wish(n) for n in range(world.rng.randrange(2, 7))]
        # Drawn apart: seeds that are named for what happens in them draw the rest as before.
        if world.clocks.jump:  # no run lasts so long: who is killed for it has been wronged
            for wish in self.wishes:
                wish.body = with_walltime(wish.body, WALLTIME_S)
        crews = Random(f"workers {world.seed}")
        if crews.random() < 0.2 and world.config.launching.by_agents:
            self.wishes.append(self.crew(crews, len(self.wishes)))
        apart = Random(f"arrays {world.seed}")
        if apart.random() < 0.1:
            self.wishes.append(self.array(apart, len(self.wishes)))

    def arrive(self) -> None:
        """From now on the server hears of the wishes."""
        self.line = Line(self.world, "user", Principal("user"), lambda: None)
        self.world.later(0.5, self.turn)

    def wish(self, n: int) -> Wish:
        world = self.world
        size = world.rng.choice([1, 1, 2, 3])
        protect = m.Protect(world.memory.how) if world.rng.random() < 0.4 else None
        if world.rng.random() < 0.5:
            body = m.Submit(f"r{n}", f"j{n}", ["rigid"], "/", "rigid", size, protect=protect)
            return Wish(body)
        sizes = m.Sizes([1, 2, "2x1", 3, 4, "4x1"])
        kind = "malleable"
        if world.rng.random() < 0.4:
            body = m.Submit(f"r{n}", f"j{n}", [kind], "/", kind, size, sizes)
            return Wish(m.Attach(body, [MACHINE], [0] * size, list(range(1, size + 1))))
        return Wish(m.Submit(f"r{n}", f"j{n}", [kind], "/", kind, size, sizes, protect=protect))

    def array(self, drawn: Random, n: int) -> Wish:
        """Some small jobs of one description, which are started again when they fail."""
        indices = list(range(drawn.randrange(1, 6)))
        body = m.Submit(
            request=f"r{n}",
            name=f"j{n}",
            argv=["rigid"],
            cwd="/",
            kind="rigid",
            initial=drawn.choice([1, 1, 2]),
            retry=drawn.randrange(3),
            array=m.Array(indices, at_most=drawn.randrange(4)),
        )
        return Wish(body)

    def crew(self, drawn: Random, n: int) -> Wish:
        """A job of workers, which end by themselves some time."""
        least = drawn.choice([0, 0, 0, 1])
        body = m.Submit(
            request=f"r{n}",
            name=f"j{n}",
            argv=["worker"],
            cwd="/",
            kind="workers",
            sizes=m.Sizes(min=least, max=drawn.randrange(1, 6)),
            workers=m.Workers(15, drawn.choice([0.0, 2.0])),
        )
        return Wish(body)

    def heard(self, wish: Wish, answer: m.ReplyBody) -> None:
        """The answer to a submission, or to a program that wants to attach itself."""
        if isinstance(answer, m.Submitted | m.Attached):
            wish.job = answer.job
            wish.jobs = tuple(answer.jobs) if isinstance(answer, m.Submitted) else ()
        elif isinstance(wish.body, m.Attach) and isinstance(answer, m.Error) and not wish.job:
            was = WAS.match(answer.text)
            if was:
                wish.job = int(was[1])
            elif self.world.rng.random() < 0.5:  # it runs on without; the user submits another
                request = f"{wish.body.submission.request}, too"
                wish.body = msgspec.structs.replace(wish.body.submission, request=request)

    def submits_the_unknown(self, server: Server) -> None:
        """The operator has told what the journal has lost: what is unknown is submitted again."""
        for wish in self.wishes:
            mine = wish.jobs or (wish.job,)  # the number of an array is none of its jobs
            if wish.job and not any(j in server.scheduler.state.jobs for j in mine):
                body = wish.body.submission if isinstance(wish.body, m.Attach) else wish.body
                wish.body, wish.job, wish.jobs, wish.doomed = body, 0, (), False

    def turn(self) -> None:
        world = self.world
        while (message := self.line.receive()) is not None:
            number = message.id.partition("-")[2]
            if message.id.startswith("wish-"):
                self.heard(self.wishes[int(number)], message.body)
            if world.store.lost and world.server is not None:
                self.submits_the_unknown(world.server)  # a word of lost events was under way
        for n, wish in enumerate(self.wishes):
            if not wish.job and world.now - wish.sent_s > 1.0 and world.rng.random() < 0.5:
                wish.sent_s = world.now
                self.line.send(wish.body, f"wish-{n}")
            elif wish.job and world.chance(0.02):
                wish.doomed = True
                self.line.send(m.Kill(wish.job))
            elif wish.job and world.chance(0.05):  # often refused: not all jobs can be resized
                self.line.send(m.Resize(wish.job, *world.rng.choice(RESIZES)))
        world.later(0.2, self.turn)
