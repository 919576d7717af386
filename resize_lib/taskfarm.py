"""Task farms: `rs.map`. Work that is shared out over whoever is there.

    a round     from one resize to the next: ranks compute and ask for more (farm_round.py)
    a report    by rank 0 alone, after every rank could do some tasks: the others do not stop for it
    a pause     only if the server orders a resize, or a copy is due: nobody gets a task any more,
                and when all have ended theirs, all make the remap point

At the end of a round all ranks get the results that are new, so any rank may leave, rank 0 too.
They are kept while the iteration goes on in which `rs.map` was called (for ever, where there is
none): ranks that join get them before all else, so `rs.map` returns them there, too, where the job
has left it. In a protected job they are a declared value as well, so that copies contain them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from mpi4py import MPI

from resize_lib.declared.packed import Value
from resize_lib.farm_round import Dispatcher, Round, RoundEnd
from resize_lib.loops import Loop, LoopError
from resize_lib.redistribution.agreement import gather_records
from resize_lib.waiting import idle_bcast

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime


class MapResults(Sequence[Any]):
    """In a job that was restarted after a task farm: the results, once its copy has been read.

    Raises:
        LoopError: when read earlier, outside of the loops that the job was in.
    """

    def __init__(self, results: dict[int, bytes], count: int) -> None:
        self._results, self._count = results, count
        self._known: list[Any] | None = None

    def _list(self) -> list[Any]:
        if self._known is None:
            if len(self._results) != self._count:
                raise LoopError(
                    "this rank does not have the results of rs.map yet; it reads them before it has"
                    " come to where the job is. Compute what depends on them in the loop that"
                    " follows, or keep it in rs.value"
                )
            self._known = in_order(self._results)
        return self._known

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self._list()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._list())

    def __eq__(self, other: object) -> bool:
        return self._list() == (other._list() if isinstance(other, MapResults) else other)

    __hash__ = None  # type: ignore[assignment] # mutable results, as a list's

    def __repr__(self) -> str:
        return repr(self._list())


def in_order(results: dict[int, bytes]) -> list[Any]:
    """The results of all tasks, unpickled: they come from this job's own ranks."""
    return [MPI.pickle.loads(results[index]) for index in range(len(results))]


class Farms:
    """The task farms of one process."""

    def __init__(self, session: Runtime) -> None:
        self._session = session
        # Those whose results may still be asked for: the loop and the iteration they were called
        # in.
        self._held: dict[str, tuple[Loop | None, int]] = {}

    def prune(self) -> None:
        """At a remap point: forget results of iterations that are over. The same on every rank."""
        for name, (loop, iteration) in list(self._held.items()):
            if not self._session.loops.running(loop, iteration):
                self._forget(name)

    def _forget(self, name: str) -> None:
        del self._held[name], self._session.job.results[name]
        self._session.values.pop(name, None)

    def arrived(self) -> None:
        """Values have been set from a copy, or from other ranks: go on with those."""
        for name in self._held:
            if (value := self._session.values.get(name)) is not None:
                results = self._session.job.results[name]
                results |= value.value
                value.value = results

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any], name: str) -> Sequence[Any]:
        """See Session.map."""
        session, loops = self._session, self._session.loops
        todo: Sequence[Any] = tasks if isinstance(tasks, Sequence) else list(tasks)
        around, place = loops.innermost, f"results of rs.map {loops.next_place}"
        label = name or f"{loops.next_label} map"
        results = session.job.results.setdefault(place, {})
        self._held[place] = around, around.iteration if around is not None else 0
        if session.protector is not None:
            session.values[place] = Value(place, results)
        with loops.inside(label, kind="map") as loop:
            # A rank that joins has been told the job's results only now, if this is its first loop.
            results = session.job.results.setdefault(place, results)
            if loop is None:
                done = len(results) == len(todo)
                return in_order(results) if done else MapResults(results, len(todo))
            while (end := self._round(function, todo, results, loop))[0].told is not None:
                pass  # who has joined begins with a round, too, though none may be left to do
        failure, cause = end[0].failure, end[1]
        if failure is not None:
            self._forget(place)
            raise failure from cause
        return in_order(results)

    def _round(
        self,
        function: Callable[[Any], Any],
        todo: Sequence[Any],
        results: dict[int, bytes],
        loop: Loop,
    ) -> tuple[RoundEnd, Exception | None]:
        """Until all is done, a task fails, or the job is resized; collective."""
        session, job = self._session, self._session.job
        session.call_hooks()
        # Of its own: the program may have messages under way that anybody could take.
        comm = MPI.Intracomm(session.comm).Dup()
        _check_counts(comm, len(todo))
        part = Round(session, comm, function, todo)
        end: RoundEnd | None = None
        if comm.rank == 0:
            left = [index for index in reversed(range(len(todo))) if index not in results]
            loop.iteration = len(results)
            end = part.lead(Dispatcher(left, comm.size), loop)
        else:
            part.work()
        end = idle_bcast(comm, end)
        assert end is not None, "rank 0 has it"
        comm.Free()
        results |= end.results
        loop.iteration = len(results)
        job.seq, job.expanding, job.asked = end.seq, end.expanding, end.asked
        if end.reported:
            session.loops.point_is_inside()
        if end.told is not None:
            session.note_position()
            session.points.settle()
            session.remapped(stays=session.points.follow(end.told, len(end.results)))
        return end, part.cause


def _check_counts(comm: MPI.Intracomm, count: int) -> None:
    """ValueError on every rank if the ranks have different numbers of tasks; collective."""
    mine = np.array([count], np.int64).view(np.uint8)
    counts = gather_records(comm, mine).view(np.int64).ravel().tolist()
    if len(set(counts)) > 1:
        comm.Free()
        raise ValueError(f"rs.map needs the same tasks on every rank; they have {counts} tasks")
