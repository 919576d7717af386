"""`dq.executor` with a real cluster: workers come, leave and die, each result comes once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, as_completed
from pathlib import Path

import pytest
import zmq

from dq_client import client as dq
from dq_client.base.errors import DQError, UsageError
from dq_client.base.keys import pair_of
from dq_client.executor.executor import Executor
from dq_client.executor.tasks import RemoteTraceback
from harness.commands import HANG_S
from harness.live import Live
from tests.live.test_workers_live import has, mpi_job, runs

pytestmark = pytest.mark.live
MARK: list[str] = []  # in a worker's process: what its initializer has left


def slow_square(x: int) -> int:
    time.sleep(0.2)
    return x * x


def mark(word: str) -> None:
    MARK.append(word)


def marked() -> list[str]:
    return MARK


def fails(word: str) -> None:
    raise KeyError(word)


def dies(_: object = None) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def once_dead(path: str) -> str:
    """Kill the worker, not only the process that does its tasks; the second time return."""
    if not Path(path).exists():
        Path(path).touch()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    return "done again"


def gate(path: str) -> int:
    while not Path(path).exists():
        time.sleep(0.05)
    return os.getpid()


@pytest.fixture
def here(shared: Live) -> Iterator[dq.Cluster]:
    with dq.connect(shared.home.root) as found:
        yield found
        until(lambda: nothing_left(found))


def submitted(here: dq.Cluster) -> list[str]:
    """The states of the jobs of workers, oldest first."""
    return [row["state"] for row in here.jobs() if row["kind"] == "workers"]


def until(what: Callable[[], object]) -> None:
    """Wait until something is there; the machine may be slow."""
    end_s = time.monotonic() + 120
    while not what():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def nothing_left(here: dq.Cluster) -> bool:
    return here.jobs(active_only=True) == []


@pytest.mark.mpi
def test_every_result_comes_once_in_order_while_workers_come_and_leave(
    shared: Live, here: dq.Cluster
) -> None:
    all_, one = mpi_job(shared, 4), mpi_job(shared, 1)
    runs(shared, all_)
    with dq.executor(0, 4, cluster=here) as pool:
        job = here.job(0).id
        results = pool.map(slow_square, range(200))
        shared.wait(job, has(0))
        assert pool.progress.workers == pool.progress.done == 0
        shared.dq("kill", all_)
        shared.wait(job, has(3))
        until(lambda: pool.progress.running == 3)
        two = mpi_job(shared, 2)
        shared.wait(job, has(1))
        runs(shared, two)
        shared.dq("kill", one, two)
        shared.wait(job, has(4))
        assert list(results) == [n * n for n in range(200)]
        found = pool.progress
        assert (found.done, found.failed, found.waiting, found.running) == (200, 0, 0, 0)
        assert found.repeated >= 2  # those of the two that had to leave


def test_a_worker_that_is_killed_loses_no_task(here: dq.Cluster, tmp_path: Path) -> None:
    with dq.executor(0, 3, cluster=here) as pool:
        results = [pool.submit(slow_square, n) for n in range(20)]
        deadly = pool.submit(once_dead, str(tmp_path / "dead"))
        assert [future.result(120) for future in results] == [n * n for n in range(20)]
        assert deadly.result(120) == "done again"
        assert pool.progress.repeated >= 1
    assert "failed" in submitted(here)[-2:]  # and there was another job of workers


def test_a_task_that_kills_its_process_ends_neither_the_worker_nor_the_others(
    here: dq.Cluster,
) -> None:
    before = len(submitted(here))
    with dq.executor(0, 1, cluster=here) as pool:
        deadly, good = pool.submit(dies), pool.submit(slow_square, 3)
        with pytest.raises(DQError, match=r"5 workers have died of it \(SIGSEGV\)"):
            deadly.result(120)
        assert good.result(120) == 9
        assert len(submitted(here)) == before + 1


def test_an_exception_comes_with_the_workers_traceback(here: dq.Cluster) -> None:
    with dq.executor(0, 1, cluster=here, initializer=mark, initargs=("set",)) as pool:
        with pytest.raises(KeyError, match="gone") as caught:
            pool.submit(fails, "gone").result(120)
        cause = caught.value.__cause__
        assert isinstance(cause, RemoteTraceback)
        assert "raise KeyError(word)" in str(cause)
        with pytest.raises(UsageError, match="cannot be sent"):
            pool.submit(threading.Lock().acquire)
        with pytest.raises(UsageError, match="cannot be sent"):
            pool.submit(threading.Lock).result(120)  # a result that cannot travel
        assert pool.submit(marked).result(120) == ["set"]
        assert pool.progress.failed == 2
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(marked)


def test_what_no_worker_has_can_be_cancelled(here: dq.Cluster, tmp_path: Path) -> None:
    door = tmp_path / "door"
    with dq.executor(0, 1, cluster=here) as pool:
        first = pool.submit(gate, str(door))
        others = [pool.submit(slow_square, n) for n in range(5)]
        until(first.running)
        assert others[2].cancel()
        assert not first.cancel()
        pool.shutdown(wait=False, cancel_futures=True)
        door.touch()
        assert first.result(120) > 0
        assert all(future.cancelled() for future in as_completed(others, timeout=HANG_S))
        with pytest.raises(CancelledError):
            others[0].result()


def test_map_in_pieces_takes_no_more_of_an_endless_iterable_than_it_may(here: dq.Cluster) -> None:
    taken: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            taken.append(len(taken))
            yield taken[-1]

    with dq.executor(0, 2, cluster=here) as pool:
        results = pool.map(slow_square, endless(), chunksize=3, buffersize=4)
        assert [next(results) for _ in range(7)] == [n * n for n in range(7)]
        assert len(taken) <= 3 * (4 + 3)
        results.close()  # type: ignore[attr-defined]
        with pytest.raises(UsageError, match="at least 1"):
            pool.map(slow_square, [1], chunksize=0)
        with pytest.raises(TimeoutError):
            list(pool.map(slow_square, range(100), timeout=0.3))


def test_the_idle_hold_no_processor_and_the_next_task_gets_workers(here: dq.Cluster) -> None:
    with dq.executor(0, 2, cluster=here, idle_s=0.5) as pool:
        assert pool.submit(slow_square, 2).result(120) == 4
        until(lambda: nothing_left(here))
        assert pool.progress.workers == 0
        assert pool.submit(slow_square, 3).result(120) == 9
    assert submitted(here)[-2] == "done"


PROGRAM = """
import signal, sys, time
from dq_client import client as dq

