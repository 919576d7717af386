"""Values as bytes for the ranks that join, with references to what these have already.

All values go through one pickler, so what they share they share afterwards, too. Objects that a
rank which joins has made in its set-up (anchors), declared objects and what belongs to the session
travel as names.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import pickle
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from resize_lib.redistribution.blocks import address_of
from resize_lib.state import views
from resize_lib.state.digests import ATOMS, wrapped
from resize_lib.state.iterators import CannotCopyError
from resize_lib.state.objects import ARRAY
from resize_lib.state.places import CONTENTS, Path, Place
from resize_lib.state.survey import BYTES_MAX, BYTES_VARIABLE, Anchors, TooMuchError

Name: TypeAlias = tuple[Any, ...]
Large: TypeAlias = npt.NDArray[np.uint8]
LARGE_BYTES = 1 << 16  # of arrays that are not copied into the payload
MADV_POPULATE_WRITE = 23  # from Linux 5.14 on


@dataclass(frozen=True, slots=True)
class PackedState:
    """Values of places as bytes.

    large: the contents of large arrays, which `payload` refers to, in order; not copied
    sizes: of each, in bytes. failed: places whose value cannot be copied, with the reason
    whole: numbers in `large` of the contents of arrays
    """

    payload: bytes
    large: list[Large]
    sizes: dict[Path, int]
    failed: dict[Path, str]
    whole: dict[Path, int]


class _Pickler(pickle.Pickler):
    def __init__(
        self, file: io.BytesIO, anchors: Anchors, name_of: Callable[[Any], Name | None]
    ) -> None:
        super().__init__(file, 5, buffer_callback=self._keeps)
        self.large: list[Large] = []
        self._anchors, self._name_of = anchors, name_of
        self.contents: Any = None  # of an array: no view of it, but what it has
        self._file = file

    def count(self) -> int:
        """Bytes so far."""
        return self._file.tell() + sum(each.nbytes for each in self.large)

    def _keeps(self, buffer: pickle.PickleBuffer) -> bool:
        """Whether the contents of an array go into the payload."""
        raw = buffer.raw()
        if raw.nbytes < LARGE_BYTES or raw.readonly:
            return True
        self.large.append(np.frombuffer(raw, np.uint8))
        return False

    def reducer_override(self, value: Any) -> Any:
        """A view of an array that the loop has made is one there, too."""
        if type(value) is np.ndarray and value is not self.contents and value.base is not None:
            root = views.root(value)
            view = views.view_of(value, root) if root is not value else None
            if view is not None:
                return views.made, (view, root)
        if isinstance(value, staticmethod | classmethod | property):
            return type(value), tuple(wrapped(value))
        return NotImplemented

    def persistent_id(self, value: Any) -> Any:
        if type(value) in ATOMS:
            return None
        name = self._name_of(value)
        if name is not None:
            return name
        if isinstance(value, MPI.Comm):
            raise CannotCopyError("it holds a communicator: make it in @rs.setup")
        anchor = self._anchors.of(value)
        if anchor is not None:
            return ("at", anchor.key)
        view = self._anchors.around(value) if value is not self.contents else None
        if view is not None:
            return ("view", view[0].key, view[1])
        return ("module", value.__name__) if isinstance(value, types.ModuleType) else None


class _Unpickler(pickle.Unpickler):
    def __init__(
        self,
        file: io.BytesIO,
        large: Iterable[Any],
        anchors: Anchors,
        object_of: Callable[[Name], Any],
    ) -> None:
        super().__init__(file, buffers=[memoryview(each) for each in large])
        self._anchors, self._object_of = anchors, object_of
        self.copies = True  # of arrays: what they are made of may be anybody's

    def find_class(self, module: str, name: str) -> Any:
        """Arrays own their memory, as those of the other ranks do: a program may resize them."""
        found = super().find_class(module, name)
        if name == "_frombuffer" and module.startswith("numpy"):
            return lambda *given: found(*given).copy("K") if self.copies else found(*given)
        return found

    def persistent_load(self, name: Any) -> Any:
        if name[0] in ("at", "view"):
            anchor = self._anchors.by_key.get(name[1])
            found = anchor.get() if anchor is not None else None
            if found is None:
                raise CannotCopyError("it refers to an object that the set-up here has not made")
            return found if name[0] == "at" else views.made(name[2], found)
        if name[0] == "module":
            return __import__("importlib").import_module(name[1])
        return self._object_of(name)


def pack(
    places: Mapping[Path, Place],
    anchors: Anchors,
    name_of: Callable[[Any], Name | None],
) -> PackedState:
    """The values of these places now.

    name_of: what stands for an object of the session

    Raises:
        TooMuchError: more bytes than may travel.
    """
    failed: dict[Path, str] = {}
    limit = _limit()
    while True:
        buffer = io.BytesIO()
        sizes: dict[Path, int] = {}
        contents: dict[Path, int] = {}
        pickler = _Pickler(buffer, anchors, name_of)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # itertools, from Python 3.12 on
            for path, place in places.items():
                if path in failed:
                    continue
                begin = pickler.count()
                try:
                    value = place.get()
                    whole = isinstance(value, np.ndarray) and (
                        place.step == CONTENTS or pickler.persistent_id(value) is None
                    )
                    sizes[path] = value.nbytes if whole else 0
                    if begin + sizes[path] <= limit:
                        pickler.contents = value if place.step == CONTENTS else None
                        count = len(pickler.large)
                        pickler.dump(value)
                        if whole and place.step == CONTENTS and len(pickler.large) > count:
                            contents[path] = count
                        sizes[path] = pickler.count() - begin
                except Exception as e:  # any class may raise anything
                    failed[path] = _why_not(e)
                    break
                if begin + sizes[path] > limit:
                    raise _too_much(sizes, anchors, limit)
            else:
                return PackedState(buffer.getvalue(), pickler.large, sizes, failed, contents)


def _why_not(error: Exception) -> str:
    """Why a value cannot be copied; a class of somebody else's does not say what to do."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, CannotCopyError):
        return text
    return f"{text}: keep what it is made of, and make it in the iteration"


