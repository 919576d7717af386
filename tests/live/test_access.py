"""Who may do what: every role, every verb, about its own job and another's; every cell asserted.
And keys that count for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from zmq.auth.thread import ThreadAuthenticator

from dq_client.base import keys
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import Refused, UsageError
from dq_server.core.model.launching import Launching
from dq_server.live import access
from dq_server.live.__main__ import refuse_exposed
from tests.live.serving import Serving, answer_of, submission

SIZE = 2


class Staged(Serving):
    """A server with agents by the job that each one runs, and a user."""

    def __init__(self, root: Path, launching: Launching) -> None:
        super().__init__(root, launching=launching)
        self.agents = {1: self.agent("a", "n1"), 2: self.agent("b", "n2")}
        self.user = self.role("user")

    def speaker(self, role: str) -> Connection:
        """The user, the viewer, agent a, or job 1."""
        mine = {"user": self.user, "agent": self.agents[1]}
        return mine.get(role) or (self.job_key(1, 1) if role == "job" else self.role(role))


@pytest.fixture
def launching() -> Launching:
    return Launching.JOIN


@pytest.fixture
def served(tmp_path: Path, launching: Launching) -> Iterator[Staged]:
    """Two agents, and two running jobs: 1 on agent a's node, 2 on agent b's; 3 waits, 4 is held."""
    server = Staged(tmp_path, launching)
    options: tuple[dict[str, Any], ...] = ({}, {}, {}, {"hold": True})
    for n, more in enumerate(options, 1):
        kind = "evolving" if n <= SIZE else "malleable"
        sizes = m.Sizes([1, SIZE])
        server.user.call(submission(f"r{n}", SIZE, kind=kind, sizes=sizes, **more))
    for job, agent in server.agents.items():
        agent.call(m.AppStarted(job, 1, 100 + job))
    yield server
    server.close()


def about(job: int) -> list[m.RequestBody]:
    """Every request there is; where it can name a job, or a processor, this job's."""
    return [
        m.Hello(m.PROTOCOL),
        submission("again"),
        m.Attach(submission("beside"), ["elsewhere"], [0], [1]),
        m.JobQuery(job),
        m.JobsQuery(),
        m.NodesQuery(),
        m.DrainNode("n1", 60.0),
        m.ResumeNode("n1"),
        m.PoolQuery(),
        m.QuotasQuery(),
        m.WhyQuery(job),
        m.StatusQuery(),
        m.TimelineQuery(),
        m.Since(),
        m.Hold(3),
        m.Release(4),
        m.Resize(job, 1, hold=True),
        m.ReleaseSize(job),
        m.Edit(2, priority=1),
        m.Reserve("q", "r", 1, 1e6, 60.0),
        m.ReservationsQuery(),
        m.CancelReservation("r"),
        m.PlanMaintenance("q", "w", ["n1"], 1e6, 60.0),
        m.MaintenanceQuery(),
        m.CancelMaintenance("w"),
        m.JobHello(m.PROTOCOL, SIZE),
        m.RemapPoint(1, SIZE, 0, 1.0),
        m.DynamicRequest(1, 1),
        m.DynamicRelease(2, 1),
        m.Committed(1),
        m.Aborted(1, "no"),
        m.CopyMade(1, 0.5, 100),
        m.ResizesByRestart(),
        m.RestartReady(1),
        m.RanksLost([0]),
        m.GaveUp("no"),
        m.JobJoining(m.PROTOCOL, 1),
        m.RankReport(0, "goes on"),
        m.WorkDone(),
        m.AgentHello(m.PROTOCOL, "c", [m.NodeInfo("n9", 1, "n9")]),
        m.Heartbeat(0),
        m.RemoteRun("run", job, 1, "nowhere", ["true"]),
        m.RemoteEnded("run", 0),
        m.LogAnswer(77, b"", 0, end=True),
        m.KeepLog(job, "n1", "out", 0, b"kept", last=True),
        m.Ballot("a", ["n1"], 0, 0),
        m.ForgetStandby(),
        m.Follow("s", "tcp://127.0.0.1:9", 0, b"", -1, 0, 0, 0, 0),
        m.AgentRetired(),
        m.AppStarted(job, 1, 1),
        m.Vacated(job, 1, [SIZE * (job - 1), SIZE * (job - 1) + 1]),
        m.RankLost(job, 1, "one of them"),
        m.OutputLost(job, 1, "n1", 7),
        m.Relay(job=job, instance=1, node="n1", data=b"x"),
        m.SpawnRanks(job=job, instance=1, ticket=1, world=0, programs=[["p"]], program_of=[0]),
        m.WorldEnded(job, 1, 1),
        m.AppEnded(job, 1, 1),
        m.Kill(job),
        m.Stop(),
    ]


