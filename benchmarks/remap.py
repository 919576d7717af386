"""The remap round trip on loopback: from the application's question to the scheduler's answer.

    python -m benchmarks.remap [--points 2000] [--jobs 200] [--json]

One application (its own key, its own connection) asks at 2,000 remap points in a row, journal
committed before every answer, CURVE encrypted: once with nothing else registered, once with 200
more jobs on the books. Beside it, in the same run: a bare echo over an unencrypted ROUTER/DEALER
pair in two processes, which is what ZeroMQ and the two processes cost on this machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import zmq

from dq_client import bringup, keys
from dq_client import messages as m
from dq_client.cluster import local_cluster
from dq_client.connection import Connection
from dq_client.home import Home
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


def measure(points: int, jobs: int) -> dict[str, Any]:
    """All figures of one run."""
    with tempfile.TemporaryDirectory(prefix="dq-bench-") as folder:
        home = Home(Path(folder) / "home")
        bringup.bring_up(home, local_cluster(2), [])
        connection = bringup.connect(home)
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
            bringup.bring_down(home, force=True)
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


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    found = measure(o.points, o.jobs)
    if o.json:
        print(json.dumps({"schema": 1, **found}))
        return
    print(f"{'':28}{'median µs':>12}{'p99 µs':>12}")
    names = {
        "echo": "bare ZeroMQ echo",
        "idle": "remap point, idle server",
        "busy": f"remap point, {o.jobs} more jobs",
    }
    for key, text in names.items():
        print(f"{text:28}{found[key]['median_us']:12.0f}{found[key]['p99_us']:12.0f}")
    print(
        f"\nratio to the echo: {found['ratio_idle']:.2f} idle, {found['ratio_busy']:.2f} with"
        f" {o.jobs} jobs. The echo is the floor: two context switches and four copies; the rest is"
        "\nencryption, validation, the decision and one journal commit."
    )


if __name__ == "__main__":
    main()
