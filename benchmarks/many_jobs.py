"""What 200 running jobs cost each other at their remap points. Prints ratios of one run.

    python -m benchmarks.many_jobs [--jobs 200] [--rounds 7] [--pace 1] [--json]

Real: three servers as programs, their journals on the disk, CURVE on every connection. Played
(_many_jobs_peers.py): agents and malleable applications, each with its own key and socket, one
process for each cluster. One cluster has no other job than the measured one, one has 10, one 200.
All have found their sweet spots before anything counts, and try no other size after that: resizes
are another subject (benchmarks.resize).

Throughput: the applications of a cluster come to remap points as fast as they are answered; points
a second, and the server's CPU time for one, with 200 and with 10 in alternate bursts.

Latency: one application, with a process of its own, comes to 20 remap points a second: with no
other job, with 200 that rest, with 200 that come to one each in `pace` seconds. Beside it a bare
ROUTER that answers as it hears, in a process of its own, over CURVE, with frames of the same
lengths, asked at the same pace. In each round all take turns; p10 and medians of all points.

Beside the latency: CPU time of the process that answers, for one answer, less what it takes in as
much time without questions. Where a machine is busy with other work, latencies are mostly waits for
a processor, and this is not.

Limits: 0.8 for the throughput, for the latency 1.3 to no other job and 4 to the echo. Exit code 1
if one is not kept.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import zmq

from benchmarks._load_peers import Course, Plan
from benchmarks._many_jobs_peers import SIZES, iteration_s, play
from dq_client.base import codec, keys
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.home import Home, is_alive
from dq_client.deploy import local
from harness.output import whole_number
from harness.sockets import dealer

FEW = 10
NODE_PROCESSORS = 64
RATE_HZ, SEGMENT_POINTS = 20.0, 20
BURST_S, POINTS_BEFORE = 1.0, 60  # of each application, before anything counts
HEARTBEAT_S = 20.0  # agents send more: none is lost because the peers wait long for a processor
CONFIG = "[scheduler.spot]\nretry = 1000000\n"
ANSWER_WITHIN_S = 30.0
THROUGHPUT_LEAST, TO_ALONE_MOST, TO_ECHO_MOST, NO_LIMIT = 0.8, 1.3, 4.0, 0.0
RATIOS = (  # of latencies: whose, to whose, at most
    ("resting", "alone", TO_ALONE_MOST),
    ("reporting", "alone", TO_ALONE_MOST),
    ("alone", "echo", TO_ECHO_MOST),
    ("resting", "echo", TO_ECHO_MOST),
    ("reporting", "echo", TO_ECHO_MOST),
)


def used_s(pid: int) -> float:
    """CPU time of all threads of a process, to the nanosecond (psutil's is in ticks of 10 ms)."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


class Cluster:
    """A server with `jobs` played applications, and the job that is measured."""

    def __init__(self, jobs: int, stack: ExitStack) -> None:
        self.jobs = jobs
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="dq-many-"))
        self.home = Home(Path(root) / "home")
        config = Path(root) / "config.toml"
        config.write_text(CONFIG)
        words = ["--heartbeat", str(HEARTBEAT_S), "--config", str(config)]
        self.server_pid = int(str(local.start_server(self.home, words)["pid"]))
        stack.callback(self._stop_server)
        processors = SIZES[-1] * (jobs + 1)
        agents = -(-processors // NODE_PROCESSORS)
        self._pipe, there = multiprocessing.Pipe()
        plan = Plan(str(self.home.root), agents, NODE_PROCESSORS, 0.0)
        context = multiprocessing.get_context("spawn")
        self._played = context.Process(target=play, args=(plan, jobs, there))
        self._played.start()
        stack.callback(self._stop_peers)
        there.close()  # peers that fail are an end of file here, not a silence
        assert self._pipe.recv() == "welcome"
        others = [self._submit(f"job {k}", "malleable") for k in range(jobs)]
        assert self._pipe.recv() == "ready"
        self.job = self._submit("measured", "measured")
        assert self.job > max(others, default=0)

    def _submit(self, name: str, played: str) -> int:
        connection = Connection.to(self.home)
        body = m.Submit(
            f"many {name}".replace(" ", "-"), name, ["true"], "/", kind="malleable", initial=1,
            sizes=m.Sizes([*SIZES]), env={"LOAD": played},
        )  # fmt: skip
        reply = connection.call(body, ANSWER_WITHIN_S)
        connection.close()
        assert isinstance(reply, m.Submitted)
        return reply.job

    def tell(self, what: str, seconds: float) -> Any:
        """Tell the applications something (_many_jobs_peers.py), and wait until they have."""
        self._pipe.send((what, seconds))
        return self._pipe.recv()

    def burst(self) -> tuple[float, float]:
        """Remap points a second, and the server's CPU time for one (s)."""
        began = self.used_s()
        points, seconds = self.tell("burst", BURST_S)
        return points / seconds, (self.used_s() - began) / points

    def used_s(self) -> float:
        """CPU time of the server so far."""
        return used_s(self.server_pid)

    def _stop_peers(self) -> None:
        with suppress(BrokenPipeError):
            self._pipe.send("stop")
        self._played.join(10)
        self._played.kill()

    def _stop_server(self) -> None:
        os.kill(self.server_pid, signal.SIGTERM)
        local.wait_until(lambda: not is_alive(self.server_pid), 30, "the server does not stop")


class Measured:
    """The application whose answers are timed.

    frames  the lengths of a question and of an answer
    used_s  CPU time of who answers, so far
    """

    def __init__(self, cluster: Cluster, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        server = keys.load(cluster.home.keys, "server")
        pair = keys.job_keys(server.secret, cluster.job, 1)
        self._socket = dealer(context, cluster.home.server()["address"], server.public, pair)
        self._socket.rcvtimeo = int(1000 * ANSWER_WITHIN_S)
        self._course, self._count = Course(1), 0
        self.frames = 0, 0
        self.used_s = cluster.used_s

    def ask(self) -> float:
        """Come to a remap point and carry out what it says; how long the answer took."""
        frame = self._frame(self._course.point(iteration_s(self._course.size, 0)))
        began = time.perf_counter()
        self._socket.send(frame)
        answer = self._socket.recv()
        took_s = time.perf_counter() - began
        self.frames = len(frame), len(answer)
        body = self._reply(answer)
        assert isinstance(body, m.RemapAnswer), body
        committed = self._course.carry_out(body)
        if committed is not None:
            self._socket.send(self._frame(committed))
            assert isinstance(self._reply(self._socket.recv()), m.Done)
        return took_s

    def _frame(self, body: m.RequestBody) -> bytes:
        self._count += 1
        return codec.encode(m.Request(f"m{self._count}", body))

    @staticmethod
    def _reply(frame: bytes) -> m.ReplyBody:
        message = codec.decode_from_server(frame)
        assert isinstance(message, m.Reply)
        return message.body


def _echo(port: Any, secret: bytes, length: int) -> None:
    router = zmq.Context().socket(zmq.ROUTER)
    router.curve_server, router.curve_secretkey = True, secret
    port.send(router.bind_to_random_port("tcp://127.0.0.1"))
    answer = b"x" * length
    while True:
        identity, _ = router.recv_multipart()
        router.send_multipart([identity, answer])


class Echo:
    """A process that answers as it hears, with frames of these lengths."""

    def __init__(
        self, frames: tuple[int, int], context: zmq.Context[zmq.Socket[bytes]], stack: ExitStack
    ) -> None:
        public, secret = zmq.curve_keypair()
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=_echo, args=(there, secret, frames[1]), daemon=True
        )
        process.start()
        stack.callback(process.kill)
        assert process.pid is not None
        self.used_s = partial(used_s, process.pid)
        own = keys.KeyPair(*(key.decode() for key in zmq.curve_keypair()))
        self._socket = dealer(context, f"tcp://127.0.0.1:{here.recv()}", public.decode(), own)
        self._frame = b"x" * frames[0]

    def ask(self) -> float:
        """A round trip (s)."""
        began = time.perf_counter()
        self._socket.send(self._frame)
        self._socket.recv()
        return time.perf_counter() - began


class Series:
    """One way to ask: round trips (s), and CPU time of who answers for one of them (s)."""

    def __init__(self, asked: Measured | Echo) -> None:
        self.asked = asked
        self.took_s: list[float] = []
        self.cpu_s: list[float] = []

    def go_on(self) -> None:
        """Some more, at a steady pace, and as much time without questions."""
        began = self.asked.used_s()
        time.sleep(SEGMENT_POINTS / RATE_HZ)
        without_s = self.asked.used_s() - began
        began, due_s = self.asked.used_s(), time.monotonic()
        for _ in range(SEGMENT_POINTS):
            due_s += 1 / RATE_HZ
            time.sleep(max(0.0, due_s - time.monotonic()))
            self.took_s.append(self.asked.ask())
        self.cpu_s.append((self.asked.used_s() - began - without_s) / SEGMENT_POINTS)

    def quantile_ms(self, share: float) -> float:
        """Of the round trips, in milliseconds."""
        return 1000 * sorted(self.took_s)[int(share * (len(self.took_s) - 1))]


def measure(jobs: int, rounds: int, pace_s: float) -> dict[str, Any]:
    """The figures of one run; times in milliseconds."""
    with ExitStack() as stack:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.destroy, linger=0)
        alone, few, many = (Cluster(count, stack) for count in (0, FEW, jobs))
        in_alone, in_many = Measured(alone, context), Measured(many, context)
        for cluster in (few, many):
            points = 0
            while points < POINTS_BEFORE * cluster.jobs:
                points += cluster.tell("burst", BURST_S)[0]
        for _ in range(POINTS_BEFORE):
            in_alone.ask(), in_many.ask()
        echo = Echo(in_alone.frames, context, stack)
        asked: dict[str, Measured | Echo] = {
            "echo": echo,
            "alone": in_alone,
            "resting": in_many,
            "reporting": in_many,
        }
        series = {name: Series(one) for name, one in asked.items()}
        bursts: dict[int, list[tuple[float, float]]] = {FEW: [], jobs: []}
        for _ in range(rounds):
            for name in ("echo", "alone", "resting"):
                series[name].go_on()
            many.tell("pace", pace_s)
            series["reporting"].go_on()
            many.tell("pace", 0.0)
            bursts[FEW].append(few.burst())
            bursts[jobs].append(many.burst())
        return _figures(series, bursts, jobs, in_alone.frames)


