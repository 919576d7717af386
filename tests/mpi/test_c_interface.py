"""dq.h and dq.f90 in a program by itself: what is right, and what is one clear error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.c_programs import EXAMPLES, Workshop, no_fortran, no_libdq, no_scalapack
from resize_lib.c import build
from resize_lib.c.mpi_library import MPILibraryError, mpi_here, the_only_one

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(bool(no_libdq()), reason=f"no libdq: {no_libdq()}"),
]

BEGIN = """
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include "dq.h"
static double *a;
static dq_part_t part;
int main(int argc, char **argv)
{
    int wrong = 0;
    dq_t *dq = NULL;
"""
CASES = {
    # argument: code, and what it must say
    "early": ('dq_block(dq, "x", NULL, 5, 1, DQ_INT);', "dq_block: no session is open: call dq_op"),
    "handle": (
        "dq_open(0, 0); dq_rank((dq_t *)&wrong);",
        "dq_rank: the first argument is not what",
    ),
    "twice": ("dq_open(0, 0); dq_open(0, 0);", "dq_open: a program has one session"),
    "name": ('dq = dq_open(0, 0); dq_next(dq); dq_local(dq, "x");', "no array 'x' is declared"),
    "again": (
        'dq = dq_open(0, 0); dq_block(dq, "x", 0, 5, 1, DQ_INT); dq_block(dq, "x", 0, 5, 1, 2);',
        "dq_block: 'x' is declared twice",
    ),
    "inside": (
        'dq = dq_open(0, 0); dq_next(dq); dq_block(dq, "x", 0, 5, 1, DQ_INT);',
        "dq_block: 'x' is declared inside a loop",
    ),
    "type": ('dq = dq_open(0, 0); dq_block(dq, "x", 0, 5, 1, 77);', "dq_block: unknown type 77"),
    "size": ('dq = dq_open(0, 0); dq_block_cyclic(dq, "x", 0, -5, 5, 2, 2, 5);', "at least 0"),
    "before": (
        'dq = dq_open(0, 0); dq_block(dq, "x", 0, 5, 1, DQ_INT); dq_local(dq, "x");',
        "dq_local: 'x' has no data before the first dq_next",
    ),
    "over": (
        "dq = dq_open(0, 0); dq_loop(dq, 2); while (dq_next(dq)) { } dq_next(dq);",
        "dq_next: the loop has ended",
    ),
    "turns": ("dq = dq_open(0, 0); dq_loop(dq, -2);", "dq_loop: a loop of -2 turns"),
    "closed": ("dq = dq_open(0, 0); dq_close(dq); dq_next(dq);", "dq_next: the session is closed"),
    "scalapack": ("dq = dq_open(0, 0); dq_blacs(dq);", "is not linked with the BLACS"),
    "null": ("dq = dq_open(0, 0); dq_part(dq, NULL, &part);", "dq_part: the name is NULL"),
    "value": ('dq = dq_open(0, 0); dq_value(dq, "v", NULL, 4);', "the address of 'v' is NULL"),
    "finalized": ("MPI_Init(0, 0); MPI_Finalize(); dq_open(0, 0);", "MPI is finalized already"),
}
MISTAKES = (
    BEGIN
    + "".join(
        f'    if (!strcmp(argv[1], "{name}")) {{ {code} }}\n' for name, (code, _) in CASES.items()
    )
    + '    printf("went on\\n");\n    return argc == 0 || wrong;\n}\n'
)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop.opened(tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def mistakes(workshop: Workshop) -> Path:
    return workshop.compile_text("mistakes", MISTAKES)


def run(*words: object, ranks: int = 0) -> subprocess.CompletedProcess[str]:
    before = [str(Path(sys.executable).parent / "mpiexec"), "-n", str(ranks)] if ranks else []
    return subprocess.run(
        [*before, *map(str, words)], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_ends_the_program_with_one_line(mistakes: Path, name: str) -> None:
    done = run(mistakes, name)
    assert done.returncode == 1
    assert done.stdout == ""
    said = [line for line in done.stderr.splitlines() if line.startswith("dq: ")]
    assert len(said) == 1
    assert CASES[name][1] in said[0]
    assert "Traceback" not in done.stderr


RETURNS = (
    BEGIN
    + """
    dq_on_error(DQ_RETURN);
    if (dq_rank(dq) != -1 || !strstr(dq_error(), "no session is open")) return 2;
    dq = dq_open(&argc, &argv);
    if (!dq || dq_error()[0]) return 3;
    if (dq_block(dq, "x", &a, -1, 1, DQ_DOUBLE) != -1) return 4;
    if (!strstr(dq_error(), "must be at least 0, not -1")) return 5;
    if (dq_block(dq, "x", &a, 7, 2, DQ_DOUBLE) != 0 || a) return 6;
    if (dq_local(dq, "y") || dq_desc(dq, "x", (int[9]){0}) != -1) return 7;
    dq_loop(dq, 3);
    while (dq_next(dq)) wrong++;
    if (wrong != 3 || dq_next(dq) != 0 || !strstr(dq_error(), "dq_loop")) return 8;
    dq_loop(dq, -1);
    while (dq_next(dq))
        if (dq_step(dq) == 4) break;
    dq_loop(dq, 2);
    while (dq_next(dq)) wrong++;
    printf("%d\\n", wrong);
    return dq_close(dq);
}
"""
)


def test_errors_are_returned_if_asked_for_and_loops_follow_one_another(workshop: Workshop) -> None:
    done = run(workshop.compile_text("returns", RETURNS))
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")


# Every element is where the layout says, each once.
LAYOUT = (
    BEGIN
    + """
    int n = 37, m = 23, sums[2] = {0, 0}, all[2], nprow, npcol, myrow, mycol;
    float *x;
    MPI_Init(&argc, &argv);
    dq = dq_open(&argc, &argv);
    dq_block_cyclic(dq, "A", &a, m, n, 4, 5, DQ_DOUBLE);
    dq_block(dq, "x", &x, n, 3, DQ_FLOAT);
    dq_loop(dq, 2);
    while (dq_next(dq)) {
        MPI_Comm comm = dq_comm(dq);
        if (dq_resized(dq) != (dq_step(dq) == 0)) return 2;
        if (dq_grid(dq, &nprow, &npcol, &myrow, &mycol) || nprow * npcol != dq_size(dq)) return 3;
        if (dq_rank(dq) != myrow * npcol + mycol) return 4;
        dq_part(dq, "A", &part);
        if (part.data != a || part.data != dq_local(dq, "A") || part.ld < part.rows) return 5;
        for (int64_t j = 0; j < part.cols; j++)
            for (int64_t i = 0; i < part.rows; i++) {
                int64_t row = dq_row(&part, i), col = dq_col(&part, j);
                if (row / 4 % nprow != myrow || col / 5 % npcol != mycol) return 6;
                if (dq_step(dq) == 0) a[i + j * part.ld] = row * n + col;
                else sums[0] += (int)a[i + j * part.ld];
            }
        dq_part(dq, "x", &part);
        if (part.cols != 3 || part.ld != 3 || part.data != x) return 7;
        for (int64_t i = 0; i < part.rows; i++)
            for (int64_t j = 0; j < 3; j++) {
                if (dq_step(dq) == 0) x[i * part.ld + j] = 3 * dq_row(&part, i) + dq_col(&part, j);
                else sums[1] += (int)x[i * part.ld + j];
            }
        MPI_Allreduce(sums, all, 2, MPI_INT, MPI_SUM, comm);
    }
    if (all[0] != m * n * (m * n - 1) / 2 || all[1] != 3 * n * (3 * n - 1) / 2) return 8;
    if (dq_rank(dq) == 0) printf("right on %d\\n", dq_size(dq));
    dq_close(dq);
    return MPI_Finalize() || wrong;
}
"""
)


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_each_element_is_on_one_rank(workshop: Workshop, ranks: int) -> None:
    done = run(workshop.compile_text("layout", LAYOUT), ranks=ranks)
    assert (done.returncode, done.stdout) == (0, f"right on {ranks}\n"), done.stderr


def test_mpi_s_errors_are_fatal_in_the_program(workshop: Workshop) -> None:
    text = BEGIN + (
        "    dq = dq_open(0, 0);\n    dq_next(dq);\n"
        "    MPI_Send(&wrong, 1, MPI_INT, atoi(argv[1]), 0, *argv[2] == 'w' ? MPI_COMM_WORLD"
        ' : dq_comm(dq));\n    printf("went on\\n");\n    return argc == 0;\n}\n'
    ).replace("atoi(argv[1])", "argv[1][0] - '0'")
    program = workshop.compile_text("fatal", text)
    for where in "wj":
        done = run(program, 7, where)
        assert done.returncode != 0
        assert done.stdout == ""
        assert "nvalid rank" in done.stderr


def test_finalizing_without_closing_closes(workshop: Workshop) -> None:
    text = BEGIN + (
        "    MPI_Init(&argc, &argv);\n    dq = dq_open(0, 0);\n    dq_next(dq);\n"
        "    MPI_Finalize();\n    return wrong;\n}\n"
    )
    done = run(workshop.compile_text("unclosed", text))
    assert done.returncode == 0
    assert done.stderr == "dq: MPI_Finalize without dq_close before it: closing\n"


def test_two_mpi_libraries_are_refused(workshop: Workshop) -> None:
    other = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu" / "libmpich.so.12"
    if not other.exists():
        pytest.skip(f"no second MPI library here: {other}")
    text = BEGIN + "    dq = dq_open(0, 0);\n    return wrong;\n}\n"
    source = workshop.folder / "two.c"
    source.write_text(text)
    flags = build.flags(workshop.folder / "dq")
    made = workshop.folder / "two"
    words = ["cc", "-o", str(made), str(source), "-Wl,--no-as-needed", *flags, str(other)]
    words.append("-Wl,--allow-shlib-undefined")
    subprocess.run(words, check=True, timeout=200)
    done = run(made)
    assert done.returncode == 1
    assert "dq: dq_open: two MPI libraries are loaded" in done.stderr


def test_which_libraries_are_an_mpi() -> None:
    line = "7f00-7f01 r-xp 00000000 00:00 1    {}\n"
    names = ["/usr/lib/libmpi.so.12", "/x/libmpich.so.12.2.2", "/x/libmpi_cxx.so.1", "/x/libc.so.6"]
    assert str(the_only_one(line.format(names[0]) * 3 + line.format(names[2]))) == names[0]
    with pytest.raises(MPILibraryError, match=r"two MPI libraries.*/x/libmpich\.so\.12\.2\.2"):
        the_only_one("".join(map(line.format, names)))
    with pytest.raises(MPILibraryError, match="no shared MPI"):
        the_only_one(line.format(names[3]))


def test_the_header_is_the_library_s(tmp_path: Path) -> None:
    here = mpi_here()
    assert (here.include() / "mpi.h").is_file()
    (tmp_path / "include").mkdir()
    (tmp_path / "include/mpi.h").write_text('#define MPICH_VERSION "3.1"\n')
    (tmp_path / "lib").mkdir()
    elsewhere = type(here)("MPICH", "5.0.2", tmp_path / "lib/libmpi.so.12")
    with pytest.raises(MPILibraryError, match=r"no mpi\.h of MPICH 5\.0\.2"):
        elsewhere.include()


def test_what_is_missing_is_one_line(tmp_path: Path) -> None:
    def command(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "resize_lib.c", *words],
            env={**os.environ, **env}, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    unbuilt = command("flags", str(tmp_path))
    assert (unbuilt.returncode, unbuilt.stdout) == (1, "")
    assert unbuilt.stderr.startswith("dq: no libdq.so in ")
    without = command("check", PATH="/nowhere", CC="")
    assert without.stderr.startswith("dq: no C compiler: ")
    (tmp_path / "cffi.py").write_text("raise ImportError\n")
    assert "pip install 'dq-mpi[c]'" in command("check", PYTHONPATH=str(tmp_path)).stderr
    assert command("check").returncode == 0


@pytest.mark.skipif(bool(no_fortran() or no_scalapack()), reason=no_fortran() or no_scalapack())
def test_the_fortran_example(workshop: Workshop) -> None:
    done = run(workshop.compile(EXAMPLES / "lu.f90", scalapack=True), 120, 16, 3, ranks=2)
    assert done.returncode == 0, done.stderr
    turns = done.stdout.splitlines()
    assert [line.split(" error ")[0] for line in turns] == [f"turn {k} grid 1x2" for k in range(3)]
