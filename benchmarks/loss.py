"""What is lost when a server, an agent, a node or a rank dies: nothing may be. Prints the figures.

    python -m benchmarks.loss [--kills 200] [--jobs 100] [--agent-kills 100] [--json]

Every job is one process that writes its id and pid to a ledger when it starts, so that a job that
never ran, ran twice or was restarted shows. `resizer` jobs answer the server at remap points, so
that servers also die in the middle of resizes.

The comparison: five times, 10 submissions each followed at once by kill -9 of the server. Slurm
22.05 acknowledges first and saves later; of the same 50 submissions it loses 46.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.base.home import is_alive
from dq_client.deploy.cluster import local_cluster
from harness.bench import HEARTBEAT_S, LEDGER, Bench, in_cluster, processes_of, two_nodes, until
from harness.live import ENDED

FOREVER = ["/bin/sh", "-c", LEDGER + "exec sleep 3600"]
SHORT = ["/bin/sh", "-c", LEDGER + "exec sleep 0.1"]


# --- the experiments -------------------------------------------------------------------------


def server_kills(bench: Bench, kills: int, jobs: int, seed: int = 1) -> dict[str, Any]:
    """Kill the server at random moments, with jobs running, resizing, and being submitted."""
    rng = random.Random(seed)
    long = [bench.submit(FOREVER) for _ in range(jobs)]
    resizer = [sys.executable, "-m", "benchmarks.resizer"]
    root = str(Path(__file__).parents[1])
    resizing = [
        bench.submit(resizer, sizes=m.Sizes([1, 2, 4]), env={"PYTHONPATH": root}) for _ in range(2)
    ]
    bench.wait_for(long + resizing, ("running",))
    until(lambda: len(bench.runs()) >= jobs + 2, "not every job has written to the ledger")
    before = {job: bench.runs()[job] for job in long + resizing}
    short: list[int] = []
    serving, reconciled, cpu = [], [], []
    for _ in range(kills):
        for _ in range(rng.randrange(3)):
            short.append(bench.submit(SHORT))
        time.sleep(rng.uniform(0.0, 0.3))
        bench.kill_server()
        times = bench.start_server()
        serving.append(times[0])
        reconciled.append(times[1])
        cpu.append(times[2])
    bench.wait_for(short, ENDED)
    states, runs = bench.states(), bench.runs()
    resizes = sum(bench.ask(m.JobQuery(job))["remap_points"] for job in resizing)
    for job in long + resizing:
        bench.ask(m.Kill(job))
    bench.wait_for(long + resizing, ENDED)
    capacity = bench.cluster.processors
    until(lambda: bench.idle() == capacity, "processors were lost")
    return {
        "kills": kills,
        "acknowledged": len(long + resizing + short),
        "lost": sum(states.get(job) != "done" for job in short)
        + sum(states.get(job) != "running" for job in long + resizing),
        "run_twice": sum(len(pids) > 1 for pids in runs.values()),
        "other_pids": sum(runs[job] != pids for job, pids in before.items()),
        "remap_points": resizes,
        **spread("serving_s", serving),
        **spread("reconciled_s", reconciled),
        **spread("cpu_until_serving_s", cpu),
    }


def submit_and_kill(bench: Bench, rounds: int, each: int = 10) -> dict[str, Any]:
    """`each` submissions, each followed at once by kill -9."""
    acknowledged = []
    for _ in range(rounds * each):
        acknowledged.append(bench.submit(SHORT))
        bench.kill_server()
        bench.start_server()
    bench.wait_for(acknowledged, ENDED)
    states, runs = bench.states(), bench.runs()
    return {
        "acknowledged": len(acknowledged),
        "lost": sum(states.get(job) != "done" or job not in runs for job in acknowledged),
        "run_twice": sum(len(pids) > 1 for pids in runs.values()),
    }


def agent_kills(bench: Bench, kills: int, jobs: int) -> dict[str, Any]:
    """Kill the agent and start it again: it finds its processes."""
    long = [bench.submit(FOREVER) for _ in range(jobs)]
    bench.wait_for(long, ("running",))
    until(lambda: len(bench.runs()) == jobs, "not every job has written to the ledger")
    before = bench.runs()
    adopted = []
    for _ in range(kills):
        pid = bench.agent_pid("local")
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: not is_alive(pid), "the agent does not die")  # type: ignore[misc]
        begin = time.monotonic()
        bench.restart_agent("local")

        def known(old: int = pid) -> bool:
            agents = bench.ask(m.StatusQuery())["agents"]
            return "local" in agents and agents["local"]["pid"] != old

        until(known, "the agent never came back")
        adopted.append(time.monotonic() - begin)
    states, runs = bench.states(), bench.runs()
    return {
        "kills": kills,
        "lost": sum(states[job] != "running" for job in long),
        "other_pids": sum(runs[job] != before[job] or not is_alive(before[job][0]) for job in long),
        **spread("back_s", adopted),
    }


def one_rank_killed(bench: Bench) -> dict[str, Any]:
    """Kill one process of a job of two: the job ends everywhere."""
    job = bench.submit(FOREVER, initial=2, kind="rigid")
    until(lambda: len(bench.runs().get(job, ())) == 2, "the job does not start")
    os.kill(bench.runs()[job][1], signal.SIGKILL)
    back_s = until(lambda: bench.idle() == bench.cluster.processors, "processors were lost")
    return {"state": bench.states()[job], "back_s": back_s, "alive": _alive(bench, job)}


def setsid_tree_killed(bench: Bench) -> dict[str, Any]:
    """Kill a job whose children left its session and ignore SIGTERM."""
    child = 'trap "" TERM; ' + LEDGER + "while :; do sleep 1; done"
    tree = f"{LEDGER} for i in 1 2 3 4; do setsid sh -c '{child}' & done; sleep 3600"
    job = bench.submit(["/bin/sh", "-c", tree])
    until(lambda: len(bench.runs().get(job, ())) == 5, "the job does not start")
    bench.ask(m.Kill(job))
    back_s = until(lambda: bench.idle() == bench.cluster.processors, "processors were lost")
    return {"state": bench.states()[job], "back_s": back_s, "alive": _alive(bench, job)}


def node_killed(bench: Bench, *, stop_only: bool) -> dict[str, Any]:
    """All processes of node n02 die, or its agent stops dead; a job runs on both nodes."""
    job = bench.submit(FOREVER, initial=4, kind="rigid")
    until(lambda: len(bench.runs().get(job, ())) == 4, "the job does not start")
    agent = bench.agent_pid("n02")
    if stop_only:
        os.kill(agent, signal.SIGSTOP)
    else:
        process_tree.kill([agent, *processes_of(bench, "n02")])

    def down() -> bool:
        nodes = bench.ask(m.NodesQuery())
        return any(n["name"] == "n02" and n["state"] == "lost" for n in nodes)

    noticed_s = until(down, "the loss is not noticed")
    back_s = until(lambda: bench.idle() == 2, "the other node's processors do not come back")
    if stop_only:
        os.kill(agent, signal.SIGCONT)
    else:
        bench.restart_agent("n02")
    until(lambda: bench.idle() == 4, "the node does not come back")
    return {
        "state": bench.states()[job],
        "noticed_heartbeats": noticed_s / HEARTBEAT_S,
        "back_s": back_s,
        "alive": _alive(bench, job),
    }


def _alive(bench: Bench, job: int) -> int:
    return sum(is_alive(pid) for pid in bench.runs()[job])


def spread(name: str, samples: list[float]) -> dict[str, float]:
    """Median and maximum."""
    ordered = sorted(samples)
    return {f"{name}_median": ordered[len(ordered) // 2], f"{name}_max": ordered[-1]}


def main() -> None:
    """Run all and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--agent-kills", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="names of experiments, with commas between")
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    wide = local_cluster(o.jobs + 8)
    experiments: dict[str, Callable[[], dict[str, Any]]] = {
        "server_kills": lambda: in_cluster(wide, server_kills, o.kills, o.jobs),
        "submit_and_kill": lambda: in_cluster(local_cluster(4), submit_and_kill, o.rounds),
        "agent_kills": lambda: in_cluster(local_cluster(8), agent_kills, o.agent_kills, 8),
        "one_rank_killed": lambda: in_cluster(local_cluster(2), one_rank_killed),
        "setsid_tree_killed": lambda: in_cluster(local_cluster(2), setsid_tree_killed),
        "node_killed": lambda: in_cluster(two_nodes(), lambda b: node_killed(b, stop_only=False)),
        "agent_stopped": lambda: in_cluster(two_nodes(), lambda b: node_killed(b, stop_only=True)),
    }
    chosen = o.only.split(",") if o.only else list(experiments)
    found = {}
    for name in chosen:
        begin = time.monotonic()
        found[name] = experiments[name]()
        if not o.json:
            figures = "  ".join(
                f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}"
                for k, v in found[name].items()
            )
            print(f"{name} ({time.monotonic() - begin:.0f} s): {figures}", flush=True)
    if o.json:
        print(json.dumps({"schema": 1, "load": os.getloadavg()[0], "loss": found}))


if __name__ == "__main__":
    main()
