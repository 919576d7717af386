"""The agent's loop: orders in, processes started and ended, reports out until acknowledged.

It owns the processes, the server does not: they survive the server, and through their keepers also
the agent (holdings.py). Everything the agent reports it reports again until the server has
acknowledged it, because the server acknowledges only what its journal holds.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from dq_client import messages as m
from dq_client.agent import tree
from dq_client.agent.holdings import Holdings, Record, Tree
from dq_client.agent.rsh import Caller, RshRequest, RshSocket
from dq_client.connection import Connection
from dq_client.errors import DQError, NoServer
from dq_client.home import Home
from dq_client.launch import LaunchError, install_rsh, launch_command

log = logging.getLogger("dq.agent")

TURN_S = 0.05  # between looks at what cannot wake the loop
DEPARTURE_TURN_S = 0.005  # a retiring rank takes milliseconds, and its processor is wanted
REPORT_AGAIN_S = 2.0
ENDED_RUNS_MAX = OVER_MAX = 10_000
UNSENT = "unsent"
LEAVE_WITHIN_S = 30.0  # for retiring ranks; whoever stays longer is killed
LOG_PIECE_BYTES = 256 << 10


class WrongServer(DQError):
    """This server will never take this agent, for the reason it gave."""


@dataclass(slots=True)
class Report:
    """Something the server must acknowledge."""

    body: m.RequestBody
    sent_s: float = 0.0
    request: str = ""
    held: Tree | None = None  # dropped once the report is acknowledged


@dataclass(slots=True)
class Departure:
    """Processes that are about to leave processors (order Vacate)."""

    order: m.Vacate
    since_s: float


@dataclass(slots=True)
class Agent:
    """One agent for one or more nodes of this machine."""

    home: Home
    name: str
    nodes: list[m.NodeInfo]
    connection: Connection
    heartbeat_s: float = 2.0
    interface: str = "lo"
    clock: Callable[[], float] = time.monotonic
    session: int = 0  # what the last welcome said
    retired: bool = False
    reports: dict[str, Report] = field(default_factory=dict)
    departures: list[Departure] = field(default_factory=list)
    callers: dict[str, Caller] = field(default_factory=dict)  # by run id
    ended_runs: dict[str, int] = field(default_factory=dict)  # of other agents: run -> exit code
    over: dict[int, int] = field(default_factory=dict)  # job -> instance that must not start now
    environment: dict[str, str] = field(default_factory=dict)  # set for every rank
    each_beat: Callable[[], None] = field(default=lambda: None)
    wake: socket.socket | None = None  # readable after a signal: a child may have ended
    holdings: Holdings = field(init=False)
    rsh: RshSocket = field(init=False)
    rsh_program: Path = field(init=False)
    _hello: str = ""
    _ending: bool = False  # a tree is being ended, or has ended and is being cleared
    _last_beat: float = 0.0
    _beat_ids: set[str] = field(default_factory=set)
    _reading: dict[int, Caller] = field(default_factory=dict)

    def __post_init__(self) -> None:
        folder = self.home.agent(self.name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.holdings = Holdings(folder / "holdings", self._marks())
        self.rsh = RshSocket(folder)
        self.rsh_program = install_rsh(folder)

    # --- the loop ---------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until retired."""
        poller = zmq.Poller()
        poller.register(self.connection.socket, zmq.POLLIN)
        poller.register(self.connection.monitor, zmq.POLLIN)
        poller.register(self.rsh.listener.fileno(), zmq.POLLIN)
        if self.wake is not None:
            poller.register(self.wake.fileno(), zmq.POLLIN)
        self._say_hello()
        while not self.retired:
            ready = dict(poller.poll(int(1000 * self._patience_s())))
            if self.wake is not None and self.wake.fileno() in ready:
                self.wake.recv(4096)
            self._serve_callers(ready, poller)
            self.turn()
        self.close()

    def turn(self) -> None:
        """What there is to do at this moment."""
        self._look_at_line()
        self._take_in()
        self._watch()
        self._report()
        self._beat()

    def _patience_s(self) -> float:
        """How long the loop may sleep unless something wakes it.

        Many agents may share a machine with the ranks they started, so an agent with nothing to
        look after wakes for its heartbeats only.
        """
        if any(departure.order.pids for departure in self.departures):
            return DEPARTURE_TURN_S
        unseen = self.wake is None or self.holdings.adopted or self.departures
        if self.reports or (unseen and (self.holdings.trees or self.departures)):
            return TURN_S
        if self._ending:
            return TURN_S
        return max(0.0, self._last_beat + self.heartbeat_s - self.clock()) + 0.001

    def close(self) -> None:
        """End what is left and leave."""
        for held in self.holdings.trees.values():
            held.terminate()
        self.rsh.close()
        self.connection.close()

    def _take_in(self) -> None:
        """All messages that are there. None of them may end the agent: its jobs depend on it."""
        while True:
            try:
                message = self.connection.receive()
                if message is None:
                    return
                self._message(message)
                self._beat()  # a hundred launches take longer than the server has patience
            except WrongServer:
                raise
            except Exception:
                log.exception("a message could not be carried out")

    def _look_at_line(self) -> None:
        """A new connection leads to a server that may not know us: report at once."""
        before = self.connection.handshakes
        try:
            self.connection.check_refused()
        except DQError as e:
            if not self.session:  # never let in: a wrong key stays wrong
                raise
            log.warning("%s", e)
        if before and self.connection.handshakes > before:
            self._say_hello()

    def _send(self, body: m.RequestBody) -> str:
        """Send; an empty id if the queue to a server that is away is full (it is sent again)."""
        try:
            return self.connection.send(body)
        except NoServer as e:
            log.warning("%s", e)
            return ""

    def _say_hello(self) -> None:
        hello = m.AgentHello(m.PROTOCOL, self.name, self.nodes, self._held(), os.getpid())
        self._hello = self._send(hello) or UNSENT
        self._last_beat = self.clock()

    def _held(self) -> list[m.Holding]:
        return [
            m.Holding(r.job, r.instance, not t.is_proxy, r.pid, r.create_time, t.running())
            for t in self.holdings.trees.values()
            for r in (t.record,)
        ]

    def _beat(self) -> None:
        now = self.clock()
        if now - self._last_beat < self.heartbeat_s:
            return
        if self._hello:  # no welcome yet: the server was away
            self._say_hello()
            return
        self._last_beat = now
        self.each_beat()
        self._beat_ids = {self._send(m.Heartbeat(self.session, self._held(), os.getloadavg()[0]))}
        self._call_again()

    def _message(self, message: m.Reply | m.Order) -> None:
        if isinstance(message, m.Order):
            if message.session == self.session:  # else: of another server, or of another life
                self._order(message.body)
        elif message.id == self._hello:
            if isinstance(message.body, m.Welcome):
                self._hello, self.session = "", message.body.session
                self._last_beat = float("-inf")  # what is held is told at once
                log.info("welcomed by the server, epoch %d", message.body.epoch)
            elif isinstance(message.body, m.Error) and message.body.code != "later":
                raise WrongServer(message.body.text)
        elif message.id in self._beat_ids:
            if isinstance(message.body, m.Error):  # a new server does not know us yet
                self._say_hello()
        else:
            self._acknowledged(message)

    def _acknowledged(self, message: m.Reply) -> None:
        if isinstance(message.body, m.Error) and message.body.code == "later":
            return  # not saved, or we are not known yet: it is sent again
        self._answered_call(message)
        for key, report in list(self.reports.items()):
            if report.request == message.id:
                if isinstance(message.body, m.Error):
                    log.warning("%s: %s", key, message.body.text)
                del self.reports[key]
                if report.held is not None:
                    self.holdings.drop(report.held)

    def _report(self) -> None:
        now = self.clock()
        for report in self.reports.values():
            if now - report.sent_s > REPORT_AGAIN_S:
                report.sent_s, report.request = now, self._send(report.body)

    def report(self, key: str, body: m.RequestBody, held: Tree | None = None) -> None:
        """Tell the server, and again until it has acknowledged."""
        if key not in self.reports:
            self.reports[key] = Report(body, held=held)

    # --- orders -----------------------------------------------------------------------------

    def _order(self, body: m.OrderBody) -> None:
        match body:
            case m.Launch():
                self._launch(body)
            case m.KillTree():
                self._kill(body)
            case m.Vacate():
                same = (d.order.job == body.job and d.order.processors == body.processors
                        for d in self.departures)  # fmt: skip
                if not any(same):
                    self.departures.append(Departure(body, self.clock()))
            case m.RunProxy():
                self._run_proxy(body)
            case m.ProxyEnded():
                caller = self.callers.pop(body.run, None)
                if caller is not None and body.error:
                    caller.answer(error=body.error)
                elif caller is not None:
                    caller.answer(exit_code=body.exit_code)
            case m.ReadLog():
                self._read_log(body)
            case m.Retire():
                self.retired = True

    def _launch(self, order: m.Launch) -> None:
        known = self.holdings.get(order.job, order.instance) is not None
        if known or f"end {order.job}.{order.instance}" in self.reports:
            return  # a repeated order
        if order.instance <= self.over.get(order.job, 0):
            return  # an order that was overtaken: the instance has been killed, or has ended
        log.info("job %d.%d: launching %s", order.job, order.instance, order.argv)
        try:
            held = self._start(order)
        except (LaunchError, OSError, ValueError) as e:  # ValueError: a NUL in argv or environment
            log.warning("job %d.%d cannot be launched: %s", order.job, order.instance, e)
            ended = m.AppEnded(order.job, order.instance, 127, str(e))
            self.report(f"end {order.job}.{order.instance}", ended)
            return
        started = m.AppStarted(order.job, order.instance, held.record.pid)
        self.report(f"start {order.job}.{order.instance}", started)

    def _start(self, order: m.Launch) -> Tree:
        """Start the application; LaunchError, OSError or ValueError if that is impossible."""
        env = {**order.env, **self._marks()}
        check_program(order.argv, order.cwd, env)
        placement: dict[str, int] = {}
        for place in order.places:
            placement[place.host] = placement.get(place.host, 0) + 1
        launch = launch_command(
            order.argv,
            list(placement.items()),
            rsh=self.rsh_program,
            rsh_socket=self.rsh.path,
            interface=self.interface,
        )
        folder = self.home.job(order.job)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.holdings.start(
            Record(order.job, order.instance),
            launch.argv,
            order.cwd,
            {**launch.env, **self.environment, **env},
            folder / "out",
            folder / "err",
        )

    def _is_over(self, job: int, instance: int) -> None:
        """No order to launch this instance counts any more, however late it comes."""
        self.over[job] = max(instance, self.over.pop(job, 0))
        if len(self.over) > OVER_MAX:
            del self.over[next(iter(self.over))]

    def _marks(self) -> dict[str, str]:
        """What tells a process of this agent from all others (tree.py)."""
        return tree.owner_marks(self.home.root, self.name)

    def _kill(self, order: m.KillTree) -> None:
        self._is_over(order.job, order.instance)
        trees = self.holdings.of(order.job, order.instance)
        log.info("job %d.%d: killing %d trees", order.job, order.instance, len(trees))
        for held in trees:
            if not held.killed:
                held.terminate()

    def _run_proxy(self, order: m.RunProxy) -> None:
        if self.holdings.get(order.job, order.instance, order.run) is not None:
            return
        if order.run in self.ended_runs:
            body = m.RemoteEnded(order.run, self.ended_runs[order.run], asker=order.asker)
            self.report(f"proxy {order.run}", body)
            return
        folder = self.home.job(order.job)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        record = Record(order.job, order.instance, order.run, order.asker)
        # The rank's own environment comes through the proxy; this is the proxy's.
        env = {"PATH": os.environ.get("PATH", ""), **order.env, **self._marks()}
        out = folder / "proxies"
        try:
            self.holdings.start(record, order.argv, "/", env, out, out)
        except (OSError, ValueError) as e:
            self._proxy_failed(order, str(e))

    def _proxy_failed(self, order: m.RunProxy, why: str) -> None:
        caller = self.callers.pop(order.run, None)
        if caller is not None:
            caller.answer(error=why)
        else:
            ended = m.RemoteEnded(order.run, 127, why, order.asker)
            self.report(f"proxy {order.run}", ended)

    def _read_log(self, order: m.ReadLog) -> None:
        name = "err" if order.stream == "err" else "out"
        data = b""
        try:
            with (self.home.job(order.job) / name).open("rb") as f:
                f.seek(order.offset)
                data = f.read(LOG_PIECE_BYTES)
        except OSError:
            pass  # nothing was written yet
        running = any(
            t.running() for t in self.holdings.trees.values() if t.record.job == order.job
        )
        end = not running and len(data) < LOG_PIECE_BYTES
        offset = order.offset + len(data)
        self._send(m.LogAnswer(order.ticket, data, offset, end))

    # --- MPI's launcher ---------------------------------------------------------------------

    def _serve_callers(self, ready: dict[object, int], poller: zmq.Poller) -> None:
        if self.rsh.listener.fileno() in ready:
            caller = self.rsh.accept()
            self._reading[caller.fileno()] = caller
            poller.register(caller.fileno(), zmq.POLLIN)
        for fd, caller in list(self._reading.items()):
            if fd in ready and self._read_caller(caller):
                poller.unregister(fd)
                del self._reading[fd]

    def _read_caller(self, caller: Caller) -> bool:
        """Read what is there; whether the request was complete (or is nonsense)."""
        try:
            request = caller.read()
            if request is None:
                return False  # more is to come; nobody waits for it here
            self._serve_caller(caller, request)
        except (EOFError, OSError, ValueError, KeyError) as e:
            caller.answer(error=f"the agent does not understand: {e}")
        return True

    def _serve_caller(self, caller: Caller, request: RshRequest) -> None:
        job, instance = int(request.env["DQ_JOB_ID"]), int(request.env["DQ_JOB_INSTANCE"])
        if not self.holdings.of(job, instance):
            raise ValueError(f"job {job}.{instance} does not run here")
        run = f"{os.getpid():x}.{time.monotonic_ns():x}"
        self.callers[run] = caller
        if request.host in {n.host for n in self.nodes}:
            self._run_proxy(m.RunProxy(run, job, instance, request.argv, request.env))
        else:
            caller.call = m.RemoteRun(run, job, instance, request.host, request.argv, request.env)
            caller.request = self._send(caller.call)

    def _call_again(self) -> None:
        """Ask again for proxies on other nodes that have not ended as far as we know.

        Each of the four messages involved may be lost with a server. A repeated RemoteRun passes
        through to the other agent, which starts nothing twice and tells an end again.
        """
        for caller in self.callers.values():
            if caller.call is not None:
                caller.request = self._send(caller.call)

    def _answered_call(self, message: m.Reply) -> None:
        """The server's word on a RemoteRun: a first refusal ends it, the end comes as an order."""
        for run, caller in list(self.callers.items()):
            if caller.call is None or caller.request != message.id:
                continue
            if not isinstance(message.body, m.Error):
                caller.accepted = True
            elif not caller.accepted:
                caller.answer(error=message.body.text)
                del self.callers[run]

    # --- what happens to processes ----------------------------------------------------------

    def _watch(self) -> None:
        self.holdings.reap()
        self._ending = False
        for held in list(self.holdings.trees.values()):
            code = held.exit_code()
            self._ending |= held.killed or code is not None
            if code is None or held.running():
                continue
            if held.is_proxy:
                self._proxy_ended(held, code)
            else:
                self._job_ended(held, code)
        self.departures = [d for d in self.departures if not self._departed(d)]

    def _job_ended(self, held: Tree, code: int) -> None:
        r = held.record
        key = f"end {r.job}.{r.instance}"
        if key not in self.reports and held.sweep():
            log.info("job %d.%d ended with exit code %d", r.job, r.instance, code)
            self._is_over(r.job, r.instance)
            self.report(key, m.AppEnded(r.job, r.instance, code), held)

    def _proxy_ended(self, held: Tree, code: int) -> None:
        run = held.record.run
        caller = self.callers.pop(run, None)
        if caller is not None:
            caller.answer(exit_code=code)
            self.holdings.drop(held)
        elif f"proxy {run}" not in self.reports:
            self.ended_runs[run] = code
            if len(self.ended_runs) > ENDED_RUNS_MAX:
                del self.ended_runs[next(iter(self.ended_runs))]
            self.report(f"proxy {run}", m.RemoteEnded(run, code, asker=held.record.asker), held)

    def _departed(self, departure: Departure) -> bool:
        """Whether the processors are empty; says so to the server."""
        order = departure.order
        if order.pids:
            # Only its own processes keep a job's processors: a pid may be in use again, or a lie.
            left = self._still_there(order)
            if left and self.clock() - departure.since_s > LEAVE_WITHIN_S:
                log.warning("job %d: killing %s, which do not leave", order.job, left)
                tree.kill(left)
            gone = not left
        else:
            trees = self.holdings.of(order.job, order.instance)
            for held in trees:
                if not held.killed:
                    held.terminate()
            gone = not any(t.running() for t in trees)
            if gone and trees:
                gone = all(t.sweep() for t in trees)
            elif gone:
                gone = self._clear(order)
        if gone:
            key = f"vacated {order.job} {order.processors[0]}"
            self.report(key, m.Vacated(order.job, order.processors))
        return gone

    def _still_there(self, order: m.Vacate) -> list[int]:
        """Of the processes that were about to leave, those that have not."""
        left = [pid for pid in order.pids if tree.exists(pid)]
        return tree.belonging(left, order.job, order.instance, self.home.root) if left else []

    def _clear(self, order: m.Vacate) -> bool:
        """Kill what is left of an instance that this agent knows nothing of; whether all is."""
        left = tree.members(order.job, order.instance, self._marks())
        tree.kill(left)
        return not left


def check_program(argv: list[str], cwd: str, env: dict[str, str]) -> None:
    """Find out before MPI does: a missing program would take the launcher down with it."""
    if not Path(cwd).is_dir():
        raise LaunchError(f"no such folder: {cwd}")
    program = argv[0]
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if "/" in program:
        candidate = Path(cwd, program)
        found = str(candidate) if os.access(candidate, os.X_OK) and candidate.is_file() else None
    if found is None:
        raise LaunchError(f"no such program: {program}")
