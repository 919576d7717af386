"""A server without sockets: the test speaks for agents, users and jobs, and sees what leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from dq_client.base import codec, keys
from dq_client.base import messages as m
from dq_client.base.home import Home
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.launching import Launching
from dq_server.core.model.state import State
from dq_server.live.access import Access, Principal
from dq_server.live.server import Server
from dq_server.live.store.journal import Journal

Order = TypeVar("Order", bound=m.OrderBody)


class Talking:
    """A server under a clock of the test, that can be killed and started again."""

    def __init__(self, root: Path, launching: Launching = Launching.JOIN, **config: Any) -> None:
        self.home = Home(root / "home")
        self.home.create()
        keys.ensure(self.home.keys)
        self.config = SchedulerConfig(samples=1, discard=0, launching=launching, **config)
        self.now, self.count = 1000.0, 0
        self.sent: list[tuple[str, m.Reply | m.Order]] = []
        self.seen: dict[str, int] = {}
        self.sessions: dict[str, int] = {}
        self.start_server()

    def start_server(self) -> None:
        self.server = Server(
            Journal(self.home.journal),
            Access(self.home.keys),
            self._outlet,
            self.config,
            heartbeat_s=2.0,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
        )

    def restart(self, launching: Launching | None = None) -> None:
        """Another server takes over; its agents have to report to it again."""
        self.close()
        if launching is not None:
            self.config = SchedulerConfig(samples=1, discard=0, launching=launching)
        self.start_server()

    def close(self) -> None:
        self.server.journal.close()

    def _outlet(self, identity: bytes, frame: bytes) -> None:
        message = codec.decode_from_server(frame)
        self.sent.append((identity.decode(), message))

    # --- who speaks -------------------------------------------------------------------------

    def say(self, who: str, body: m.RequestBody, principal: Principal | None = None) -> m.ReplyBody:
        """What an agent (or the user) says, and the answer to that."""
        self.count += 1
        request = f"{who}.{self.count}"
        principal = principal or Principal("user" if who == "user" else "agent")
        self.server.receive(who.encode(), principal, codec.encode(m.Request(request, body)))
        self.server.finish_turn()
        for to, message in reversed(self.sent):
            if to == who and isinstance(message, m.Reply) and message.id == request:
                return message.body
        raise AssertionError(f"no answer to {body}")

    def agent(
        self,
        name: str,
        *nodes: str,
        processors: int = 1,
        life: str = "",
        machine: str = "",
        home: str = "",
    ) -> None:
        """An agent reports, with nodes of so many processors."""
        infos = [m.NodeInfo(node, processors, node) for node in nodes or (name,)]
        hello = m.AgentHello(m.PROTOCOL, name, infos, life=life, machine=machine, home=home)
        welcome = self.say(name, hello)
        assert isinstance(welcome, m.Welcome)
        self.sessions[name] = welcome.session

    def beat(
        self,
        name: str,
        *holds: m.Holding,
        leaving_s: float | None = None,
        leaving_why: str = "",
        load: float = 0.0,
    ) -> m.ReplyBody:
        beat = m.Heartbeat(self.sessions[name], list(holds), load, leaving_s, leaving_why)
        return self.say(name, beat)

    def submit(self, size: int, *sizes: int, kind: str = "", **more: Any) -> Job:
        """A job that nobody will run."""
        kind = kind or ("malleable" if sizes else "rigid")
        listed: Any = [size, *sizes] if sizes else []
        more.setdefault("sizes", m.Sizes(listed=listed))
        body = m.Submit(
            request=f"r{self.count}",
            name="job",
            argv=["prog"],
            cwd="/",
            kind=kind,
            initial=size,
            **more,
        )
        reply = self.say("user", body)
        assert isinstance(reply, m.Submitted), reply
        return self.state.job(reply.job)

    def rank0(self, job: Job, body: m.RequestBody) -> m.ReplyBody:
        """What the application says."""
        return self.say(f"job{job.id}", body, Principal("job", job.id, job.instance))

    def later(self, seconds: float) -> None:
        self.now += seconds

    # --- what is seen -----------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.server.scheduler.state

    def orders(self, who: str, kind: type[Order]) -> list[Order]:
        """Orders of this kind that the agent got since it was last asked about."""
        seen = self.seen.get(f"{who} {kind.__name__}", 0)
        self.seen[f"{who} {kind.__name__}"] = len(self.sent)
        return [
            message.body
            for to, message in self.sent[seen:]
            if to == who and isinstance(message, m.Order) and isinstance(message.body, kind)
        ]


def held(job: Job, *worlds: int, running: bool = True) -> m.Holding:
    """A job as an agent's heartbeat lists it."""
    return m.Holding(
        job=job.id,
        instance=job.instance,
        first=True,
        pid=7,
        create_time=1.0,
        running=running,
        worlds=list(worlds),
    )


def ended(job: Job, code: int = 0, error: str = "", world: int = 0) -> m.AppEnded:
    """An agent's word on the end of its ranks."""
    return m.AppEnded(job=job.id, instance=job.instance, exit_code=code, error=error, world=world)


def refusal(reply: m.ReplyBody) -> tuple[str, str]:
    """Code and text of an error."""
    assert isinstance(reply, m.Error), reply
    return reply.code, reply.text


def running(talk: Talking, *agents: str) -> Job:
    """A rigid job on the nodes of these agents, started."""
    job = talk.submit(len(agents))
    for name in agents:
        talk.say(name, m.AppStarted(job.id, 1, 7))
    assert job.state is JobState.RUNNING
    return job
