"""Find the BLAS and LAPACK that this Python already has.

numpy ships an OpenBLAS whose integers have 64 bits and whose names are ``scipy_dgemm_64_`` and the
like; scipy ships one with 32 bits; a distribution's numpy is linked to the system's; an operator
may want a vendor's. All are called the same way once the pattern of the names and the width of the
integers are known. Order of search: the file named by DQ_BLAS (only that one, if set), whatever
BLAS numpy has loaded into this process, numpy's and scipy's bundled files, the system's.

A candidate is taken only after it has factored a 2 x 2 matrix correctly: that finds out a wrong
integer width, a stub, or a BLAS without its LAPACK.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

ROUTINES = ("gemm", "trsm", "getrf", "laswp")
PRECISIONS = ("s", "d", "c", "z")
# name patterns, the safest first: only suffixed names say the width of their integers
_PATTERNS: tuple[tuple[str, int], ...] = (
    ("scipy_{}_64_", 64),
    ("{}_64_", 64),
    ("{}64_", 64),
    ("scipy_{}_", 32),
    ("{}_", 32),
)
_FILES = ("*openblas*", "*blas*", "*lapack*", "*mkl_rt*", "*flexiblas*")


class BlasMissingError(RuntimeError):
    """No usable BLAS with LAPACK: says where was looked and what to set."""


@dataclass(frozen=True)
class Library:
    """A loaded BLAS and LAPACK: the C functions by Fortran name (``dgemm``) and their integers."""

    path: str
    int_bits: int
    functions: dict[str, Any]

    @property
    def int_dtype(self) -> np.dtype[Any]:
        """numpy type of the library's integers."""
        return np.dtype(np.int64 if self.int_bits == 64 else np.int32)

    @property
    def c_int(self) -> Any:
        """ctypes type of the library's integers."""
        return ctypes.c_int64 if self.int_bits == 64 else ctypes.c_int32


def _loaded() -> Iterator[str]:
    """Files with BLAS in their name that are mapped into this process (numpy's, linked in)."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    seen = set()
    for line in maps.read_text().splitlines():
        path = line.partition("/")
        name = "/" + path[2] if path[1] else ""
        if ".so" in name and any(Path(name).match(pattern) for pattern in _FILES):
            seen.add(name)
    yield from sorted(seen, key=lambda name: ("numpy" not in name, "openblas" not in name, name))


def _bundled() -> Iterator[str]:
    """Files inside the wheels of numpy and scipy (scipy is not imported for that)."""
    for package in ("numpy", "scipy"):
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        home = Path(spec.origin).parent
        for folder in (home.parent / f"{package}.libs", home / ".dylibs", home / ".libs"):
            yield from (str(path) for path in sorted(folder.glob("*openblas*")))


def _system() -> Iterator[str]:
    for name in ("openblas", "mkl_rt", "flexiblas", "lapack", "blas"):
        found = ctypes.util.find_library(name)
        if found:
            yield found


def candidates() -> Iterator[str]:
    """Files to try, best first."""
    chosen = os.environ.get("DQ_BLAS")
    if chosen:
        yield chosen
        return
    seen: set[str] = set()
    for source in (_loaded, _bundled, _system):
        for path in source():
            if path not in seen:
                seen.add(path)
                yield path


def _bind(handle: ctypes.CDLL, pattern: str) -> dict[str, Any] | None:
    functions = {}
    for routine in (precision + name for precision in PRECISIONS for name in ROUTINES):
        try:
            function = getattr(handle, pattern.format(routine))
        except AttributeError:
            return None
        function.restype = None  # subroutines: the default would read a result that is not there
        functions[routine] = function
    return functions


def _works(library: Library) -> bool:
    """Factor [[1, 2], [4, 3]]: the rows must be exchanged, U(2,2) be 1.25."""
    matrix = np.array([[1.0, 2.0], [4.0, 3.0]], order="F")
    pivots = np.zeros(4, dtype=library.int_dtype)
    two, info, p = library.c_int(2), library.c_int(-1), ctypes.byref
    data, pivot_data = (ctypes.c_void_p(x.ctypes.data) for x in (matrix, pivots))
    library.functions["dgetrf"](p(two), p(two), data, p(two), pivot_data, p(info))
    right = np.array_equal(pivots, [2, 2, 0, 0]) and np.array_equal(
        matrix, [[4.0, 3.0], [0.25, 1.25]]
    )
    return info.value == 0 and right


def _one_thread(handle: ctypes.CDLL) -> None:
    """One thread per rank, unless the user has set a number.

    Set, not only left to the environment: a program that imports numpy before resize_lib, which
    puts 1 there, has a library that has counted the processors already.
    """
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    wish = next((os.environ[name] for name in names if os.environ.get(name)), "1")
    if wish.isdecimal() and int(wish) > 0:
        set_threads(handle, int(wish))


def set_threads(handle: ctypes.CDLL, count: int) -> bool:
    """Let an OpenBLAS compute with ``count`` threads from now on; False if it is another library.

    It counts for the whole process: numpy's own products use the same library.
    """
    for pattern, _ in _PATTERNS:
        # C functions lack Fortran's underscore: scipy_dgemm_64_, scipy_openblas_…64_
        name = pattern.replace("{}_", "{}").format("openblas_set_num_threads")
        setter = getattr(handle, name, None)
        if setter is not None:
            setter(ctypes.c_int(count))
            return True
    return False


def open_library(path: str) -> Library | None:
    """The library at ``path``, bound and proven, or None if it is not a usable one."""
    try:
        handle = ctypes.CDLL(path)
    except OSError:
        return None
    for pattern, bits in _PATTERNS:
        functions = _bind(handle, pattern)
        if functions is None:
            continue
        library = Library(path, bits, functions)
        # Called with integers of the wrong width, a library may still seem to work on a
        # little-endian machine: only a computed result tells.
        if _works(library):
            _one_thread(handle)
            return library
    return None


@cache
def library() -> Library:
    """The library of this process (searched once).

    Raises:
        BlasMissingError: none of the candidates works.
    """
    tried = []
    for path in candidates():
        found = open_library(path)
        if found is not None:
            return found
        tried.append(path)
    raise BlasMissingError(
        f"no usable BLAS and LAPACK among {', '.join(tried) or 'no files at all'}: "
        "set DQ_BLAS to the file of one"
    )
