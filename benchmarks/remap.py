"""What remap points cost a program, and the server's answer at one of them.

    python -m benchmarks.remap [--ranks 1,2,4] [--ms 0.1,1,10] [--seconds 4] [--json]
    python -m benchmarks.remap --round-trips [--points 2000] [--jobs 200] [--json]

The first: how fast turns of so many milliseconds are in `rs.iterations`, beside those of a plain
loop in the same processes, alternately: a malleable job, one that the server resizes never
(rigid), and the program without a server. Beside it a plain loop whose ranks meet in a bare
MPI_Barrier as often: the limit of whatever asks all ranks. Median and mean: of what lies between
two turns.

The second, the round trip on loopback from the application's question to the scheduler's answer:
one application (its own key, its own connection) asks at 2,000 remap points in a row, journal
committed before every answer, CURVE encrypted: once with nothing else registered, once with 200
more jobs on the books. Beside it, in the same run: a bare echo over an unencrypted ROUTER/DEALER
pair in two processes, which is what ZeroMQ and the two processes cost on this machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import zmq

from dq_client.base import keys
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.home import Home
from dq_client.base.launch import MPI_TUNING, ONE_THREAD
from dq_client.deploy import local, shutdown
from dq_client.deploy.cluster import local_cluster
from harness.commands import ROOT, CommandLine
from harness.live import asked

ECHO_ADDRESS = "tcp://127.0.0.1:*"


def percentiles_us(samples: list[float]) -> dict[str, float]:
    """Median and 99th percentile in microseconds."""
    ordered = sorted(samples)
    return {
        "median_us": 1e6 * statistics.median(ordered),
        "p99_us": 1e6 * ordered[int(0.99 * (len(ordered) - 1))],
    }


def _echo(ready: Any) -> None:
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind(ECHO_ADDRESS)
    ready.put(router.getsockopt_string(zmq.LAST_ENDPOINT))
    while True:
        router.send_multipart(router.recv_multipart())


def echo_round_trips(points: int) -> dict[str, float]:
    """What two processes and ZeroMQ cost without DQ."""
    ready: Any = multiprocessing.Queue()
    server = multiprocessing.Process(target=_echo, args=(ready,), daemon=True)
    server.start()
    dealer = zmq.Context().socket(zmq.DEALER)
    dealer.connect(ready.get())
    samples = []
    for _ in range(points + 50):
        begin = time.perf_counter()
        dealer.send(b"x" * 60)
        dealer.recv()
        samples.append(time.perf_counter() - begin)
    server.terminate()
    return percentiles_us(samples[50:])


def remap_round_trips(home: Home, job: int, points: int, seq: int) -> tuple[dict[str, float], int]:
    """Ask at `points` remap points of a running job, as its application would."""
    server = keys.load(home.keys, "server")
    link = Connection(home.server()["address"], server.public, keys.job_keys(server.secret, job, 1))
    samples = []
    for _ in range(points + 50):
        seq += 1
        begin = time.perf_counter()
        reply = link.call(m.RemapPoint(seq, 1, 0, 0.1))
        samples.append(time.perf_counter() - begin)
        assert isinstance(reply, m.RemapAnswer)
    link.close()
    return percentiles_us(samples[50:]), seq


def submit(connection: Connection, name: str, seconds: int) -> int:
    """A one-processor job that only waits; it never moves away from one processor."""
    body = m.Submit(
        request=f"bench-{name}", name=name, argv=["sleep", str(seconds)], cwd="/", kind="rigid",
        initial=1,
    )  # fmt: skip
    reply = connection.call(body, 20.0)
    assert isinstance(reply, m.Submitted)
    return reply.job


def turns(ranks: list[int], lengths_ms: list[str], seconds: float) -> list[dict[str, Any]]:
    """One row for each way to run the program, number of ranks, and length of a turn."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="dq-bench-") as folder:
        home = Home(Path(folder) / "home")
        local.bring_up(home, local_cluster(max(ranks)), [])
        connection = Connection.to(home)
        dq = CommandLine(home.root)
        try:
            for n in ranks:
                for way in ("malleable", "rigid", "no server"):
                    out = Path(folder) / f"{way}-{n}"
                    program = [sys.executable, "-m", "benchmarks._remap_app", out, seconds]
                    words = [str(word) for word in (*program, *lengths_ms)]
                    if way == "no server":
                        started = [sys.executable, "-m", "dq_client.ranks", "-n", str(n), "--"]
                        extra = {**ONE_THREAD, **MPI_TUNING, "PYTHONPATH": str(ROOT)}
                        subprocess.run([*started, *words], env={**os.environ, **extra}, check=True)
                    else:
                        sizes = ["--sizes", str(n)] if way == "malleable" else ["--kind", "rigid"]
                        job = dq.submit("-n", n, *sizes, "--", *words)
                        while asked(connection, job)["state"] not in ("done", "failed"):
                            time.sleep(0.2)
                    found = json.loads(out.read_text())
                    rows += [{"ranks": n, "way": way, "ms": ms, **found[ms]} for ms in lengths_ms]
        finally:
            connection.close()
            shutdown.bring_down(home, force=True)
    return rows