USER = {
    m.Hello, m.Submit, m.Attach, m.JobQuery, m.JobsQuery, m.NodesQuery, m.WhyQuery,
    m.StatusQuery, m.TimelineQuery, m.Kill, m.Hold, m.Release, m.Resize, m.LogsQuery, m.Stop,
    m.ReleaseSize, m.Edit,
    m.Reserve, m.CancelReservation, m.ReservationsQuery, m.DrainNode, m.ResumeNode, m.PoolQuery,
    m.QuotasQuery, m.Since, m.ForgetStandby, m.PlanMaintenance, m.CancelMaintenance,
    m.MaintenanceQuery,
}  # fmt: skip
AGENT = {
    m.Hello, m.AgentHello, m.Heartbeat, m.AppStarted, m.AppEnded, m.RankLost, m.Vacated,
    m.RemoteRun, m.RemoteEnded, m.LogAnswer, m.KeepLog, m.Relay, m.SpawnRanks, m.WorldEnded,
    m.AgentRetired, m.Ballot, m.OutputLost,
}  # fmt: skip
JOB = {
    m.Hello, m.JobHello, m.RemapPoint, m.Committed, m.Aborted, m.DynamicRequest, m.DynamicRelease,
    m.CopyMade, m.RanksLost, m.GaveUp, m.WorkDone, m.JobJoining, m.RankReport,
    m.ResizesByRestart, m.RestartReady,
}  # fmt: skip
VIEWER = {
    m.Hello, m.JobQuery, m.JobsQuery, m.NodesQuery, m.WhyQuery, m.StatusQuery, m.TimelineQuery,
    m.LogsQuery, m.ReservationsQuery, m.PoolQuery,
    m.QuotasQuery, m.Since, m.MaintenanceQuery,
}  # fmt: skip
STANDBY = {m.Hello, m.Follow}
MAY = {
    "user": USER, "agent": AGENT, "job": JOB, "viewer": VIEWER, "standby": STANDBY, "server": set(),
}  # fmt: skip
# An agent speaks for the jobs and the processors of its own nodes only.
OWN_ONLY = {m.AppStarted, m.AppEnded, m.RankLost, m.Vacated}
OWN_ONLY_OF_DQ = {m.Relay, m.SpawnRanks, m.WorldEnded}  # mpiexec's jobs have no such thing


def test_the_matrix_has_every_verb_and_the_server_this_table() -> None:
    """A verb without a row fails here."""
    assert {type(body) for body in about(1)} | {m.LogsQuery} == set(m.REQUESTS)
    assert {role: set(may) for role, may in access.MAY.items()} == MAY


@pytest.mark.parametrize("launching", [Launching.MPIEXEC, Launching.JOIN], ids=["mpiexec", "dq"])
@pytest.mark.parametrize("job", [1, 2], ids=["own job", "another's job"])
@pytest.mark.parametrize("role", ["user", "agent", "job", "viewer"])
def test_matrix(served: Staged, role: str, job: int) -> None:
    """Done, or refused for the role, or refused because the job is another's: and then nothing has
    changed. The speaker is the user, agent a, job 1 itself, or who may only look."""
    line = served.speaker(role)
    by_agents = served.state.job(1).launching.by_agents
    own_only = OWN_ONLY | (OWN_ONLY_OF_DQ if by_agents else set())
    for body in about(job):
        verb, changes, jobs = (
            type(body),
            served.front.server.feed.last_event,
            len(served.state.jobs),
        )
        reply = line.ask(body)
        text = reply.text if isinstance(reply, m.Error) else ""
        unchanged = (served.front.server.feed.last_event, len(served.state.jobs)) == (changes, jobs)
        if role == "viewer":
            assert unchanged, verb
        if verb not in MAY[role]:
            assert text == f"a key of role {role} may not {verb.__name__}"
            assert unchanged, verb
        elif verb in own_only and job != 1:
            assert "agent a" in text, verb
            assert unchanged, verb
        else:
            assert "may not" not in text and "agent a" not in text, (verb, text)


@pytest.mark.parametrize("job", [1, 2], ids=["own job", "another's job"])
@pytest.mark.parametrize("role", ["user", "agent", "job", "viewer"])
def test_matrix_of_logs(served: Staged, role: str, job: int) -> None:
    """Output is the user's and the viewer's to read; the agent that has it is asked, and only its
    answer counts."""
    speaker = served.speaker(role)
    request = speaker.send(m.LogsQuery(job))
    if role not in ("user", "viewer"):
        reply = next(r for r in iter(lambda: speaker.receive(5), None) if isinstance(r, m.Reply))
        assert reply.body == m.Error("refused", f"a key of role {role} may not LogsQuery")
        return
    mine, other = served.agents[job], served.agents[3 - job]
    order = next(filter(None, map(read_log, iter(lambda: mine.receive(5), None))))
    other.call(m.LogAnswer(order.ticket, b"forged", 6, end=True))
    mine.call(m.LogAnswer(order.ticket, b"output", 6, end=True))
    answer = speaker.receive(5)
    assert isinstance(answer, m.Reply)
    assert (answer.id, answer_of(m.LogPiece, answer.body).data) == (request, b"output")


def read_log(message: object) -> m.ReadLog | None:
    """What an agent is asked to read, if that is what a message says."""
    if isinstance(message, m.Order) and isinstance(message.body, m.ReadLog):
        return message.body
    return None


