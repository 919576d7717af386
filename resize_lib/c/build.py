"""Building libdq, and the words with which a compiler builds a program against it.

libdq is made of dq.h (what programs call), embedding.c and any_source.c (what has to be C) and a
guard and a crossing to Python for each function of dq.h, which are generated here. It is built for
one interpreter, and finds that one's packages again by its path.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resize_lib.c.mpi_library import MPIHere, MPILibraryError, mpi_here

HERE = Path(__file__).parent
MODULE = "_dq"
LIBRARY = "libdq.so"
SHIPPED = ("dq.h", "dq.f90")
IN_C = ("dq_open", "dq_on_error", "dq_error")  # embedding.c has them
SCALAPACK = "libscalapack-mpich.so.2.2"  # its own name: the loader looks for that
COMPILE_LIMIT_S = 300.0
INIT = f"from {MODULE} import ffi, lib\nfrom resize_lib.c.binding import bind\nbind(ffi, lib)\n"


class BuildError(Exception):
    """libdq cannot be built here, in one line that says what is missing."""


@dataclass(frozen=True)
class Function:
    """One function of dq.h."""

    returns: str
    name: str
    parameters: str

    @property
    def arguments(self) -> str:
        """Its parameters' names."""
        names = [re.sub(r"\[.*", "", p).split()[-1].lstrip("*") for p in self.parameters.split(",")]
        return ", ".join(names)

    def crossing(self) -> str:
        """The declaration of what stands for it in Python."""
        name = self.name.replace("dq_", "dqpy_", 1)
        return f"{self.returns} {name}({self.parameters});"

    def guard(self) -> str:
        """Itself, in C: refuse before dq_open, else go to Python."""
        refused = "0" if "*" in self.returns else "-1"
        if self.name == "dq_next":  # it is asked for in the condition of a loop
            refused = "0"
        name = self.name.replace("dq_", "dqpy_", 1)
        return (
            f"{self.returns} {self.name}({self.parameters})\n{{\n"
            f'    if (!dqc_ready("{self.name}")) return {refused};\n'
            f"    return {name}({self.arguments});\n}}\n"
        )


def declarations(header: str) -> Iterator[str]:
    """The C declarations between the marks of a header, without comments."""
    text = (HERE / header).read_text()
    text = text.partition("/* [declarations] */")[2].partition("/* [end] */")[0]
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    begin = depth = 0
    for at, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == ";" and not depth:
            yield " ".join(text[begin:at].split())
            begin = at + 1


def functions() -> list[Function]:
    """The functions of dq.h."""
    found = []
    for text in declarations("dq.h"):
        if text.startswith("typedef"):
            continue
        match = re.fullmatch(r"(.*?)(dq_\w+)\((.*)\)", text)
        assert match is not None, f"dq.h: not a function: {text}"
        found.append(Function(match[1].strip(), match[2], match[3]))
    return found


def build(folder: Path) -> Path:
    """Make libdq.so in `folder`, with all that a program is compiled with; the library's path.

    Raises:
        BuildError: something is missing: cffi, a compiler, a shared libpython.
    """
    cffi = _cffi()
    python = _libpython()
    compiler = compiler_here()
    mpi = mpi_here()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dq-build-") as name:
        work = Path(name)
        source = _emit(cffi, work)
        made = work / LIBRARY
        # fmt: off
        words = [
            *compiler, "-shared", "-fPIC", "-O2", "-o", str(made), str(source),
            str(HERE / "embedding.c"), str(HERE / "any_source.c"), f"-I{HERE}",
            f"-I{sysconfig.get_path('include')}", f"-I{mpi.include()}",
            f'-DDQ_PYTHON="{_quoted(sys.executable)}"', str(python), f"-Wl,-rpath,{python.parent}",
            f"-Wl,-soname,{LIBRARY}", str(mpi.file), f"-Wl,-rpath,{mpi.file.parent}", "-ldl",
        ]
        # fmt: on
        _run(words)
        for file in SHIPPED:
            _replace(HERE / file, folder / file)
        _replace(made, folder / LIBRARY)
    (folder / "dq.pc").write_text(_pkg_config(folder.resolve(), mpi))
    _adapt_scalapack(folder, mpi)
    return folder / LIBRARY


def missing() -> str:
    """Why libdq cannot be built here; empty if it can. Compiles nothing."""
    try:
        _cffi()
        _libpython()
        compiler_here()
        mpi_here().include()
    except (BuildError, MPILibraryError) as e:
        return str(e)
    return ""


def flags(folder: Path, *, scalapack: bool = False) -> list[str]:
    """The words that compile and link a program against libdq in `folder`.

    Raises:
        BuildError: nothing is built there, or ScaLAPACK is wanted and missing.
    """
    if not (folder / LIBRARY).is_file():
        raise BuildError(f"no {LIBRARY} in {folder}: python -m resize_lib.c build -o {folder}")
    folder = folder.resolve()
    mpi = mpi_here()
    return [*_cflags(folder, mpi), *_libs(folder, mpi), *(_scalapack(folder) if scalapack else [])]


