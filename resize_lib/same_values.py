"""Whether what `rs.value` and `rs.keep` declare is the same on every rank, as it must be.

A rank that joins gets rank 0's, and what a rank that leaves had is lost. If another rank had
something else there, for example random numbers of its own, the job would go on with other numbers
than without the resize, and its owner would not be told. Compared at every resize, and at the end
of a job that could have been resized, as the values were when its last loop ended: what a program
does with them on one rank afterwards, to print them for example, is its own affair.

Equal values may pickle differently (sets, shared references), so a difference of the pickles is
only the occasion to compare the values themselves.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.declared.kept import Kept
from resize_lib.declared.packed import Value
from resize_lib.waiting import idle_bcast, wait_all


def bounds(pickled: bytes) -> NDArray[np.float64]:
    """Numbers for a reduction with MAX, whose result goes to `differ`.

    pickled: the values (`pickled_values`)
    """
    number = int.from_bytes(hashlib.sha256(pickled).digest()[:6], "little")  # exact as a float
    return np.array([number, -number, 0 if pickled else 1], np.float64)


def differ(reduced: NDArray[np.float64]) -> bool:
    """Whether two ranks have given different `bounds`, and all could be pickled."""
    return bool(reduced[0] != -reduced[1] and not reduced[2])


def pickled_values(values: Mapping[str, Value[Any]]) -> bytes:
    """The values by name, pickled; empty if that is impossible."""
    try:
        return bytes(MPI.pickle.dumps({name: held.value for name, held in values.items()}))
    except Exception:  # any class may raise anything
        return b""


def differing_value(comm: MPI.Intracomm, declared: Mapping[str, Value[Any]]) -> str:
    """The name of a value that is not the same on all ranks, with the ranks; empty: there is none.

    Collective. A value that cannot be pickled is left to the redistribution, which says so.
    """
    mine = pickled_values(declared)
    reduced = bounds(mine)
    wait_all([comm.Iallreduce(MPI.IN_PLACE, reduced, MPI.MAX)])
    if not differ(reduced):
        return ""
    theirs: bytes = idle_bcast(comm, mine)
    values = {name: held.value for name, held in declared.items()}
    found = _differs(mine, theirs, values)
    # By number: names are equal on all ranks, and so is their order.
    names = list(values)
    first = np.array([names.index(found) if found else len(names), comm.rank if found else -1])
    lowest = first[:1].copy()
    wait_all([comm.Iallreduce(MPI.IN_PLACE, lowest, MPI.MIN)])
    if lowest[0] == len(names):
        return ""
    rank = np.array([comm.rank if first[0] == lowest[0] else comm.size])
    wait_all([comm.Iallreduce(MPI.IN_PLACE, rank, MPI.MIN)])
    name = names[int(lowest[0])]
    kind = "rs.keep" if isinstance(declared[name], Kept) else "rs.value"
    return (
        f"{declared[name].where}: {kind} {name!r} is not the same on all ranks: rank {int(rank[0])}"
        " has another one than rank 0; a value must be equal on every rank, what each rank has for"
        f" itself is no {kind}: declare that with rs.local_state"
    )


def _differs(mine: bytes, theirs: bytes, values: Mapping[str, Any]) -> str:
    if mine == theirs:
        return ""
    try:
        other = MPI.pickle.loads(theirs)
    except Exception:  # the redistribution will say so
        return ""
    for name, value in values.items():
        if name not in other or not same(value, other[name]):
            return name
    return ""


def same(a: Any, b: Any, depth: int = 0) -> bool:
    """Whether two values are equal, as far as can be known: what cannot be compared counts as such.

    NaN equals NaN.
    """
    if a is b or depth > 50:
        return True
    if type(a) is not type(b):
        return bool(_equal(a, b))
    if isinstance(a, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype == object:
            return all(same(x, y, depth + 1) for x, y in zip(a.flat, b.flat, strict=True))
        return bool(a.tobytes() == b.tobytes()) or bool(_equal_arrays(a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], depth + 1) for k in a)
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(same(x, y, depth + 1) for x, y in zip(a, b, strict=True))
    if _equal(a, b):
        return True
    if "__eq__" not in {name for kind in type(a).__mro__[:-1] for name in vars(kind)}:
        return _same_contents(a, b, depth)
    return bool(a != a and b != b)


def _same_contents(a: Any, b: Any, depth: int) -> bool:
    """Of objects of a class that does not say when two of them are equal."""
    with suppress(Exception):  # a partial, for example, has more than attributes
        one, other = a.__reduce_ex__(2), b.__reduce_ex__(2)
        return same(one, other, depth + 1)
    try:
        return same(vars(a), vars(b), depth + 1)
    except TypeError:
        return bytes(MPI.pickle.dumps(a)) == bytes(MPI.pickle.dumps(b))


def _equal(a: Any, b: Any) -> bool:
    with suppress(Exception):  # any class may raise anything
        return bool(np.all(a == b))
    try:
        return bytes(MPI.pickle.dumps(a)) == bytes(MPI.pickle.dumps(b))
    except Exception:  # neither can it be copied
        return False


def _equal_arrays(a: Any, b: Any) -> bool:
    try:
        return bool(np.array_equal(a, b, equal_nan=True))
    except TypeError:
        return bool(np.array_equal(a, b))
