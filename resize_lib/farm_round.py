"""One round of a task farm: from its begin, or a resize, to its end, or the next resize.

Rank 0 gives each rank a few tasks at a time, itself included, and takes their results when the rank
asks for more. It answers in a thread, because a task of its own may take long: whoever asks
meanwhile would be idle. A few means about CHUNK_S, and fewer towards the end.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from mpi4py import MPI

from dq_client.base import messages as m
from resize_lib import tags
from resize_lib.remap_point import RemapDecision
from resize_lib.waiting import wait_until

if TYPE_CHECKING:
    from resize_lib.loops import Loop
    from resize_lib.runtime import Runtime

# What a rank gets at a time takes about so long: asking takes 0.1 ms, but 5 where rank 0 computes
# in Python itself and its thread has to wait for the interpreter.
CHUNK_S = 0.02
CHUNK_MAX = 1000
# Of what is left a rank gets this part of its share at most, so that all end together.
SHARE = 1 / 4
TEXT_MAX = 2000

Numbers: TypeAlias = list[int]  # of tasks


class TaskError(Exception):
    """The function of a task farm has raised, or its result cannot be pickled.

    `index` is the task's. The message names the task, the rank, the error, and where it was raised;
    on that rank the error is also the `__cause__`.
    """

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index

    def __reduce__(self) -> tuple[type[TaskError], tuple[int, str]]:
        return TaskError, (self.index, str(self))


@dataclass(slots=True)
class Work:
    """What one rank has done since it asked last; results are pickled."""

    results: dict[int, bytes] = field(default_factory=dict)
    took_s: float = 0.0
    failure: TaskError | None = None


class Dispatcher:
    """On rank 0: which tasks are left, who gets which, and what has come back. For two threads.

    left: numbers of tasks, the next one last.
    """

    def __init__(self, left: Numbers, ranks: int) -> None:
        self._left, self._ranks = left, ranks
        self._lock = threading.Lock()
        self._task_s = CHUNK_S  # what one takes; so at first one is given at a time
        self._stopped = False
        self.results: dict[int, bytes] = {}  # of this round
        self.failure: TaskError | None = None

    def exchange(self, work: Work) -> Numbers:
        """Take what a rank has done, and give it more; nothing: the round is over for it."""
        with self._lock:
            self.results |= work.results
            if work.results:
                self._task_s += (work.took_s / len(work.results) - self._task_s) / 4
            if work.failure is not None:
                self._stopped = True
                if self.failure is None or work.failure.index < self.failure.index:
                    self.failure = work.failure
            if self._stopped or not self._left:
                return []
            fair = int(len(self._left) * SHARE / self._ranks)
            count = max(1, min(fair, CHUNK_MAX, int(CHUNK_S / max(self._task_s, 1e-9))))
            chunk = self._left[-count:][::-1]
            del self._left[-count:]
            return chunk

    def stop(self) -> None:
        """Give nothing more: a pause."""
        with self._lock:
            self._stopped = True

    @property
    def goes_on(self) -> bool:
        """Whether somebody may still be given something."""
        with self._lock:
            return bool(self._left) and not self._stopped

    @property
    def done(self) -> int:
        """Tasks of this round."""
        with self._lock:
            return len(self.results)


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """What rank 0 tells all at the end of a round.

    told: a pause: what all do now; `failure` does not count then, the task is done once more
    reported: the server has heard of this round
    The others: see JobPosition.
    """

    results: dict[int, bytes]
    failure: TaskError | None
    told: RemapDecision | None
    reported: bool
    seq: int
    expanding: m.RemapAnswer | None
    asked: m.DynamicAnswer | None


class Round:
    """One rank's part. `comm` is the round's own."""

    def __init__(
        self,
        session: Runtime,
        comm: MPI.Intracomm,
        function: Callable[[Any], Any],
        todo: Sequence[Any],
    ) -> None:
        self._session, self._comm = session, comm
        self._function, self._todo = function, todo
        self._began_s = time.perf_counter()  # on rank 0, from here on:
        self._known = 0  # tasks that were done at the last report
        self._reported = False
        self.cause: Exception | None = None  # what a task has raised on this rank

    # --- rank 0 ------------------------------------------------------------------------------

    def lead(self, work: Dispatcher, loop: Loop) -> RoundEnd:
        """Give out all there is."""
        others = self._comm.size - 1
        thread = threading.Thread(target=self._serve, args=(work, others), daemon=True)
        alone = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        told: RemapDecision | None = None
        if others and alone:
            thread.start()
            told = self._compute(work, loop)
            thread.join()
        elif others:  # this MPI is for one thread at a time: then that one serves
            self._serve(work, others)
            self._compute(work, loop)  # what is left after a failure: nothing
        else:
            told = self._compute(work, loop)
        if self._broken is not None:  # the others wait for ever: so this rank must fail
            raise self._broken
        job = self._session.job
        failure = work.failure if told is None else None
        return RoundEnd(
            work.results, failure, told, self._reported, job.seq, job.expanding, job.asked
        )

    _broken: BaseException | None = None  # what ended the thread

    def _serve(self, work: Dispatcher, others: int) -> None:
        """Answer the other ranks until all have been told that the round is over."""
        try:
            while others:
                rank, done = self._receive(MPI.ANY_SOURCE)
                numbers = work.exchange(done)
                self._comm.send(numbers, rank, tags.FARM)
                others -= not numbers
        except BaseException as e:
            self._broken = e

    def _compute(self, work: Dispatcher, loop: Loop) -> RemapDecision | None:
        """Do tasks like any other rank, and report in between; what all have to do then."""
        told = None
        mine = Work()
        while numbers := work.exchange(mine):
            mine = self._do(numbers)
            if told is None and work.goes_on:
                told = self._report(work, loop)
                if told is not None:
                    work.stop()
        return told

    def _report(self, work: Dispatcher, loop: Loop) -> RemapDecision | None:
        """Now and then: say how long a task takes, all ranks together."""
        points, now_s = self._session.points, time.perf_counter()
        done = work.done - self._known
        took_s = now_s - self._began_s
        if not points.active or done < 2 * self._comm.size or took_s < points.interval_s:
            return None
        self._known, self._began_s = self._known + done, now_s
        self._reported = True
        loop.iteration += done
        self._session.note_position()
        return points.decide_alone(took_s / done, done)

    def _receive(self, source: int) -> tuple[int, Any]:
        """The next message, and who has sent it; asleep until it comes."""
        status = MPI.Status()
        message = wait_until(lambda: self._comm.improbe(source, tags.FARM, status))
        assert message is not None, "wait_until returns what is true"
        return status.Get_source(), message.recv()

    # --- all others -----------------------------------------------------------------------------

    def work(self) -> None:
        """Ask for tasks and do them until there are none."""
        comm, work = self._comm, Work()
        while True:
            request = comm.isend(work, 0, tags.FARM)
            numbers: Numbers = self._receive(0)[1]
            request.wait()
            if not numbers:
                return
            work = self._do(numbers)

    def _do(self, numbers: Numbers) -> Work:
        work, begin_s = Work(), time.perf_counter()
        for index in numbers:
            self._session.task_begins()
            try:
                work.results[index] = MPI.pickle.dumps(self._function(self._todo[index]))
            except Exception as e:
                self.cause, work.failure = e, self._failure(index, e)
                break
            finally:
                self._session.task_ends()
        work.took_s = time.perf_counter() - begin_s
        return work

    def _failure(self, index: int, error: Exception) -> TaskError:
        try:
            task = repr(self._todo[index])
        except Exception:  # of the application's class
            task = "?"
        where = "".join(traceback.format_exception(error)).rstrip()
        what = f"{type(error).__name__}: {error}"[:TEXT_MAX]
        return TaskError(
            index,
            f"task {index} ({task[:100]}) on rank {self._session.rank}: {what}\n"
            f"{where[-TEXT_MAX:]}",
        )
