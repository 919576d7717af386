"""The applications of jobs that have processes here: launched, killed, ended, and their output.

Where an application is launched, its launcher runs; its ranks on other nodes belong to proxies.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from dq_client import messages as m
from dq_client.agent import tree
from dq_client.agent.holdings import Record, Tree
from dq_client.agent.proxies import TORN_DOWN
from dq_client.agent.ranks import describe
from dq_client.launch import LaunchError, launch_command

if TYPE_CHECKING:
    from dq_client.agent.agent import Agent

log = logging.getLogger("dq.agent")

LOG_PIECE_BYTES = 256 << 10


class Applications:
    """What an agent does when it is told to launch, kill or read one, and when one has ended."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def launch(self, order: m.Launch) -> None:
        """An order to start one; a repeated one, or one that comes too late, changes nothing."""
        agent = self._agent
        known = agent.holdings.get(order.job, order.instance) is not None
        if known or f"end {order.job}.{order.instance}" in agent.reports:
            return  # a repeated order
        if agent.knows_over(order.job, order.instance):
            return  # an order that was overtaken: the instance has been killed, or has ended
        log.info("job %d.%d: launching %s", order.job, order.instance, order.argv)
        try:
            held = self.start(order)
        except (LaunchError, OSError, ValueError) as e:  # ValueError: a NUL in argv or environment
            log.warning("job %d.%d cannot be launched: %s", order.job, order.instance, e)
            ended = m.AppEnded(order.job, order.instance, 127, str(e))
            agent.reports.add(f"end {order.job}.{order.instance}", ended)
            return
        started = m.AppStarted(order.job, order.instance, held.record.pid)
        agent.reports.add(f"start {order.job}.{order.instance}", started)

    def start(self, order: m.Launch) -> Tree:
        """Start the application; LaunchError, OSError or ValueError if that is impossible."""
        agent = self._agent
        env = {**order.env, **agent.owner.marks(tree.LAUNCHER)}
        check_program(order.argv, order.cwd, env)
        placement: dict[str, int] = {}
        for place in order.places:
            placement[place.host] = placement.get(place.host, 0) + 1
        launch = launch_command(
            order.argv,
            list(placement.items()),
            rsh=agent.rsh_program,
            rsh_socket=agent.rsh.path,
            interface=agent.interface,
        )
        folder = agent.home.job(order.job)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return agent.holdings.start(
            Record(order.job, order.instance),
            launch.argv,
            order.cwd,
            {**launch.env, **agent.environment, **env},
            folder / "out",
            folder / "err",
        )

    def kill(self, order: m.KillTree) -> None:
        """An order to end one with all its processes here, proxies too."""
        self._agent.is_over(order.job, order.instance)
        trees = self._agent.holdings.of(order.job, order.instance)
        log.info("job %d.%d: killing %d trees", order.job, order.instance, len(trees))
        for held in trees:
            if not held.killed:
                held.terminate()

    def ended(self, held: Tree, code: int) -> None:
        """A launcher has ended; its job once its proxies have, too."""
        r, agent = held.record, self._agent
        key = f"end {r.job}.{r.instance}"
        if key in agent.reports:
            return
        well = agent.proxies.all_well(r.job, r.instance) if code == 0 else True
        if well is None or not held.sweep():
            return
        lost = [] if well else agent.ranks.lost(r.job, r.instance)
        code = code if well else TORN_DOWN
        log.info("job %d.%d ended with exit code %d", r.job, r.instance, code)
        agent.is_over(r.job, r.instance)
        agent.proxies.forget(r.job, r.instance)
        why = describe(lost) if lost else ""
        agent.reports.add(key, m.AppEnded(r.job, r.instance, code, why), held)

    def read_log(self, order: m.ReadLog) -> None:
        """An order to tell a piece of its output."""
        agent = self._agent
        name = "err" if order.stream == "err" else "out"
        data = b""
        try:
            with (agent.home.job(order.job) / name).open("rb") as f:
                f.seek(order.offset)
                data = f.read(LOG_PIECE_BYTES)
        except OSError:
            pass  # nothing was written yet
        running = any(
            t.running() for t in agent.holdings.trees.values() if t.record.job == order.job
        )
        end = not running and len(data) < LOG_PIECE_BYTES
        offset = order.offset + len(data)
        agent.send(m.LogAnswer(order.ticket, data, offset, end))


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
        if "/" in program and Path(cwd, program).is_file():
            raise LaunchError(
                f"{program} is not executable: chmod +x makes it so, or name its interpreter, as"
                f" python {program}"
            )
        raise LaunchError(f"no such program: {program}")