def _figures(
    series: dict[str, Series],
    bursts: dict[int, list[tuple[float, float]]],
    jobs: int,
    frames: tuple[int, int],
) -> dict[str, Any]:
    rate, cpu_s = (
        {count: statistics.median(one[k] for one in found) for count, found in bursts.items()}
        for k in (0, 1)
    )
    latency = {
        name: {
            "p10_ms": one.quantile_ms(0.1),
            "p50_ms": one.quantile_ms(0.5),
            "p99_ms": one.quantile_ms(0.99),
            "cpu_us": 1e6 * statistics.median(one.cpu_s),
        }
        for name, one in series.items()
    }
    ratios = [("points a second, to those with 10", rate[jobs] / rate[FEW], THROUGHPUT_LEAST)]
    for figure, limited in (("p50_ms", True), ("p10_ms", False), ("cpu_us", False)):
        for name, to, limit in RATIOS:
            ratio = latency[name][figure] / latency[to][figure]
            ratios.append((f"{figure}, {name} to {to}", ratio, limit if limited else NO_LIMIT))
    return {
        "jobs": jobs,
        "question_bytes": frames[0],
        "answer_bytes": frames[1],
        "points_per_s": rate,
        "server_us_per_point": {count: 1e6 * s for count, s in cpu_s.items()},
        "latency": latency,
        "ratios": ratios,
    }


