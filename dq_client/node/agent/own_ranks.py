"""Ranks that DQ starts itself: the agent's side of the keepers (dq_client/node/ranks/keeper.py).

    server ── StartRanks ─→ agent ── start ─→ keeper ── fork ─→ ranks
           ←─ AppEnded ────       ←─ state ──
           ←─ Relay, Relayed ─→   ←─ relay ─→         to the keepers of other nodes

Each start of a job has one keeper, made with the first world of ranks that runs here. A keeper
reports the state of all its ranks, and keeps it on disk (ranks/ends.py). So a restarted agent
recovers the state from the keepers that it reaches, and from the files of those that are gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import sys
from typing import Any

import zmq

from dq_client.base import messages as m
from dq_client.base import opened
from dq_client.base.hardware import cuda_visible
from dq_client.base.home import is_alive
from dq_client.base.launch import NOT_STARTED, LaunchError, check_program, rank_environment
from dq_client.node.agent import keepers, output_files
from dq_client.node.agent.context import Context
from dq_client.node.agent.holdings import HoldingRecord, Tree
from dq_client.node.agent.keepers import KeeperLine
from dq_client.node.agent.local_start import KEEPER_LOST, LocalStart, Past, joins
from dq_client.node.agent.starters import Starter, Starters
from dq_client.node.agent.usage import Instance

log = logging.getLogger("dq.agent")

PAST_MAX = 10_000


def with_steward(argv: list[str], env: dict[str, str]) -> list[str]:
    """What a rank runs: of a job with a recipe what runs the program by it (resize_lib/recipes)."""
    if "DQ_RECIPE" not in env:
        return argv
    return [sys.executable, "-P", "-m", "resize_lib.recipes", "--", *argv]


class OwnRanks:
    """All starts of jobs with ranks on this agent's nodes.

    environment  set for every rank, by the emulation
    interface    by which ranks on other nodes are reached; lo: all are on this machine
    """

    def __init__(
        self,
        context: Context,
        nodes: list[str],
        *,
        interface: str = "lo",
        environment: dict[str, str] | None = None,
    ) -> None:
        self._context, self._nodes = context, nodes
        self._environment = rank_environment(interface) | (environment or {})
        self.starters = Starters(context.clock, marks=context.owner.marks())
        self._jobs: dict[Instance, LocalStart] = {}
        self._spawns: dict[str, tuple[Instance, int]] = {}  # by request: who asked, its ticket
        self._watched: set[int] = set()
        # Worlds that were started or ended by keepers that are gone: an order that comes late, or a
        # second time, starts nothing again.
        self._past: dict[Instance, Past] = {}
        for held in context.holdings.trees.values():
            if held.record.ranks:
                self._adopt(held)

    # --- orders -------------------------------------------------------------------------------

    def start(self, order: m.StartRanks) -> None:
        """Start a world's ranks here; one that is known already changes nothing."""
        of, context = (order.job, order.instance), self._context
        kept = self._jobs.get(of)
        if of in context.closed or (of in self._past and self._past[of].has(order)):
            # Overtaken: the instance has been killed, or has ended; or the world has. But a server
            # that has lost events may not know it, and the job would wait for the ranks for ever.
            if kept is None and order.world and of in context.closed:
                self._not_started(order, f"on {self._here(order)}: the job was ended here")
            elif kept is None and order.spawned:
                self._say_over(of, order.world)
            return
        ends = kept is not None and (kept.over or kept.held.over)
        if kept is not None and ends and order.world in kept.told:
            self._say_over(of, order.world)  # the server has lost it
            return
        if kept is not None and ends and order.world not in kept.closed:
            kept.wait(order)  # its nodes had left the job, and come back
            return
        if kept is not None and not kept.is_new(order):
            if order.world in kept.told:  # and the server has lost it
                self._say_over(of, order.world)
            return
        if kept is None and (why := context.troubles.cannot_start()):
            if joins(order):
                self._not_started(order, f"on {self._here(order)}: {why}")
            return  # the server orders a start again with every heartbeat that does not show it
        try:
            for argv in order.programs:
                check_program(argv, order.cwd, order.env)
            output_files.place(context.home, order.job, {"out": order.out, "err": order.err})
            if kept is None:
                kept = self._make(order)
                self._jobs[of] = kept
                self._find_starter(kept, order)
        except (LaunchError, ValueError) as e:  # ValueError: a NUL character
            self._not_started(order, f"on {self._here(order)}: {e}")
            return
        except OSError as e:
            self._not_started(order, f"cannot start a process on {self._here(order)}: {e}")
            return
        if self._jobs.get(of) is kept:
            log.info("job %d.%d: starting world %d", *of, order.world)
            kept.orders[order.world] = order
            kept.send(self._command(order))

    def end_world(self, order: m.Vacate) -> bool:
        """End the ranks of a world that did not join, or a worker; whether none is left here."""
        job, instance, world = order.job, order.instance, order.world
        kept = self._jobs.get((job, instance))
        if kept is None:
            self._remember((job, instance), Past({world}))
            return True
        kept.closed.add(world)
        if kept.world_running(world):
            how = {"signal": order.stop_signal, "grace_s": order.grace_s}
            # Keepers that an earlier version has made know no worker, nor how one is ended.
            kept.send({"do": "end", "world": world, **(how if order.stop_signal else {})})
            return False
        return True

    def relayed(self, order: m.Relayed) -> None:
        """What a keeper on another node says to ours."""
        kept = self._jobs.get((order.job, order.instance))
        if kept is not None:
            kept.send({"do": "relayed", "data": json.loads(order.data)})

    def answered(self, message: m.Reply) -> None:
        """The server's reply to a request for a spawn."""
        of, ticket = self._spawns.pop(message.id, (None, 0))
        kept = self._jobs.get(of) if of is not None else None
        if kept is None or (isinstance(message.body, m.Error) and message.body.code == "later"):
            return  # the keeper asks again
        self._spawns = {k: s for k, s in self._spawns.items() if s != (of, ticket)}
        refused = message.body.text if isinstance(message.body, m.Error) else ""
        kept.send({"do": "spawn", "ticket": ticket, "why": refused})

    def running(self, job: int) -> bool:
        """Whether ranks of any start of the job run here."""
        return any(of[0] == job and kept.running() for of, kept in self._jobs.items())

    def worlds(self, job: int, instance: int) -> list[int]:
        """The worlds, but for the job's first, of which ranks are here or about to be."""
        kept = self._jobs.get((job, instance))
        if kept is None:
            return []
        known = {*kept.orders, *kept.worlds}
        return sorted(number for number in known if number and kept.world_running(number))

    def acknowledged(self, held: Tree) -> None:
        """The server knows how it ended."""
        kept = self._jobs.get((held.record.job, held.record.instance))
        if kept is None:
            return
        kept.known = kept.said
        well = kept.said is not None and not kept.said.exit_code
        if well and kept.to_come():
            return  # its nodes had left the job, and come back meanwhile
        self._leave(kept)

    def _leave(self, kept: LocalStart) -> None:
        kept.over = True
        kept.send({"do": "leave"})

    # --- keepers ------------------------------------------------------------------------------

    def _make(self, order: m.StartRanks) -> LocalStart:
        context = self._context
        context.home.job(order.job).mkdir(mode=0o700, parents=True, exist_ok=True)
        return LocalStart(
            context.holdings.make(HoldingRecord(order.job, order.instance, ranks=True))
        )

    def _find_starter(self, kept: LocalStart, order: m.StartRanks) -> None:
        """Have the keeper made, once there is a starter if it can have one."""
        starter = None
        if not order.exec_only:
            env = self._environment | order.env
            with contextlib.suppress(OSError):  # what is amiss shows when the keeper is executed
                starter = self.starters.wanted(order.programs[0], env, order.cwd)
        if starter is None or starter.ready:
            self._engage(kept, order, starter)
        else:
            loading = starter
            starter.waiting.append(
                lambda ready: self._engage(kept, order, loading if ready else None)
            )

    def _engage(self, kept: LocalStart, order: m.StartRanks, starter: Starter | None) -> None:
        """Have the keeper made, by a starter if there is one."""
        if kept.held.killed:
            return
        line, control = keepers.pair()
        marks, borrowed = self._marks(order), self._context.borrowed
        asked = keepers.request(kept.held.folder, self._nodes, marks, borrowed=borrowed)
        try:
            if starter is None or not starter.ask(asked, control):
                self._context.holdings.children.append(keepers.execute(asked, control))
        except OSError as e:
            line.close()
            # As if it had never been: what is ordered here later is tried anew.
            self._context.holdings.drop(kept.held)
            del self._jobs[order.job, order.instance]
            self._not_started(order, f"cannot start a process on {self._here(order)}: {e}")
            return
        finally:
            control.close()
        self._use(kept, line)

    def _here(self, order: m.StartRanks) -> str:
        """The nodes of the order that are this agent's, for people."""
        return ", ".join(
            sorted({place.node for place in order.places if place.node in self._nodes})
        )

    def _use(self, kept: LocalStart, line: KeeperLine) -> None:
        kept.line = line
        for message in kept.unsent:
            line.send(message)
        kept.unsent.clear()

    def _adopt(self, held: Tree) -> None:
        """A keeper that an earlier agent had made."""
        kept = LocalStart(held)
        self._jobs[held.record.job, held.record.instance] = kept
        record = held.record
        line = keepers.reach(held.folder, lambda: is_alive(record.pid, record.create_time))
        if line is not None:
            self._use(kept, line)
        else:
            self._is_gone(kept)

    def _marks(self, order: m.StartRanks) -> dict[str, str]:
        ids = {"DQ_JOB_ID": str(order.job), "DQ_JOB_INSTANCE": str(order.instance)}
        return {**self._context.owner.marks(), **ids}

    def _command(self, order: m.StartRanks) -> dict[str, Any]:
        env = {**self._environment, **order.env, **self._marks(order)}
        return {
            "do": "start",
            "world": order.world,
            "programs": [with_steward(argv, order.env) for argv in order.programs],
            "program_of": order.program_of,
            "cwd": order.cwd,
            "env": env,
            "nodes": [place.node for place in order.places],
            "processors": [place.processor for place in order.places],
            "folder": str(self._context.home.job(order.job)),
            "name": self._name(order),
            "root": order.root,
            "input": order.input,
            "label": order.label,
            "spawned": order.spawned,
            "joins": joins(order),
            "keys": order.keys,
            "adopted": order.adopted,
            # Keepers that an earlier version has made do not know it.
            **({"worker": True} if order.worker else {}),
            **({"gpus": [cuda_visible(gpus) for gpus in order.gpus]} if order.gpus else {}),
        }

    def _name(self, order: m.StartRanks) -> str:
        """The world's, for MPI: the same on all nodes, and never used by another world."""
        cluster = hashlib.sha256(order.env.get("DQ_SERVER_KEY", "").encode()).hexdigest()[:12]
        return f"dq_{cluster}_{order.job}_{order.instance}_{order.world}"

    def _not_started(self, order: m.StartRanks, why: str) -> None:
        log.warning("job %d.%d cannot be started: %s", order.job, order.instance, why)
        if joins(order):  # the job goes on at its old size
            data = {"failed": order.world, "why": why}
            if order.root in self._nodes:
                kept = self._jobs.get((order.job, order.instance))
                if kept is not None:
                    kept.send({"do": "relayed", "data": data})
            else:
                self._relay(order.job, order.instance, order.root, data)
            return
        ended = m.AppEnded(job=order.job, instance=order.instance, exit_code=NOT_STARTED, error=why)
        self._context.reports.add(f"end {order.job}.{order.instance}", ended)

    # --- the loop -----------------------------------------------------------------------------

    def register(self, poller: zmq.Poller) -> None:
        """Let the agent's loop wake up for what keepers and starters say."""
        lines = {k.line.fileno() for k in self._jobs.values() if k.line and not k.line.gone}
        wanted = lines | {s.sock.fileno() for s in self.starters.by_name.values()}
        for fd in self._watched - wanted:
            with contextlib.suppress(KeyError):
                poller.unregister(fd)
        for fd in wanted - self._watched:
            poller.register(fd, zmq.POLLIN)
        self._watched = wanted

    def look(self) -> None:
        """Take in what keepers and starters say; report what the server has to know."""
        self.starters.look()
        for of, kept in list(self._jobs.items()):
            if kept.line is not None:
                for message in kept.line.read():
                    self._hear(of, kept, message)
                if kept.line.gone:
                    self._is_gone(kept)
            self._report(of, kept)
            self._report_lost_output(of, kept)
            heard = f"output {of[0]}.{of[1]}" not in self._context.reports
            if kept.held.over and kept.over and heard and kept.held.sweep():
                self._context.holdings.drop(kept.held)
                self._context.troubles.tell(of[0], "")
                del self._jobs[of]
                had = kept.past
                self._remember(of, Past({*kept.orders, *had.worlds, *kept.closed}, had.joined))
                for order in kept.later:
                    self.start(order)

    def _remember(self, of: Instance, had: Past) -> None:
        before = self._past.pop(of, Past())
        joined = max(had.joined, before.joined)
        self._past[of] = Past(had.worlds | before.worlds, joined)
        if len(self._past) > PAST_MAX:
            del self._past[next(iter(self._past))]

    def _hear(self, of: Instance, kept: LocalStart, message: dict[str, Any]) -> None:
        if "state" in message:
            if not kept.state:
                kept.held.find()
                started = m.AppStarted(*of, kept.held.record.pid)
                self._context.reports.add(f"start {of[0]}.{of[1]}", started)
            kept.state = message["state"]
            self._context.troubles.tell(of[0], kept.state.get("unwritten", ""))
            past = kept.past  # what was ordered is the keeper's affair now
            kept.orders = {n: order for n, order in kept.orders.items() if not past.has(order)}
        elif "relay" in message:
            self._relay(*of, message["relay"], message["data"])
        elif "spawn" in message:
            asked = message["spawn"]
            # Also if it was asked before: the request may have been lost with a server.
            self._spawns[self._ask_for_spawn(of, asked)] = of, asked["ticket"]

    def _relay(self, job: int, instance: int, node: str, data: dict[str, Any]) -> None:
        body = m.Relay(job=job, instance=instance, node=node, data=json.dumps(data).encode())
        self._context.send(body)

    def _ask_for_spawn(self, of: Instance, asked: dict[str, Any]) -> str:
        world = asked["info"].get("dq_world", "")
        body = m.SpawnRanks(
            job=of[0],
            instance=of[1],
            ticket=asked["ticket"],
            world=int(world) if world.isdigit() else 0,
            programs=asked["programs"],
            program_of=asked["program_of"],
            cwd=asked["cwd"],
            keys=asked["keys"],
        )
        return self._context.send(body)

    def _is_gone(self, kept: LocalStart) -> None:
        """The keeper has ended, or was killed."""
        if kept.held.over:
            return
        if kept.line is not None:
            kept.line.close()
        kept.held.find()
        kept.take_over(kept.held.last_state())
        with contextlib.suppress(OSError):
            said = opened.read(kept.held.folder / "keeper.err").decode(errors="replace")
            log.error("its keeper failed: %s", said[-4000:])
        kept.held.over = True

    def _report(self, of: Instance, kept: LocalStart) -> None:
        """What the server must hear of how it ended, or that what it was told does not hold."""
        reports, about = self._context.reports, f"end {of[0]}.{of[1]}"
        # After a failure the job ends: a world that is over must not be heard of before that.
        failed = kept.state.get("failed") or kept.state.get("killed")
        for number, world in kept.worlds.items():
            over = world["spawned"] and not world["running"] and not failed
            if over and number not in kept.told:
                kept.told.add(number)
                self._say_over(of, number)
        if kept.over:
            return
        if not kept.state and not kept.held.over:
            return
        ended = self._end_of(of, kept)
        if ended is None and kept.held.over and kept.held.sweep():
            kept.over = True  # no ranks here were ever part of the job: there is no end to report
            return
        if kept.in_vain():  # a node that is to leave would wait for its end until the job's
            self._leave(kept)
        said = reports.about(about)
        if said is not None and said != ended:
            reports.withdraw(about)
        if ended is not None and ended == kept.known:
            if not kept.to_come():
                self._leave(kept)
        elif ended is not None and said != ended:
            kept.said = ended
            log.info("job %d.%d: ended here with %d %s", *of, ended.exit_code, ended.error)
            reports.add(about, ended, kept.held, self._context.usage.ended(kept.held))

    def _say_over(self, of: Instance, world: int) -> None:
        """The ranks of a spawned world have ended here."""
        self._context.reports.add(f"world {of[0]}.{of[1]}.{world}", m.WorldEnded(*of, world))

    def _end_of(self, of: Instance, kept: LocalStart) -> m.AppEnded | None:
        if kept.held.over and not kept.held.sweep():
            return None  # processes are left: looked at again in the next turn
        end = kept.end()
        if end is None:
            return None
        code, why = end
        if why == KEEPER_LOST:
            why = f"the keeper of its ranks on {self._nodes[0]} was killed"
        return m.AppEnded(
            job=of[0], instance=of[1], exit_code=code, error=why[:4000], world=kept.newest
        )

    def _report_lost_output(self, of: Instance, kept: LocalStart) -> None:
        """What the server must hear of output that could not be written, once it is final."""
        reports, about = self._context.reports, f"output {of[0]}.{of[1]}"
        lost, why = kept.lost_output
        if lost > kept.lost_told and about not in reports:
            kept.lost_told = lost
            log.warning("job %d.%d: %d bytes of output are lost: %s", *of, lost, why)
            body = m.OutputLost(
                job=of[0], instance=of[1], node=self._nodes[0], lost_bytes=lost, why=why[:4000]
            )
            reports.add(about, body)

    def close(self) -> None:
        """The agent ends; its keepers are told by signals (agent.py)."""
        self.starters.close()
