"""All hosts of a cluster: checked, brought up and brought down, many at a time.

One visit by ssh each. A host that cannot be used is named and left out; the others go on. The hosts
that have an agent are noted in the home, so that `dq down` can go to those that DQ's own connection
does not reach.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dq_client import __version__
from dq_client.base import credentials, network
from dq_client.base import messages as m
from dq_client.base.address import endpoint, host_and_port, is_remote
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import DQError, NoServer, UsageError
from dq_client.base.home import Home, machine, write_private
from dq_client.base.text_files import object_of, struct_of
from dq_client.deploy import local, shutdown
from dq_client.deploy.cluster import ClusterShape, Host
from dq_client.deploy.ssh.machine import LIBRARY_WITHIN_S, Check, MachineFacts
from dq_client.deploy.ssh.remote_bootstrap import Begin, Begun, End, Failed, HostEnded, Keep
from dq_client.deploy.ssh.session import HostProblem, HostSession
from dq_client.node import local_agents
from dq_client.node.mpi_probe import probe_library

AT_ONCE = 32  # ssh connections
REPORTS_WITHIN_S = 60.0  # an agent, from its start
LOST_AFTER_S = 12.0  # a line that is cut for 5 s costs no job; see docs/cluster.md
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Found:
    """A host that was visited: what it has, or why it cannot be used."""

    host: Host
    facts: MachineFacts | None
    problem: str = ""


@dataclass(slots=True)
class Brought:
    """A cluster that is up: the server's file, the hosts in use, and the problems of the others.

    processors  of the hosts in use
    started     the hosts that a running cluster lacked; None: the cluster was not running
    """

    info: dict[str, object]
    up: list[str]
    processors: int
    problems: list[str]
    started: list[str] | None = None


class _Visits:
    """Many hosts at a time; all sessions are closed at the end, however it comes."""

    def __init__(self) -> None:
        self._open: set[HostSession] = set()
        self._lock = threading.Lock()
        self._stopped = False

    @contextmanager
    def _session(self, host: Host) -> Iterator[HostSession]:
        session = HostSession(host)
        with self._lock:
            self._open.add(session)
            stopped = self._stopped
        try:
            if stopped:
                raise session.problem("interrupted")
            yield session
        finally:
            with self._lock:
                self._open.discard(session)
            session.close()

    def _visited(self, host: Host, visit: Callable[[HostSession], Found]) -> Found:
        try:
            with self._session(host) as session:
                return visit(session)
        except HostProblem as e:
            return Found(host, None, str(e))

    def run(
        self, hosts: Sequence[Host], visit: Callable[[HostSession], Found], each: Callable[[], None]
    ) -> Iterator[Found]:
        """Visit all hosts; yields them as they are done and calls `each` in between."""
        pool = ThreadPoolExecutor(max(1, min(AT_ONCE, len(hosts))))
        try:
            pending = {pool.submit(self._visited, host, visit) for host in hosts}
            while pending:
                done, pending = wait(pending, 0.05, FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                each()
        finally:
            with self._lock:
                self._stopped = True
                sessions = list(self._open)
            for session in sessions:
                session.hang_up()
            pool.shutdown(wait=True, cancel_futures=True)


def with_patience(server_options: list[str]) -> list[str]:
    """The options with how long an agent may be silent, if they do not say it."""
    if "--lost-after" in server_options:
        return server_options
    words = dict(itertools.pairwise(server_options))
    heartbeat_s = float(words.get("--heartbeat", credentials.HEARTBEAT_S))
    return [*server_options, "--lost-after", str(max(LOST_AFTER_S, 3 * heartbeat_s))]


def own_library() -> str:
    """This machine's MPI, for comparison; empty if none can be loaded."""
    result = probe_library(LIBRARY_WITHIN_S)
    return result.detail if result.ok else ""


def _check(cluster: ClusterShape, host: Host, address: str, library: str, mark: str) -> Check:
    # A home that was named here is meant there, too; the default is each machine's own.
    home = str(Home.default().root) if os.environ.get("DQ_HOME") else ""
    return Check(
        name=host.name,
        protocol=m.PROTOCOL,
        version=__version__,
        now_s=time.time(),
        address=address,
        library=library,
        home=host.home or home,
        own_home=bool(host.home),
        processors=host.processors or 0,
        network=cluster.network,
        cluster=mark,
    )