def measure(points: int, jobs: int) -> dict[str, Any]:
    """All figures of one run."""
    with tempfile.TemporaryDirectory(prefix="dq-bench-") as folder:
        home = Home(Path(folder) / "home")
        local.bring_up(home, local_cluster(2), [])
        connection = Connection.to(home)
        try:
            job = submit(connection, "measured", 600)
            while asked(connection, job)["state"] != "running":
                time.sleep(0.05)
            idle, seq = remap_round_trips(home, job, points, 0)
            for i in range(jobs):  # one runs, the others queue
                submit(connection, f"other{i}", 600)
            busy, _ = remap_round_trips(home, job, points, seq)
        finally:
            connection.close()
            shutdown.bring_down(home, force=True)
    echo = echo_round_trips(points)
    return {
        "points": points,
        "other_jobs": jobs,
        "echo": echo,
        "idle": idle,
        "busy": busy,
        "ratio_idle": idle["median_us"] / echo["median_us"],
        "ratio_busy": busy["median_us"] / echo["median_us"],
    }


def show_turns(rows: list[dict[str, Any]]) -> None:
    """The table."""
    print(f"{'ranks':>5}  {'job':10}{'turn ms':>8}", end="")
    print(f"{'speed / plain':>15}{'bare barriers':>15}{'median':>10}{'mean':>10}")
    for row in rows:
        print(
            f"{row['ranks']:5}  {row['way']:10}{row['ms']:>8}{row['speed']:15.3f}"
            f"{row['speed_of_barriers']:15.3f}{row['median_us']:7.1f} µs{row['mean_us']:7.1f} µs"
        )


def show_round_trips(found: dict[str, Any]) -> None:
    """The table."""
    print(f"{'':28}{'median µs':>12}{'p99 µs':>12}")
    names = {
        "echo": "bare ZeroMQ echo",
        "idle": "remap point, idle server",
        "busy": f"remap point, {found['other_jobs']} more jobs",
    }
    for key, text in names.items():
        print(f"{text:28}{found[key]['median_us']:12.0f}{found[key]['p99_us']:12.0f}")
    print(
        f"\nratio to the echo: {found['ratio_idle']:.2f} idle, {found['ratio_busy']:.2f} with"
        f" {found['other_jobs']} jobs. The echo is the floor: two context switches and four copies;"
        "\nthe rest is encryption, validation, the decision and one journal commit."
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--ms", default="0.1,1,10")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--round-trips", action="store_true")
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    if o.round_trips:
        found = measure(o.points, o.jobs)
    else:
        ranks = [int(n) for n in o.ranks.split(",")]
        found = {"turns": turns(ranks, o.ms.split(","), o.seconds)}
    if o.json:
        print(json.dumps({"schema": 1, **found}))
    elif o.round_trips:
        show_round_trips(found)
    else:
        show_turns(found["turns"])


if __name__ == "__main__":
    main()