def is_kept(ratio: float, limit: float) -> bool:
    """The throughput has a least value, below 1; latencies have a largest one, above."""
    return not limit or (ratio >= limit if limit < 1 else ratio <= limit)


def as_text(found: dict[str, Any]) -> str:
    """The tables."""
    lines = [f"{'':12}{'points/s':>10}{'server us/point':>17}"]
    for count, rate in found["points_per_s"].items():
        lines.append(f"{count:>7} jobs{rate:>10.0f}{found['server_us_per_point'][count]:>17.0f}")
    columns = ("p10_ms", "p50_ms", "p99_ms", "cpu_us")
    lines += ["", " " * 12 + "".join(f"{name:>10}" for name in columns)]
    for name, figures in found["latency"].items():
        lines.append(f"{name:12}" + "".join(f"{figures[column]:>10.3g}" for column in columns))
    lines += [f"frames of {found['question_bytes']} and {found['answer_bytes']} bytes", ""]
    for name, ratio, limit in found["ratios"]:
        bound = "" if not limit else f"  at {'least' if limit < 1 else 'most'} {limit:g}"
        missed = "" if is_kept(ratio, limit) else "  MISSED"
        lines.append(f"{name:36}{ratio:>6.2f}{bound}{missed}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.many_jobs", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--jobs", type=whole_number(1), default=200)
    parser.add_argument("--rounds", type=whole_number(1), default=7)
    parser.add_argument("--pace", type=float, default=1.0, help="s between points of the others")
    parser.add_argument("--json", action="store_true", help='one object, "schema": 1')
    options = parser.parse_args(argv)
    load = os.getloadavg()[0]
    found = measure(options.jobs, options.rounds, options.pace)
    if options.json:
        print(json.dumps({"schema": 1, "benchmark": "many_jobs", "load": load, **found}))
    else:
        print(f"{as_text(found)}\nload average {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    return 0 if all(is_kept(ratio, limit) for _, ratio, limit in found["ratios"]) else 1


if __name__ == "__main__":
    sys.exit(main())
