"""Applications launched on this agent's nodes: launched, killed, ended, and their output.

The agent of a job's first node runs MPI's launcher; the ranks on all nodes belong to proxies.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.base.launch import NOT_STARTED, LaunchError, check_program
from dq_client.base.opened import open_output
from dq_client.node.agent.context import Context
from dq_client.node.agent.holdings import HoldingRecord, Tree
from dq_client.node.agent.marks import Ranks, describe
from dq_client.node.agent.own_ranks import OwnRanks
from dq_client.node.agent.proxies import TORN_DOWN, Proxies
from dq_client.node.mpiexec.command import launch_command
from dq_client.node.ranks.marks import FILES

log = logging.getLogger("dq.agent")

LOG_PIECE_BYTES = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """How this agent starts MPI's launcher."""

    rsh: Path  # the dq-rsh program (launch.install_rsh)
    rsh_socket: Path
    interface: str = "lo"
    environment: dict[str, str] = field(default_factory=dict)  # set for every rank


class Applications:
    """What an agent does when it is told to launch, kill or read one, and when one has ended."""

    def __init__(
        self,
        context: Context,
        launcher: Launcher,
        proxies: Proxies,
        ranks: Ranks,
        own: OwnRanks,
    ) -> None:
        self._context, self._launcher, self._own = context, launcher, own
        self._proxies, self._ranks = proxies, ranks

    def launch(self, order: m.Launch) -> None:
        """An order to start one; a repeated one, or one that comes too late, changes nothing."""
        context = self._context
        known = context.holdings.get(order.job, order.instance) is not None
        if known or f"end {order.job}.{order.instance}" in context.reports:
            return  # a repeated order
        if (order.job, order.instance) in context.closed:
            return  # an order that was overtaken: the instance has been killed, or has ended
        if context.troubles.cannot_start():
            return  # the server orders it again with every heartbeat that does not show it
        log.info("job %d.%d: launching %s", order.job, order.instance, order.argv)
        try:
            held = self.start(order)
        except (LaunchError, OSError, ValueError) as e:  # ValueError: a NUL in argv or environment
            log.warning("job %d.%d cannot be launched: %s", order.job, order.instance, e)
            ended = m.AppEnded(
                job=order.job, instance=order.instance, exit_code=NOT_STARTED, error=str(e)
            )
            context.reports.add(f"end {order.job}.{order.instance}", ended)
            return
        started = m.AppStarted(order.job, order.instance, held.record.pid)
        context.reports.add(f"start {order.job}.{order.instance}", started)

    def start(self, order: m.Launch) -> Tree:
        """Start the application; LaunchError, OSError or ValueError if that is impossible."""
        context, launcher = self._context, self._launcher
        env = {**order.env, **context.owner.marks(process_tree.LAUNCHER)}
        check_program(order.argv, order.cwd, env)
        placement: dict[str, int] = {}
        for place in order.places:
            placement[place.host] = placement.get(place.host, 0) + 1
        launch = launch_command(
            order.argv,
            list(placement.items()),
            rsh=launcher.rsh,
            rsh_socket=launcher.rsh_socket,
            interface=launcher.interface,
        )
        folder = context.home.job(order.job)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return context.holdings.start(
            HoldingRecord(order.job, order.instance),
            launch.argv,
            order.cwd,
            {**launch.env, **launcher.environment, **env},
            folder / "out",
            folder / "err",
        )

    def kill(self, order: m.KillTree) -> None:
        """An order to end one with all its processes here, proxies too."""
        self._context.closed.close(order.job, order.instance)
        trees = self._context.holdings.of(order.job, order.instance)
        log.info("job %d.%d: killing %d trees", order.job, order.instance, len(trees))
        for held in trees:
            if not held.killed:
                held.terminate()

    def ended(self, held: Tree, code: int) -> None:
        """A launcher has ended; its job once its proxies have, too."""
        r, context = held.record, self._context
        key = f"end {r.job}.{r.instance}"
        if key in context.reports:
            return
        # mpiexec's own failure needs no second opinion; its 0 does (proxies.py).
        succeeded = self._proxies.all_succeeded(r.job, r.instance) if code == 0 else True
        if succeeded is None or not held.sweep():
            return  # not known yet, or processes are left: looked at again in the next turn
        lost = [] if succeeded else self._ranks.lost(r.job, r.instance)
        code = code if succeeded else TORN_DOWN
        log.info("job %d.%d ended with exit code %d", r.job, r.instance, code)
        context.closed.close(r.job, r.instance)
        self._proxies.forget(r.job, r.instance)
        why = describe(lost) if lost else ""
        ended = m.AppEnded(job=r.job, instance=r.instance, exit_code=code, error=why)
        context.reports.add(key, ended, held, context.usage.ended(held))

    def read_log(self, order: m.ReadLog) -> None:
        """An order to tell a piece of its output."""
        context = self._context
        name = order.stream if order.stream in FILES else "out"
        data = b""
        try:
            file = open_output(context.home.job(order.job) / name, os.O_RDONLY)
            with os.fdopen(file, "rb") as f:
                f.seek(order.offset)
                data = f.read(LOG_PIECE_BYTES)
        except OSError:
            pass  # nothing was written yet
        trees = context.holdings.trees.values()
        running = self._own.running(order.job) or any(
            t.running() for t in trees if t.record.job == order.job and not t.record.ranks
        )
        # A full piece is not the end, even of a job that has ended: there may be more behind it.
        end = not running and len(data) < LOG_PIECE_BYTES
        answer = m.LogAnswer(
            ticket=order.ticket,
            data=data,
            offset=order.offset + len(data),
            end=end,
            home=context.home.identity(),
        )
        context.send(answer)