def _cflags(folder: Path, mpi: MPIHere) -> list[str]:
    return [f"-I{folder}", f"-I{mpi.include()}"]


def _libs(folder: Path, mpi: MPIHere) -> list[str]:
    # All of them, though a program may call none of MPI's functions: ScaLAPACK does.
    before, after = "-Wl,--push-state,--no-as-needed", "-Wl,--pop-state"
    paths = [f"-Wl,-rpath,{folder}", f"-Wl,-rpath,{mpi.file.parent}"]
    return [*paths, before, f"-L{folder}", "-ldq", str(mpi.file), after]


def _pkg_config(folder: Path, mpi: MPIHere) -> str:
    return (
        "Name: dq\nDescription: grows and shrinks running MPI programs\nVersion: 1\n"
        f"Cflags: {' '.join(_cflags(folder, mpi))}\nLibs: {' '.join(_libs(folder, mpi))}\n"
    )


def _scalapack(folder: Path) -> list[str]:
    if not (folder / SCALAPACK).is_file():
        raise BuildError(no_scalapack() or f"no {SCALAPACK} in {folder}: build libdq there again")
    return [str(folder / SCALAPACK), str(_system() / "liblapack.so.3"), "-lm"]


def _adapt_scalapack(folder: Path, mpi: MPIHere) -> None:
    """A copy of Debian's ScaLAPACK for MPICH that asks for the MPICH here.

    That one's library has the same binary interface under another name.
    """
    if mpi.file.name.startswith("libmpi.so.12") and not no_scalapack():
        image = _debian_scalapack()[-1].read_bytes()
        new = folder / (SCALAPACK + ".new")
        new.write_bytes(image.replace(b"libmpich.so.12\0", b"libmpi.so.12\0\0\0"))
        new.replace(folder / SCALAPACK)


def no_scalapack() -> str:
    """Why Debian's ScaLAPACK cannot be had; empty if it can."""
    if _debian_scalapack() and (_system() / "liblapack.so.3").exists():
        return ""
    return (
        f"no ScaLAPACK for MPICH in {_system()}: apt-get install libscalapack-mpich2.2"
        " libopenblas0-serial, and build libdq again"
    )


def _debian_scalapack() -> list[Path]:
    return sorted(_system().glob("libscalapack-mpich.so.*.*"))


def _system() -> Path:
    return Path("/usr/lib") / (sysconfig.get_config_var("MULTIARCH") or "")


def _cffi() -> Any:
    try:
        import cffi
    except ImportError:
        raise BuildError(f"cffi is missing: {sys.executable} -m pip install 'dq-mpi[c]'") from None
    return cffi


def _emit(cffi: Any, work: Path) -> Path:
    """The C source of the crossings and guards."""
    ffi = cffi.FFI()
    types = [text for text in declarations("dq.h") if text.startswith("typedef")]
    for text in [*types, *declarations("dqc.h")]:
        ffi.cdef(text + ";")
    all_of_it = functions()
    ffi.embedding_api("\n".join(f.crossing() for f in all_of_it if f.name not in IN_C[1:]))
    guards = "\n".join(f.guard() for f in all_of_it if f.name not in IN_C)
    # The guards come after cffi's own text, which declares what they call.
    ffi.set_source(MODULE, '#include "dq.h"\n#include "dqc.h"\n')
    ffi.embedding_init_code(INIT)
    source = work / f"{MODULE}.c"
    with redirect_stdout(io.StringIO()):  # it says which file it makes
        ffi.emit_c_code(str(source))
    source.write_text(source.read_text() + "\n" + guards)
    return source


def _libpython() -> Path:
    """The shared library of this interpreter."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    for folder in (sysconfig.get_config_var("LIBDIR"), f"{sys.base_prefix}/lib"):
        found = Path(folder or "/", name)
        if sysconfig.get_config_var("Py_ENABLE_SHARED") and found.is_file():
            return found
    raise BuildError(
        f"{sys.executable} has no shared libpython: use a Python that was built with"
        " --enable-shared (Debian's, conda's, uv's)"
    )


def compiler_here() -> list[str]:
    """The C compiler: $CC, cc, gcc or clang.

    Raises:
        BuildError: there is none.
    """
    for words in (os.environ.get("CC", "").split(), ["cc"], ["gcc"], ["clang"]):
        if words and shutil.which(words[0]):
            return words
    raise BuildError("no C compiler: apt-get install gcc libc6-dev, or set CC")


def _run(words: list[str]) -> None:
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=COMPILE_LIMIT_S, check=False
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        first = next((line for line in lines if "error" in line), lines[-1])
        raise BuildError(f"{words[0]} cannot compile libdq: {first}")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _replace(source: Path, target: Path) -> None:
    """Copy; a program that has the old file open keeps it."""
    new = target.with_name(target.name + ".new")
    shutil.copy(source, new)
    new.replace(target)
