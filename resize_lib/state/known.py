"""Objects of the library, which a rank that joins has under the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from resize_lib.declared.base import Declared
from resize_lib.declared.kept import Kept
from resize_lib.declared.packed import Value
from resize_lib.grid import Grid
from resize_lib.mistakes import COPIED
from resize_lib.state.digests import CannotDigestError
from resize_lib.state.iterators import CannotCopyError
from resize_lib.world import is_copy

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime
    from resize_lib.state.packing import Name

OWN = ("resize_lib", "mpi4py")
PART = "a part of the declared"


class Known:
    """The objects of a session now."""

    def __init__(self, session: Runtime) -> None:
        self._session = session
        self._kept = {
            id(value.value): name
            for name, value in session.values.items()
            if isinstance(value, Kept)
        }
        self._parts = list(_extents(session))

    def name(self, value: Any) -> Name | None:
        """What stands for it in what is sent; None: it is the program's.

        Raises:
            CannotCopyError: it refers to memory of declared data, which each rank has for itself.
        """
        session = self._session
        if isinstance(value, np.ndarray) and (part_of := self._part_of(value)) is not None:
            raise CannotCopyError(
                f"it is {PART} {part_of!r}: take {part_of}.local where it is used"
            )
        if id(value) in self._kept:
            return ("kept", self._kept[id(value)])
        if not type(value).__module__.startswith(OWN):
            return None
        if value is session.public:
            return ("session",)
        if isinstance(value, MPI.Comm):  # one that waits for its ranks refuses to be asked more
            names = (("comm", session.comm), ("world", MPI.COMM_WORLD))
            return next(((name,) for name, comm in names if comm is value), None)
        if isinstance(value, Value):
            return ("value", value.name) if session.values.get(value.name) is value else None
        if isinstance(value, Declared):
            known: Any = session.declared.get(value.name)
            return ("declared", value.name) if known is value else None
        return ("grid",) if value is session.grid else None

    def find(self, name: Name) -> Any:
        """The object that a name stands for.

        Raises:
            CannotCopyError: there is none here.
        """
        session = self._session
        match name:
            case ("kept", of) if of in session.values:
                return session.values[of].value
            case ("session",):
                return session.public
            case ("value", of) if of in session.values:
                return session.values[of]
            case ("declared", of) if of in session.declared:
                return session.declared[of]
            case ("comm",):
                return session.comm
            case ("world",):
                return MPI.COMM_WORLD
            case ("grid",):
                return session.grid
        raise CannotCopyError(f"there is no {' '.join(map(repr, name))} in this rank")

    def token(self, value: Any) -> bytes | None:
        """What stands for it in digests; None: it is the program's."""
        if isinstance(value, np.ndarray):
            part_of = self._part_of(value)
            return None if part_of is None else f"{PART} {part_of!r}".encode()
        name = self.name(value)
        if name is not None:
            return repr(name).encode()
        if isinstance(value, MPI.Comm) and is_copy(value, self._session.comm):
            raise CannotDigestError(COPIED)
        if isinstance(value, MPI.Comm | MPI.Request | MPI.Win | MPI.File | Grid):
            return type(value).__mro__[-2].__name__.encode()
        kind = type(value)
        parses = kind.__module__ == "argparse" and kind.__name__ != "Namespace"
        if (parses or kind.__module__.startswith(OWN)) and not isinstance(value, type):
            return kind.__qualname__.encode()  # a parser is large, and done with before the loop
        return None

    def _part_of(self, value: np.ndarray) -> str | None:
        """The name of the declared data whose memory an array refers to."""
        begin = value.__array_interface__["data"][0]
        return next((name for name, low, high in self._parts if low <= begin < high), None)


def _extents(session: Runtime) -> Any:
    """Names of what is declared, and its memory: first byte and end."""
    for item in session.declared.values():
        local = getattr(item, "local", None)
        if isinstance(local, np.ndarray) and local.nbytes:
            begin = int(local.__array_interface__["data"][0])
            last = sum((n - 1) * step for n, step in zip(local.shape, local.strides, strict=True))
            yield item.name, begin, begin + last + local.itemsize
