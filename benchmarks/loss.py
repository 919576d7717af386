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
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from dq_client import bringup
from dq_client import messages as m
from dq_client.agent import tree
from dq_client.cluster import Cluster, local_cluster
from dq_client.errors import DQError
from dq_client.home import Home, is_alive

HEARTBEAT_S = 1.0
LEDGER = 'echo "$DQ_JOB_ID $$" >> "$LEDGER"; '
FOREVER = ["/bin/sh", "-c", LEDGER + "exec sleep 3600"]
SHORT = ["/bin/sh", "-c", LEDGER + "exec sleep 0.1"]
ENDED = ("done", "failed", "killed")


class Bench:
    """A cluster whose parts are killed and started again."""

    def __init__(self, root: Path, cluster: Cluster) -> None:
        self.home, self.cluster, self.ledger = Home(root / "home"), cluster, root / "ledger"
        self.ledger.touch()
        self.requests = 0
        bringup.bring_up(self.home, cluster, ["--heartbeat", str(HEARTBEAT_S)])
        self.connection = bringup.connect(self.home)

    def ask(self, body: m.RequestBody, timeout_s: float = 20.0) -> Any:
        reply = self.connection.call(body, timeout_s)
        return reply.data if isinstance(reply, m.Data) else reply

    def submit(self, argv: list[str], *, timeout_s: float = 20.0, **more: Any) -> int:
        self.requests += 1
        env = {"LEDGER": str(self.ledger), **more.pop("env", {})}
        body = m.Submit(
            f"bench-{self.requests}", "bench", argv, "/", env=env,
            inherited={"PATH": os.environ["PATH"]}, **{"initial": 1, **more},
        )  # fmt: skip
        return int(self.ask(body, timeout_s).job)

    # --- death and return -------------------------------------------------------------------

    def kill_server(self) -> None:
        os.kill(self.home.server()["pid"], signal.SIGKILL)

    def start_server(self) -> tuple[float, float, float]:
        """Seconds until it answers, and until it has reconciled with its agents; and the processor
        time until it answers, which says more where other programs are busy."""
        begin = time.monotonic()
        bringup.start_server(self.home, ["--heartbeat", str(HEARTBEAT_S)])
        self.connection.close()  # the old one would wait for its next attempt to reconnect
        self.connection = bringup.connect(self.home)
        self.ask(m.StatusQuery())
        serving_s = time.monotonic() - begin
        times = psutil.Process(self.home.server()["pid"]).cpu_times()
        until(lambda: not self.ask(m.StatusQuery())["paused"], "the agents never came back")
        return serving_s, time.monotonic() - begin, times.user + times.system

    def restart_agent(self, name: str) -> None:
        bringup.start_agents(self.home, {name: self.cluster.agents()[name]})

    def agent_pid(self, name: str) -> int:
        return int(bringup.running_agents(self.home)[name]["pid"])

    # --- what is true -----------------------------------------------------------------------

    def runs(self) -> dict[int, list[int]]:
        """Job -> pids of all the processes that ever ran for it."""
        found: dict[int, list[int]] = {}
        for line in self.ledger.read_text().splitlines():
            job, pid = line.split()
            found.setdefault(int(job), []).append(int(pid))
        return found

    def states(self) -> dict[int, str]:
        return {job["id"]: job["state"] for job in self.ask(m.JobsQuery())}

    def wait_for(self, jobs: list[int], states: tuple[str, ...], timeout_s: float = 120) -> None:
        def all_there() -> bool:
            now = self.states()
            return all(now.get(job) in states for job in jobs)

        until(all_there, f"jobs never became {states}", timeout_s)

    def idle(self) -> int:
        return int(self.ask(m.StatusQuery())["idle"])

    def close(self) -> int:
        """Everything down; how many processes are left over."""
        try:
            self.connection.close()
            bringup.bring_down(self.home, force=True)
        except DQError:
            bringup.stop_agents(self.home)
        left = bringup.leftovers(self.home)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return len(left)


def until(what: Callable[[], bool], otherwise: str, timeout_s: float = 60.0) -> float:
    """Poll; seconds it took."""
    begin = time.monotonic()
    while not what():
        if time.monotonic() - begin > timeout_s:
            raise AssertionError(otherwise)
        time.sleep(0.02)
    return time.monotonic() - begin


def in_cluster(cluster: Cluster, what: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """Run one experiment on a fresh cluster; its figures and the processes it left over."""
    with tempfile.TemporaryDirectory(prefix="dq-loss-") as root:
        bench = Bench(Path(root), cluster)
        try:
            figures = what(bench, *args)
        finally:
            left = bench.close()
        return {**figures, "orphans": left}


def two_nodes() -> Cluster:
    """Two agents, two processors each."""
    nodes = tuple(m.NodeInfo(name, 2, name) for name in ("n01", "n02"))
    return Cluster("two", "hosts", nodes)


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
        tree.kill([agent, *processes_of(bench, "n02")])

    def down() -> bool:
        nodes = bench.ask(m.NodesQuery())
        return any(n["name"] == "n02" and n["state"] == "down" for n in nodes)

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


def processes_of(bench: Bench, agent: str) -> list[int]:
    """Processes of jobs that an agent has started."""
    return tree.of_agent(tree.Owner(bench.home.root, agent))


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
