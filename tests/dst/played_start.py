"""How an application starts on the machine, and the starts that must never happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dq_client.base import messages as m
from dq_client.node.agent.holdings import HoldingRecord
from dq_server.live.access import Principal
from tests.dst.played_app import App
from tests.dst.played_keeper import Start
from tests.dst.played_line import Line
from tests.dst.played_machine import Process
from tests.dst.stand_ins import Held
from tests.dst.verdict import Wrong

if TYPE_CHECKING:
    from tests.dst.world import World


# Protected, or of an array, whose jobs may have retries (verdict.py counts them). Any other only
# if the events of its first start are lost.
AGAIN = {"DQ_PROTECT", "DQ_ARRAY_ID", "DQ_RESTART"}


def launch(world: World, order: m.Launch) -> Process:
    """Start what the order says; Wrong if that must not happen now."""
    if (order.job, order.instance) in world.machine.starts:
        raise Wrong(f"start {order.instance} of job {order.job} happens twice")
    world.machine.starts.add((order.job, order.instance))
    if order.instance > 1 and not AGAIN & order.env.keys() and not world.store.lost:
        raise Wrong(f"job {order.job} is started twice")
    if beside_itself(world, order.job, order.places):
        raise Wrong(f"job {order.job} is started again beside itself")
    world.pid += 1
    places = [p.processor for p in order.places]
    ends_s = world.now + world.rng.choice([0.05, 1.0, 4.0, 8.0])
    first = order.places[0].node
    protected = "DQ_PROTECT" in order.env
    code = world.rng.choice([0, 0, 0, 1, 9]) if protected and world.faults else 0
    process = Process(order.job, order.instance, places, ends_s, code, world.pid, first)
    process.where = {place.processor: place.node for place in order.places}
    world.machine.processes[order.job, order.instance] = process
    reached = reaches(world, order)
    if not reached:  # its launcher fails, and ranks elsewhere never come to be
        process.places = [p for p in places if process.where[p] == first]
        process.ends_s, process.code = world.now + 0.2, 255
    world.machine.occupy(process, process.places)

    def end() -> None:
        if not process.over:
            world.machine.end(process)

    if order.argv[0] == "malleable" and reached:
        principal = Principal("job", order.job, order.instance)
        line = Line(world, f"job{order.job}", principal, lambda: None)
        app = App(world, process, line, **restarting(order.env))
        world.later(0.1, app.turn)
        if protected and not code and world.rng.random() < 0.9:  # else it vanishes
            end = app.finish
    world.later(process.ends_s - world.now, end)
    return process


def restarting(env: dict[str, str]) -> dict[str, Any]:
    """What an application has to know of resizes by restart."""
    return {"restarts": env["DQ_GROWTH"] == "restart", "inherits": int(env.get("DQ_RESTART", 0))}


def reaches(world: World, order: m.Launch) -> bool:
    """Whether the launcher gets its proxies on other nodes: it asks for them at the server."""
    job = world.last_server.scheduler.state.job(order.job)
    return len({p.node for p in order.places}) == 1 or job.works_in(order.instance)


def beside_itself(world: World, job: int, places: list[m.RankPlace]) -> bool:
    """Whether it starts, and still runs, where the server could know: on nodes it has not lost.

    A node that is only cut off computes for nobody until its agent is heard again.
    """
    down = world.last_server.scheduler.state.processors.down
    runs_on = [p for p, (j, _) in world.machine.on.items() if j == job and p not in down]
    return bool(runs_on) and any(place.processor not in down for place in places)


def spread(world: World, process: Process, first: str) -> None:
    """Ranks on other nodes belong to a proxy there, which that node's agent holds."""
    for node in {process.where[p] for p in process.places} - {first}:
        record = HoldingRecord(process.job, process.instance, f"first of {process.job}")
        world.holdings[node].add(Held(record, process, world.machine))


def started(world: World, order: m.StartRanks) -> Start | None:
    """The start that an order belongs to; Wrong if it must not happen now.

    None: a world of a start of which nothing is left.
    """
    known = world.machine.processes.get((order.job, order.instance))
    if known is not None or (order.world and not order.worker):
        assert known is None or isinstance(known, Start)
        return known
    if order.instance > 1 and not AGAIN & order.env.keys() and not world.store.lost:
        raise Wrong(f"job {order.job} is started twice")
    if beside_itself(world, order.job, order.places):
        raise Wrong(f"job {order.job} is started again beside itself")
    world.pid += 1
    places = [place.processor for place in order.places]
    node, protected = order.places[0].node, "DQ_PROTECT" in order.env
    code = world.rng.choice([0, 0, 0, 1, 9]) if protected and world.faults else 0
    start = Start(order.job, order.instance, places, 0.0, code, world.pid, node)
    start.program, start.protected = order.programs[0][0], protected
    start.growth, start.env = order.env.get("DQ_GROWTH", ""), order.env
    world.machine.processes[order.job, order.instance] = start
    return start


def begin(world: World, start: Start) -> None:
    """All ranks of world 0 are there: the program computes, and ends some time."""
    after_s = world.rng.choice([0.05, 1.0, 4.0, 8.0])
    if start.program == "malleable":
        principal = Principal("job", start.job, start.instance)
        line = Line(world, f"job{start.job}", principal, lambda: None)
        start.app = App(world, start, line, **restarting(start.env))
        world.later(0.1, start.app.turn)
    elif world.chance(0.7):
        count = world.rng.choice([1, 1, 2])
        world.later(after_s * world.rng.random(), lambda: start.keepers[start.node].spawn(0, count))

    def end() -> None:
        if start.app is not None and start.app.awaited is not None and start.app.awaited.blocks:
            world.later(0.2, end)
        elif start.app is None or (start.protected and world.rng.random() < 0.1):
            start.end(world)  # of a protected one: it vanishes
        else:
            start.app.finish()

    world.later(after_s, end)