def examine(cluster: ClusterShape) -> Iterator[Found]:
    """Look at every host without starting anything (`dq doctor --cluster`)."""
    library = own_library()
    place = network.server_place(cluster.network, [h.name for h in cluster.hosts])
    port = network.free_port(cluster.network, place.address)
    # Somebody has to listen where the server would, for the hosts to try.
    with socket.create_server(
        (str(place.address), port),
        family=socket.AF_INET6 if place.address.version == 6 else socket.AF_INET,
        backlog=4 * AT_ONCE,
    ) as listener:
        listener.setblocking(False)

        def accept() -> None:
            with suppress(BlockingIOError):
                while True:
                    listener.accept()[0].close()

        def visit(session: HostSession) -> Found:
            address = endpoint(str(place.address), port)
            check = _check(cluster, session.host, address, library, "")
            return _judged(session.host, session.ask(check, MachineFacts))

        yield from _Visits().run(cluster.hosts, visit, accept)


def _judged(host: Host, facts: MachineFacts) -> Found:
    problem = "; ".join(facts.problems)
    return Found(host, facts, f"{host.name}: {problem}" if problem else "")


def bring_up(
    home: Home,
    cluster: ClusterShape,
    server_options: list[str],
    say: Say,
    *,
    address: str | None = None,
    need_all: bool = False,
) -> Brought:
    """Server here, an agent on each host; returns once all that can be used have reported.

    `say` gets every host that cannot. DQError, and nothing is left, if none can (or, with
    `need_all`, if one cannot). Agents that have outlived their server, and their jobs, go on.
    """
    begun = not noted_hosts(home)
    if address is None:
        place = network.server_place(cluster.network, [h.name for h in cluster.hosts])
        wanted = cluster.network
        port = last_port(home, wanted, place.address) or network.free_port(wanted, place.address)
        address = endpoint(str(place.address), port)
    elif not is_remote(address) and cluster.network.interface != network.LOOPBACK:
        raise UsageError(f"--address {address}: the hosts do not reach it")
    names = ",".join(h.name for h in cluster.hosts)
    described = msgspec.json.encode(cluster.network).decode()
    words = ["--address", address, "--expected", names, "--network", described]
    info = local.start_server(home, [*with_patience(server_options), *words])
    try:
        up, problems = start_agents(home, cluster, say)
        require(len(up), len(cluster.hosts), "so the cluster is not up", need_all=need_all)
    except BaseException:
        with suppress(DQError):
            if begun:
                bring_down(home, force=True, say=say)
            else:
                local.stop_server(home)
        raise
    return Brought(info, [f.host.name for f in up], processors_of(up), problems)


def processors_of(found: Sequence[Found]) -> int:
    """Processors of hosts in use."""
    return sum(f.facts.processors for f in found if f.facts is not None)


def require(up: int, hosts: int, so: str, *, need_all: bool) -> None:
    """DQError that ends in `so` if no host can be used, or not all of them where all are needed."""
    if up == 0:
        raise DQError(f"none of the {hosts} hosts can be used, {so}")
    if need_all and up < hosts:
        raise DQError(f"{hosts - up} of {hosts} hosts cannot be used, {so}")


def nodes_there(connection: Connection) -> dict[str, int]:
    """Processors of each node that has an agent, also of one that drains."""
    nodes = ask(connection, m.NodesQuery())
    return {n["name"]: n["processors"] for n in nodes if n["state"] not in ("lost", "left")}


def last_port(home: Home, wanted: network.Network, address: network.IP) -> int | None:
    """The port of this home's last server, which agents that are still there look for."""
    try:
        text = (home.root / "address").read_text().strip()
    except (OSError, ValueError):
        return None
    if network.ip_of(text) != address:
        return None
    port, ports = int(host_and_port(text)[1]), wanted.port_range()
    return port if ports is None or ports[0] <= port <= ports[1] else None