def _limit() -> int:
    return int(os.environ.get(BYTES_VARIABLE) or BYTES_MAX)


def _too_much(sizes: dict[Path, int], anchors: Anchors, limit: int) -> TooMuchError:
    largest = max(sizes, key=lambda path: sizes[path])
    error = TooMuchError(
        f"{anchors.shown(largest)} has {sizes[largest] / (1 << 20):.0f} MiB; at most"
        f" {limit >> 20} MiB of plain variables travel to ranks that join: declare it (rs.array,"
        f" rs.keep), or raise {BYTES_VARIABLE}"
    )
    error.path = largest
    return error


def unpack(
    payload: bytes | bytearray,
    large: Iterable[Any],
    paths: list[Path],
    anchors: Anchors,
    object_of: Callable[[Name], Any],
) -> dict[Path, Any]:
    """The values of these places, as `pack` was given them.

    Raises:
        Exception: whatever a class raises when one of its objects is made.
    """
    unpickler = _Unpickler(io.BytesIO(payload), large, anchors, object_of)
    found: dict[Path, Any] = {}
    for path in paths:
        unpickler.copies = not _is_only_read(path, anchors)
        found[path] = unpickler.load()
    return found


def _is_only_read(path: Path, anchors: Anchors) -> bool:
    """Whether a value is the contents of an array that is there: it is copied, and dropped."""
    array = _array(path, anchors)
    return array is not None and not array.dtype.hasobject


def _array(path: Path, anchors: Anchors) -> npt.NDArray[Any] | None:
    anchor = anchors.by_key.get(path[0]) if path[1] == CONTENTS else None
    return anchor.get() if anchor is not None and anchor.kind is ARRAY else None


def ready(anchors: Anchors) -> None:
    """Have the memory of arrays ready that may get other contents, if no more than may travel."""
    own = [memory((key, CONTENTS), anchors) for key in anchors.by_key]
    large = [each for each in own if each is not None and each.nbytes >= LARGE_BYTES]
    if sum(each.nbytes for each in large) <= _limit():
        for each in large:
            populate(each)


def populate(memory: Large) -> None:
    """Have all pages of memory of this process ready to be written; what it holds stays.

    Where the system does not know how, nothing happens: the pages come when they are written.
    """
    begin = address_of(memory) // mmap.PAGESIZE * mmap.PAGESIZE
    length = address_of(memory) + memory.nbytes - begin
    libc = ctypes.CDLL(None)
    libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(length), MADV_POPULATE_WRITE)


def memory(path: Path, anchors: Anchors) -> Large | None:
    """That of an array which gets its contents from elsewhere; None: they cannot go there at once.

    In the order of the memory: what is unpacked over it says which order that is.
    """
    array = _array(path, anchors)
    if array is None or array.dtype.hasobject or not (array.flags.forc and array.flags.writeable):
        return None
    return np.asarray(array).ravel("K").view(np.uint8)
