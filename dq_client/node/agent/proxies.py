"""MPI's proxies: programs that MPI's launcher wants run on a node, through `dq-rsh`.

    mpiexec → dq-rsh → agent of its node ── RemoteRun → server ── RunProxy → agent of that node
                          ↑ exit code ─────── ProxyEnded ← server ← RemoteEnded ─┘

A proxy on one of the agent's own nodes needs no server. Each of the four messages may be lost with
a server, so RemoteRun is repeated with every heartbeat: it passes through to the other agent, which
starts nothing twice and reports an end again.

MPICH 5.0.2's mpiexec looks at the exit codes of the first ranks alone, and only at those that it
has: when a rank that joined later dies and the job is torn down, mpiexec may exit with code 0. So a
job counts as done only if all its proxies have exited with 0, too. A proxy itself exits with 0 when
a rank ended without leaving the job and the proxy has killed that rank's neighbours: then the marks
of the ranks show it (marks.py).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection

import zmq

from dq_client.base import messages as m
from dq_client.base.launch import NOT_STARTED
from dq_client.node.agent.context import Context
from dq_client.node.agent.holdings import HoldingRecord, Tree
from dq_client.node.agent.marks import Ranks
from dq_client.node.agent.rsh_socket import Caller, RshRequest, RshSocket

log = logging.getLogger("dq.agent")

ENDED_RUNS_MAX = 10_000
TORN_DOWN = 255  # mpiexec's own code for it, when it notices
PROXY_GRACE_S = 1.0  # for the proxies of a launcher that has ended; it usually ends after them


class Proxies:
    """The callers of an agent, and the proxies that it runs for others."""

    def __init__(
        self, context: Context, ranks: Ranks, hosts: Collection[str], rsh: RshSocket | None
    ) -> None:
        self._context, self._ranks, self._rsh = context, ranks, rsh
        self._hosts = frozenset(hosts)  # what MPI calls the agent's own nodes
        self._reading: dict[int, Caller] = {}
        self._callers: dict[str, Caller] = {}  # by run id
        self._ended_runs: dict[str, int] = {}  # of other agents: run -> exit code
        self._failed: set[tuple[int, int]] = set()  # job, instance: a proxy failed
        self._launcher_ended_s: dict[tuple[int, int], float] = {}  # when it was seen
        self._succeeded: dict[tuple[int, int], bool] = {}  # what was found

    # --- who calls here -----------------------------------------------------------------------

    def serve(self, ready: dict[object, int], poller: zmq.Poller) -> None:
        """Accept connections of `dq-rsh` and read requests from those that are ready."""
        if self._rsh is not None and self._rsh.listener.fileno() in ready:
            caller = self._rsh.accept()
            self._reading[caller.fileno()] = caller
            poller.register(caller.fileno(), zmq.POLLIN)
        for fd, caller in list(self._reading.items()):
            if fd in ready and self._read(caller):
                poller.unregister(fd)
                del self._reading[fd]

    def _read(self, caller: Caller) -> bool:
        """Read what is there; whether the request was complete (or is nonsense)."""
        try:
            request = caller.read()
            if request is None:
                return False  # more is to come; nobody waits for it here
            job, instance = int(request.env["DQ_JOB_ID"]), int(request.env["DQ_JOB_INSTANCE"])
            run = f"{os.getpid():x}.{time.monotonic_ns():x}"
            self.call(run, caller, job, instance, request)
        except (EOFError, OSError, ValueError, KeyError) as e:
            caller.answer(error=f"the agent does not understand: {e}")
        return True

    def call(self, run: str, caller: Caller, job: int, instance: int, asked: RshRequest) -> None:
        """Start a proxy, here or through the server; ValueError if the job is not of this agent."""
        if not self._context.holdings.of(job, instance):
            raise ValueError(f"job {job}.{instance} does not run here")
        self._callers[run] = caller
        caller.of = (job, instance)
        if asked.host in self._hosts:
            order = m.RunProxy(run=run, job=job, instance=instance, argv=asked.argv, env=asked.env)
            self.run(order)
        else:
            caller.call = m.RemoteRun(
                run=run,
                job=job,
                instance=instance,
                host=asked.host,
                argv=asked.argv,
                env=asked.env,
            )
            caller.request = self._context.send(caller.call)

    def repeat_calls(self) -> None:
        """Ask again for proxies on other nodes that have not ended as far as we know."""
        for caller in self._callers.values():
            if caller.call is not None:
                caller.request = self._context.send(caller.call)

    def answered(self, message: m.Reply) -> None:
        """The server's reply to a RemoteRun: a refusal counts unless it was accepted before."""
        for run, caller in list(self._callers.items()):
            if caller.call is None or caller.request != message.id:
                continue
            if not isinstance(message.body, m.Error):
                # From now on only the proxy's end is an answer. A later refusal (the job ends just
                # now) must not make hydra take a command for not run that does run.
                caller.accepted = True
            elif not caller.accepted:
                caller.answer(error=message.body.text)
                del self._callers[run]

    def ended_elsewhere(self, order: m.ProxyEnded) -> None:
        """A proxy on another node has ended."""
        caller = self._callers.pop(order.run, None)
        if caller is not None and order.error:
            caller.answer(error=order.error)
        elif caller is not None:
            caller.answer(exit_code=order.exit_code)
            if order.exit_code:
                self._failed.add(caller.of)

    def all_succeeded(self, job: int, instance: int) -> bool | None:
        """Whether all proxies of a launcher that has ended exited with 0; None: not known yet."""
        of = job, instance
        if of not in self._succeeded:
            now = self._context.clock()
            in_grace = now - self._launcher_ended_s.setdefault(of, now) < PROXY_GRACE_S
            trees = [t for t in self._context.holdings.of(*of) if t.is_proxy]
            failed = of in self._failed or any(not t.killed and t.exit_code() for t in trees)
            failed = failed or bool(self._ranks.lost(*of))
            awaited = any(t.running() for t in trees) or any(
                caller.of == of for caller in self._callers.values()
            )
            if in_grace and awaited and not failed:
                return None
            self._succeeded[of] = not failed
        return self._succeeded[of]

    def forget(self, job: int, instance: int) -> None:
        """The job is over and its launcher gone: drop what was kept for it."""
        self._failed.discard((job, instance))
        self._launcher_ended_s.pop((job, instance), None)
        self._succeeded.pop((job, instance), None)
        for run, caller in list(self._callers.items()):
            if caller.of == (job, instance):
                caller.close()
                del self._callers[run]

    # --- what runs here -----------------------------------------------------------------------

    def run(self, order: m.RunProxy) -> None:
        """Start a proxy; a repeated order changes nothing, or reports the end again."""
        context = self._context
        if context.holdings.get(order.job, order.instance, order.run) is not None:
            return
        if order.run in self._ended_runs:
            self._report_end(order.run, self._ended_runs[order.run], order.asker)
            return
        if (order.job, order.instance) in context.closed:
            self._not_started(order, f"job {order.job}.{order.instance} is over on this node")
            return
        record = HoldingRecord(order.job, order.instance, order.run, order.asker)
        # The rank's own environment comes through the proxy; this is the proxy's.
        env = {"PATH": os.environ.get("PATH", ""), **order.env, **context.owner.marks()}
        try:
            out = context.home.job(order.job) / "proxies"
            out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            context.holdings.start(record, order.argv, "/", env, out, out)
        except (OSError, ValueError) as e:
            self._not_started(order, str(e))

    def _not_started(self, order: m.RunProxy, why: str) -> None:
        caller = self._callers.pop(order.run, None)
        if caller is not None:
            caller.answer(error=why)
        else:
            self._report_end(order.run, NOT_STARTED, order.asker, error=why)

    def ended(self, held: Tree, code: int) -> None:
        """A proxy that ran here has ended."""
        if held.abandoned() and not held.sweep():
            return  # looked at again in a moment
        run, of = held.record.run, (held.record.job, held.record.instance)
        log.info("job %d.%d: a proxy ended with %d", *of, code)
        self._ranks.look()  # a lost rank is reported after a grace period, which begins here
        lost = self._ranks.lost(*of)
        if (code or lost) and not held.killed:
            self._failed.add(of)
        caller = self._callers.pop(run, None)
        if caller is not None:
            caller.answer(exit_code=code)
            self._context.holdings.drop(held)
        elif f"proxy {run}" not in self._context.reports:
            code = TORN_DOWN if lost and not code else code
            self._ended_runs[run] = code
            if len(self._ended_runs) > ENDED_RUNS_MAX:
                del self._ended_runs[next(iter(self._ended_runs))]
            self._report_end(run, code, held.record.asker, held=held)

    def _report_end(
        self, run: str, code: int, asker: str, *, error: str = "", held: Tree | None = None
    ) -> None:
        body = m.RemoteEnded(run=run, exit_code=code, error=error, asker=asker)
        self._context.reports.add(f"proxy {run}", body, held)