def start_agents(home: Home, cluster: ClusterShape, say: Say) -> tuple[list[Found], list[str]]:
    """Visit all hosts; those in use, in the order of the file, and the problems of the others."""
    before = {host.name: host for host in noted_hosts(home)}
    secret, library = credentials.of_home(home), own_library()
    reported = threading.Condition()
    names_up: set[str] = set()

    def visit(session: HostSession) -> Found:
        host = session.host
        mark = f"{secret.server_public} {host.name}"
        check = _check(cluster, host, secret.address, library, mark)
        found = _judged(host, session.ask(check, MachineFacts))
        if found.problem or found.facts is None:
            return found
        begin = Begin(
            name=host.name,
            home=found.facts.home,
            processors=found.facts.processors,
            speed=host.speed,
            credentials=secret,
            memory=host.memory,
            gpus=host.gpus,
            features=host.features,
        )
        session.ask(begin, Begun)
        _wait_for_report(session, names_up, reported)
        session.tell(Keep())
        return found

    found: list[Found] = []
    with closing(Connection.to(home)) as connection:

        def look() -> None:
            there = nodes_there(connection)
            with reported:
                names_up.update(there)
                reported.notify_all()

        for visited in _Visits().run(cluster.hosts, visit, look):
            found.append(visited)
            if visited.problem:
                say(visited.problem)
            else:
                now = {f.host.name: _with_home(f) for f in found if not f.problem}
                _note_hosts(home, list((before | now).values()))
            for text in visited.facts.notes if visited.facts is not None else ():
                say(f"{visited.host.name}: {text}")
    order = {host.name: index for index, host in enumerate(cluster.hosts)}
    found.sort(key=lambda f: order[f.host.name])
    return [f for f in found if not f.problem], [f.problem for f in found if f.problem]


def _wait_for_report(
    session: HostSession, names_up: set[str], reported: threading.Condition
) -> None:
    """Until the server has the node; HostProblem if the agent ends, or takes too long."""
    until_s = time.monotonic() + REPORTS_WITHIN_S
    while time.monotonic() < until_s:
        with reported:
            if session.host.name in names_up:
                return
            reported.wait(0.2)
        answer = session.next(0.0)
        if isinstance(answer, Failed):
            raise session.problem(f"its agent failed: {answer.why}")
    raise session.problem(
        f"its agent has not reported within {REPORTS_WITHIN_S:g} s: see its log there"
    )


# --- hosts that may have an agent, and their end ----------------------------------------------


def _note_file(home: Home) -> Path:
    return home.root / "hosts.json"


def _with_home(found: Found) -> Host:
    assert found.facts is not None
    return msgspec.structs.replace(found.host, home=found.facts.home)


def _note_hosts(home: Home, hosts: Sequence[Host]) -> None:
    write_private(_note_file(home), msgspec.json.encode(list(hosts)).decode())


def noted_hosts(home: Home) -> list[Host]:
    """Hosts with an agent that this home's `dq up` has started and `dq down` has not ended."""
    try:
        return struct_of(_note_file(home), list[Host], "it is not needed")
    except (OSError, UsageError):
        return []


def unconfirmed(home: Home) -> list[str] | None:
    """Agents that did not answer when the last server dismissed them; None if it never did."""
    try:
        return struct_of(home.root / "unconfirmed.json", list[str], "it is not needed")
    except (OSError, UsageError):
        return None


def bring_down(home: Home, *, force: bool, say: Say) -> None:
    """`dq down`: over DQ's own connections, and by ssh for agents that are not reached by them.

    DQError names what could not be ended.
    """
    hosts = {host.name: host for host in noted_hosts(home)}
    (home.root / "unconfirmed.json").unlink(missing_ok=True)
    here = local_agents.running_agents(home).keys()  # whose end shutdown.bring_down sees to
    try:
        shutdown.bring_down(home, force=force)
    except NoServer:
        if not hosts:
            raise
    left = unconfirmed(home)
    wanted = [h for name, h in hosts.items() if left is None or name in left]
    elsewhere = set(left or ()) - hosts.keys() - here
    strangers = [name for name in sorted(elsewhere) if not _ran_here(home, name)]
    failed = [problem for problem in _end_by_ssh(wanted) if problem]
    _note_file(home).unlink(missing_ok=True)
    problems = failed + [
        f"{name}: its agent did not answer; where it runs, dq agent stop {name} ends it"
        for name in strangers
    ]
    if failed:
        _note_hosts(home, [h for h in wanted if any(p.startswith(f"{h.name}: ") for p in failed)])
    for problem in problems:
        say(problem)
    if problems:
        raise DQError("the server is down; not every agent is: see above")


def _ran_here(home: Home, name: str) -> bool:
    """Whether an agent was one of this machine: one that came back while all went down, too."""
    try:
        info = object_of(home.agent(name) / "agent.json")
    except (OSError, ValueError):
        return False
    return bool(info.get("machine") == machine())


def _end_by_ssh(hosts: Sequence[Host]) -> list[str]:
    """End the agents of these hosts; one problem for each that could not be, else empty text."""

    def visit(session: HostSession) -> Found:
        host = session.host
        ended = session.ask(End(host.name, host.home), HostEnded)
        left = f"{host.name}: processes {ended.left} cannot be ended" if ended.left else ""
        return Found(host, None, left)

    return [found.problem for found in _Visits().run(hosts, visit, lambda: None)]