def mine(x):
    time.sleep(0.1)
    return x + 1

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    with dq.executor(0, 2) as pool:
        what, count = (mine, 3) if sys.argv[1] == "own" else (abs, 1_000_000)
        for number in pool.map(what, range(count), buffersize=20):
            print(number, flush=True)
"""


def test_ctrl_c_leaves_nothing_behind(shared: Live, here: dq.Cluster, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [sys.executable, str(program), "foreign"]
    process = subprocess.Popen(words, env=shared.env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=HANG_S)
    assert said.strip().endswith("KeyboardInterrupt")
    own = subprocess.run([*words[:2], "own"], env=shared.env, capture_output=True, text=True,
                         timeout=HANG_S)  # fmt: skip
    assert own.returncode == 1 or own.stdout == "1\n2\n3\n"
    if own.returncode:  # without cloudpickle
        assert "mine is defined in the program itself" in own.stderr
        assert "pip install cloudpickle" in own.stderr


def test_a_job_of_workers_that_is_killed_or_cannot_start_breaks_the_executor(
    here: dq.Cluster, tmp_path: Path
) -> None:
    with pytest.raises(BrokenExecutor, match="killed by"), dq.executor(0, 2, cluster=here) as pool:
        task = pool.submit(gate, str(tmp_path / "never"))
        until(task.running)
        here.job(0).kill()
        task.result(120)
    with (
        pytest.raises(BrokenExecutor, match=r"failed: .*has not come up"),
        dq.executor(0, 1, cluster=here, initializer=dies) as pool,
    ):
        pool.submit(marked).result(120)
    with pytest.raises(UsageError, match="nonsense"):
        dq.executor(0, 2, cluster=here, nonsense=1)


def test_no_stranger_speaks_to_an_executor(here: dq.Cluster) -> None:
    """Neither without a key, nor with another one: nothing that it sends is unpickled."""
    with dq.executor(0, 1, cluster=here) as pool:
        assert pool.submit(abs, -1).result(120) == 1
        address, executor_key, _, _ = _credentials(pool)
        context = zmq.Context()
        stranger = context.socket(zmq.DEALER)
        pair = pair_of(zmq.curve_keypair()[1].decode())
        stranger.curve_serverkey = executor_key.encode()
        stranger.curve_publickey, stranger.curve_secretkey = (
            pair.public.encode(),
            pair.secret.encode(),
        )
        plain = context.socket(zmq.DEALER)
        for other in (stranger, plain):
            other.linger = 0
            other.connect(address)
            other.send_multipart([b"hello", b"", b""])
        time.sleep(1)
        assert not stranger.poll(500)
        assert not plain.poll(0)
        assert pool.submit(abs, -2).result(120) == 2
        context.destroy(linger=0)


def _credentials(pool: Executor) -> list[str]:
    return pool._credentials.split()