def test_an_agent_that_has_not_reported_is_asked_to(served: Staged) -> None:
    """A good key alone is no node."""
    line = served.role("agent")
    for body in about(1):
        if type(body) in AGENT - {
            m.Hello,
            m.AgentHello,
            m.RemoteEnded,
            m.LogAnswer,
            m.KeepLog,  # of a node that has left: what its job ran on is checked instead
            m.AgentRetired,
            m.Ballot,  # it looks for a server, and here is one
        }:
            reply = line.ask(body)
            assert isinstance(reply, m.Error) and reply.code == "later", body


def test_a_job_speaks_for_itself_only(served: Staged) -> None:
    """Job 1's key can neither name job 2 nor settle a resize of job 2."""
    first, second = served.job_key(1, 1), served.job_key(2, 1)
    second.call(m.DynamicRelease(1, 1))
    granted = answer_of(m.RemapAnswer, second.call(m.RemapPoint(1, SIZE, 0, 1.0)))
    assert granted.what == "shrink"
    first.ask(m.Committed(granted.resize_id))
    first.ask(m.Aborted(granted.resize_id, "mine"))
    resize = served.state.jobs[2].resize
    assert resize is not None
    assert resize.resize_id == granted.resize_id
    assert answer_of(m.JobWelcome, first.call(m.JobHello(m.PROTOCOL, SIZE))).job == 1


@pytest.mark.parametrize("instance", [0, 2])
def test_key_of_another_instance_is_refused(served: Staged, instance: int) -> None:
    with pytest.raises(Refused, match="refuses this key"):
        served.job_key(1, instance).call(m.JobHello(m.PROTOCOL, SIZE))


def test_a_job_that_is_over_has_no_say_any_more(served: Staged) -> None:
    """Its connection still stands: the key is looked up for every message."""
    line = served.job_key(1, 1)
    assert answer_of(m.JobWelcome, line.call(m.JobHello(m.PROTOCOL, SIZE))).job == 1
    served.agents[1].call(m.AppEnded(1, 1, 0))
    changes = served.front.server.feed.last_event
    line.send(m.RemapPoint(1, SIZE, 0, 1.0))
    served.user.call(m.StatusQuery())
    assert line.receive(0.3) is None
    assert served.front.server.feed.last_event == changes


def test_unknown_key_is_refused_with_one_line(served: Staged) -> None:
    """Told, not left waiting."""
    line = served.connect(keys.KeyPair(*(half.decode() for half in zmq.curve_keypair())))
    with pytest.raises(Refused, match="refuses this key"):
        line.call(m.StatusQuery(), 10.0)


def test_the_servers_own_key_is_no_principal(served: Staged) -> None:
    with pytest.raises(Refused, match="refuses this key"):
        served.connect(served.front.server.access.server).call(m.StatusQuery(), 10.0)


def test_server_of_another_key_is_named(served: Staged) -> None:
    """A client that expects another server does not talk to this one, and says so."""
    pair = keys.load(served.home.keys, "user")
    line = Connection(served.front.address, zmq.curve_keypair()[0].decode(), pair)
    with pytest.raises(Refused, match="no DQ server with this key"):
        line.call(m.StatusQuery(), 10.0)
    line.close()


@pytest.mark.parametrize(
    ("what", "mode"), [("file", 0o640), ("file", 0o604), ("folder", 0o750), ("folder", 0o701)]
)
def test_loose_key_files_are_refused(tmp_path: Path, what: str, mode: int) -> None:
    folder = tmp_path / "keys"
    keys.ensure(folder)
    (folder if what == "folder" else folder / "user.key").chmod(mode)
    with pytest.raises(UsageError, match="open to others"):
        keys.load(folder, "user")


def test_new_keys_are_private(tmp_path: Path) -> None:
    keys.ensure(tmp_path / "keys")
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    for name in keys.PRINCIPALS:
        assert (tmp_path / "keys" / f"{name}.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("address", ["inproc://x", "127.0.0.1:5", "tcp//1"])
def test_odd_addresses_are_refused(address: str) -> None:
    with pytest.raises(UsageError):
        refuse_exposed(address)


@pytest.mark.parametrize(
    "address", ["tcp://10.0.0.1:*", "tcp://eth0:*", "tcp://127.evil.example:1"]
)
def test_root_serves_this_machine_only(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(UsageError, match="this machine only"):
        refuse_exposed(address)


def test_root_may_say_that_it_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    refuse_exposed("tcp://10.0.0.1:5555", as_root=True)


@pytest.mark.parametrize("address", ["tcp://0.0.0.0:*", "tcp://*:*", "tcp://[::]:5555"])
def test_an_address_that_nobody_could_use_elsewhere_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="one address of this machine"):
        refuse_exposed(address)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:*", "tcp://0.0.0.0:*"])
def test_nothing_is_bound_without_an_authenticator(served: Staged, address: str) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    idle = ThreadAuthenticator(context)  # never started
    with pytest.raises(UsageError, match="no authenticator"):
        access.bind_router(context, idle, access.Access(served.home.keys), address)
    context.term()
