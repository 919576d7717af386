"""An executor of `concurrent.futures` whose workers DQ starts and ends; docs/workers.md.

A thread of its own has the socket, the crew and the jobs of workers. Callers leave events in its
inbox. There is a job of workers while there is work: workers that have been idle for a while are
dismissed, which ends their job, and the next task begins another.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from socket import socketpair
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import zmq
from zmq.auth.thread import ThreadAuthenticator

from dq_client.base.address import host_and_port, is_remote
from dq_client.base.connection import DOMAIN, authenticated_router, prepare
from dq_client.base.errors import DQError, NoServer, Timeout, UsageError
from dq_client.base.keys import KeyPair
from dq_client.base.network import source_towards
from dq_client.base.states import ENDED
from dq_client.executor import crew
from dq_client.executor.crew import CrewEvent, What
from dq_client.executor.tasks import dumps, result_of
from dq_client.executor.worker import PYTHON, VARIABLE

Cluster: TypeAlias = Any  # those of client.py, which imports this module
Job: TypeAlias = Any
T = TypeVar("T")
PING_S = 1.0  # workers are looked after, and their jobs
FAILURES_MAX = 3  # jobs of workers that fail one after the other before a task is done
END_S = 3.0  # for workers to end by themselves; then their job is killed
SAID_BY_WORKERS = {
    b"ready": What.READY, b"answer": What.ANSWERED, b"crash": What.CRASHED, b"left": What.LEFT,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Progress:
    """Tasks of an executor, and its workers now. `repeated`: given to another worker again."""

    waiting: int
    running: int
    done: int
    failed: int
    repeated: int
    workers: int


@dataclass(frozen=True, slots=True)
class _Task:
    future: futures.Future[Any]
    packed: bytes


class Executor(futures.Executor):
    """Made by `dq_client.client.executor`. Its methods may be called by several threads."""

    def __init__(
        self,
        cluster: Cluster,
        least: int,
        most: int,
        *,
        initializer: Callable[..., Any] | None,
        initargs: tuple[Any, ...],
        idle_s: float,
        owned: bool,
        options: dict[str, Any],
    ) -> None:
        self._cluster, self._owned, self._most = cluster, owned, most
        self._setup = dumps((initializer, initargs))
        self._crew = crew.Crew(idle_s if least == 0 else float("inf"))
        self._tasks: dict[int, _Task] = {}
        self._numbers = count(1)
        self._done = self._failed = self._failures = 0
        self._jobs: list[Job] = []  # that have not ended
        self._open: Job | None = None  # the one of them that gets more workers
        self._next_look_s = 0.0
        self._closed = self._abandoned = False
        self._broken = ""
        self._inbox: deque[CrewEvent] = deque()
        self._lock = threading.Lock()
        self._woken, self._wake = socketpair()
        self._wake.setblocking(False)
        self._listen()
        self._options = {
            "name": "executor", "chdir": str(Path.cwd()), **options, "kind": "workers",
            "env": {**(options.get("env") or {}), VARIABLE: self._credentials},
        }  # fmt: skip
        self._least = least
        try:
            self._submit_job(most)
        except BaseException:
            self._hang_up()
            raise
        self._thread = threading.Thread(target=self._serve, name="dq-executor", daemon=True)
        self._thread.start()
        atexit.register(self._abandon)

    # --- what callers use -----------------------------------------------------------------------

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> futures.Future[T]:
        """Let a worker call `fn(*args, **kwargs)`, at least once; returns the future of its result.

        Raises:
            UsageError: the function or an argument cannot be sent to a worker.
            BrokenExecutor: the jobs of workers fail, or somebody has killed one.
            RuntimeError: after `shutdown`.
        """
        packed = dumps((fn, args, kwargs))
        future: futures.Future[T] = futures.Future()
        with self._lock:
            if self._broken:
                raise futures.BrokenExecutor(self._broken)
            if self._closed:
                raise RuntimeError("cannot submit tasks after shutdown")
            number = next(self._numbers)
            self._tasks[number] = _Task(future, packed)
        self._tell(CrewEvent(What.SUBMITTED, task=number))
        future.add_done_callback(
            lambda it: (
                self._tell(CrewEvent(What.CANCELLED, task=number)) if it.cancelled() else None
            )
        )
        return future

    def map(  # as in Python 3.14, which has buffersize, too
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """Yield `fn` of the items of the iterables, in their order.

        timeout: seconds from this call to the last result. chunksize: calls in one task.
        buffersize: so many tasks ahead of what was taken of the results, which may be endless;
        default: all at once.
        """
        if chunksize < 1 or (buffersize is not None and buffersize < 1):
            raise UsageError("chunksize and buffersize are at least 1")
        end_s = None if timeout is None else time.monotonic() + timeout
        items = zip(*iterables, strict=False)
        chunks = iter(lambda: list(islice(items, chunksize)), [])
        ahead = deque(self.submit(_each, fn, chunk) for chunk in islice(chunks, buffersize))

        def results() -> Iterator[T]:
            try:
                while ahead:
                    left_s = None if end_s is None else end_s - time.monotonic()
                    found = ahead[0].result(left_s)
                    ahead.popleft()
                    ahead.extend(self.submit(_each, fn, chunk) for chunk in islice(chunks, 1))
                    yield from found
            finally:
                for future in ahead:
                    future.cancel()

        return results()

    @property
    def progress(self) -> Progress:
        """How far it is."""
        doing = list(self._crew.doing.values())
        running = sum(task is not None for task in doing)
        waiting = max(0, len(self._tasks) - running)
        return Progress(waiting, running, self._done, self._failed, self._crew.repeated, len(doing))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks, and end the workers when the tasks are done.

        wait: return when the job of workers has ended. cancel_futures: cancel what no worker has.
        """
        with self._lock:
            self._closed = True
        if cancel_futures:
            for task in list(self._tasks.values()):
                task.future.cancel()
        self._tell()
        try:
            if wait:
                self._thread.join()
        except BaseException:  # Ctrl-C while waiting
            self._abandon()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """After an exception (Ctrl-C, too) tasks are given up at once; otherwise they are done."""
        if kind is None:
            self.shutdown()
        else:
            self._abandon()

    def __repr__(self) -> str:
        return f"<Executor {self.progress}>"

    def _abandon(self) -> None:
        with self._lock:
            self._closed = self._abandoned = True
        self._tell()
        self._thread.join()

    def _tell(self, *events: CrewEvent) -> None:
        """Leave events in the inbox and wake the thread."""
        self._inbox.extend(events)
        try:
            self._wake.send(b"!")
        except OSError:  # full: it is awake; closed: it has ended
            return

    # --- the thread -----------------------------------------------------------------------------

    def _listen(self) -> None:
        """Bind the socket of the workers, on the address that leads to the server."""
        mine, theirs = (
            KeyPair(public.decode(), secret.decode())
            for public, secret in (zmq.curve_keypair(), zmq.curve_keypair())
        )
        server = self._cluster._home.server()["address"]
        host = source_towards(host_and_port(server)[0]) if is_remote(server) else "127.0.0.1"
        if host is None:
            raise NoServer(f"no way from here to the server at {server}")
        self._key = theirs.public.encode()
        self._context = zmq.Context()
        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain=DOMAIN, credentials_provider=self)
        self._router = authenticated_router(self._context, mine)
        self._router.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a worker whose connection was lost
        self._router.setsockopt(zmq.LINGER, 500)
        address = f"tcp://[{host}]:*" if ":" in host else f"tcp://{host}:*"
        prepare(self._router, address)
        self._router.bind(address)
        bound = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self._credentials = f"{bound} {mine.public} {theirs.secret} {PYTHON}"

    def callback(self, domain: str, key: bytes) -> bool:
        """For the authenticator: may this key (Z85) connect?"""
        return domain == DOMAIN and key == self._key

    def _serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._woken, zmq.POLLIN)
        try:
            while (
                not self._abandoned and not self._broken and not (self._closed and not self._tasks)
            ):
                self._step(poller)
        except Exception as e:
            self._broken = f"the executor has failed: {e!r}"
            raise
        finally:
            self._end()

    def _step(self, poller: zmq.Poller) -> None:
        found = dict(poller.poll(int(PING_S * 1000)))
        if self._woken.fileno() in found:
            self._woken.recv(1 << 16)
        while self._inbox:
            self._handle(self._inbox.popleft())
        while self._router in found and self._router.poll(0):
            self._hear(*self._router.recv_multipart())
        if time.monotonic() >= self._next_look_s:
            self._next_look_s = time.monotonic() + PING_S
            for worker in list(self._crew.doing):
                if not self._send(worker, b"ping"):
                    self._handle(CrewEvent(What.LOST, worker))
            self._look_after_jobs()
            self._handle(CrewEvent(What.TICK))

    def _hear(self, worker: bytes, what: bytes, task: bytes, content: bytes) -> None:
        """A message of a worker."""
        number = int(task or 0)
        if what == b"hello":
            self._send(worker, b"setup", b"", dumps((sys.path, self._setup)))
            return
        event = CrewEvent(
            SAID_BY_WORKERS[what], worker, number, content.decode() if what == b"crash" else ""
        )
        for action in self._crew.handle(event, time.monotonic()):
            self._carry_out(action, content)

    def _handle(self, event: CrewEvent) -> None:
        if event.what is What.CANCELLED:
            self._drop(event.task)
        for action in self._crew.handle(event, time.monotonic()):
            self._carry_out(action)

    def _carry_out(self, action: crew.Action, content: bytes = b"") -> None:
        if isinstance(action, crew.Give):
            self._give(action.worker, action.task)
        elif isinstance(action, crew.Deliver):
            self._settle(action.task, *result_of(content))
            self._failures = 0
        elif isinstance(action, crew.GiveUp):
            text = f"the task was given up: {crew.LOSSES_MAX} workers have died of it"
            self._settle(action.task, None, DQError(f"{text} ({action.how})"))
        else:
            self._send(action.worker, b"end")
            if self._open is not None and action.worker.startswith(b"%d:" % self._open.id):
                self._open = None  # DQ starts no others in this one

    def _give(self, worker: bytes, number: int) -> None:
        task = self._tasks.get(number)
        if task is None or not (
            task.future.running() or task.future.set_running_or_notify_cancel()
        ):
            self._tasks.pop(number, None)
            self._handle(CrewEvent(What.CANCELLED, worker, number))
        elif not self._send(worker, b"task", b"%d" % number, task.packed):
            self._handle(CrewEvent(What.LEFT, worker))

    def _drop(self, number: int) -> None:
        """The future was cancelled; those who wait for it are told."""
        task = self._tasks.pop(number, None)
        if task is not None:
            task.future.set_running_or_notify_cancel()

    def _settle(self, number: int, value: Any, error: BaseException | None) -> None:
        future = self._tasks.pop(number).future
        if error is None:
            self._done += 1
            future.set_result(value)
        else:
            self._failed += 1
            future.set_exception(error)

    def _send(self, worker: bytes, what: bytes, task: bytes = b"", content: bytes = b"") -> bool:
        """Whether the worker is still there."""
        try:
            self._router.send_multipart([worker, what, task, content], zmq.NOBLOCK)
        except zmq.ZMQError as e:
            return what == b"ping" and e.errno == zmq.EAGAIN  # a full queue is no sign of death
        return True

    # --- its jobs -------------------------------------------------------------------------------

    def _submit_job(self, most: int) -> None:
        words = [sys.executable, "-m", "dq_client.executor.worker"]
        sizes = f"{min(self._least, most)}:{most}"
        self._open = self._cluster.submit(words, sizes=sizes, **self._options)
        self._jobs.append(self._open)

    def _look_after_jobs(self) -> None:
        try:
            for job in list(self._jobs):
                if (info := job.info)["state"] in ENDED:
                    self._note_end(job, info["state"], str(info["reason"]))
            most = self._most - len(self._crew.doing)
            if self._open is None and self._crew.waiting and most > 0 and not self._broken:
                self._submit_job(most)
        except (NoServer, Timeout):
            return  # workers go on without a server; it is asked again
        except DQError as e:
            self._broken = f"no workers: {e}"

    def _note_end(self, job: Job, state: str, reason: str) -> None:
        self._jobs.remove(job)
        if job is self._open:
            self._open = None
        for worker in [w for w in self._crew.doing if w.startswith(b"%d:" % job.id)]:
            self._handle(CrewEvent(What.LOST, worker, how=reason))
        if state != "done":
            self._failures += 1
            if state == "killed" or self._failures >= FAILURES_MAX:
                last = job.output("err").strip().splitlines()[-1:]
                self._broken = "; ".join([f"job {job.id} of its workers {state}: {reason}", *last])

    def _end(self) -> None:
        """End the workers and their jobs, and whatever still waits for a result."""
        atexit.unregister(self._abandon)
        for worker in self._crew.doing:
            self._send(worker, b"end")
        until_s = time.monotonic() + (0 if self._abandoned else END_S)
        for job in self._jobs:
            try:
                job.wait(max(0.0, until_s - time.monotonic()))
            except DQError:
                self._kill(job)
        with self._lock:
            self._closed = True
            why = self._broken or "the executor was left before the task was done"
            left = [task.future for task in self._tasks.values()]
            self._tasks.clear()
        for future in left:
            if future.running() or future.set_running_or_notify_cancel():
                future.set_exception(futures.BrokenExecutor(why))
        self._hang_up()

    def _kill(self, job: Job) -> None:
        try:
            job.kill()
            job.wait(10 * END_S)
        except DQError:
            return  # no server: the workers end when they have heard of nobody for a while

    def _hang_up(self) -> None:
        self._router.close()
        self._authenticator.stop()
        self._context.term()
        self._wake.close()
        self._woken.close()
        if self._owned:
            self._cluster.close()


def _each(fn: Callable[..., T], arguments: list[tuple[Any, ...]]) -> list[T]:
    return [fn(*words) for words in arguments]
