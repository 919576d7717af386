"""dq.h and dq.f90 in a program by itself: what is right, and what is one clear error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.c_programs import EXAMPLES, Workshop, no_fortran, no_libdq, no_scalapack
from harness.commands import HANG_S
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
static dq_box_t box;
int main(int argc, char **argv)
{
    int wrong = 0;
    dq_t *dq = NULL;
"""
CARTESIAN = 'dq = dq_open(0, 0); dq_cartesian(dq, "x", 0, 1, (int64_t[]){5}, 0, 0, 0, DQ_INT); '
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
    "turns": ("dq = dq_open(0, 0); dq_loop(dq, -2);", "dq_loop: a loop of -2 iterations"),
    "closed": ("dq = dq_open(0, 0); dq_close(dq); dq_next(dq);", "dq_next: the session is closed"),
    "scalapack": ("dq = dq_open(0, 0); dq_blacs(dq);", "is not linked with the BLACS"),
    "null": ("dq = dq_open(0, 0); dq_part(dq, NULL, &part);", "dq_part: the name is NULL"),
    "value": ('dq = dq_open(0, 0); dq_value(dq, "v", NULL, 4);', "the address of 'v' is NULL"),
    "ndims": (
        'dq = dq_open(0, 0); dq_cartesian(dq, "x", 0, 0, 0, 0, 0, 0, DQ_INT);',
        "dq_cartesian: 'x' needs 1 to 16 dimensions and an extent for each: ndims is 0",
    ),
    "extent": (
        'dq = dq_open(0, 0); dq_cartesian(dq, "x", 0, 1, (int64_t[]){-1}, 0, 0, 0, DQ_INT);',
        "dq_cartesian: every trailing dimension must be at least 0",
    ),
    "box": (
        'dq = dq_open(0, 0); dq_block(dq, "x", 0, 5, 1, DQ_INT); dq_next(dq);'
        ' dq_box(dq, "x", &box);',
        "dq_box: 'x' is no Cartesian array: declare it with dq_cartesian",
    ),
    "part": (
        CARTESIAN + 'dq_next(dq); dq_part(dq, "x", &part);',
        "dq_part: 'x' is a Cartesian array: ask dq_box",
    ),
    "early_box": (CARTESIAN + 'dq_exchange(dq, "x");', "'x' has no data before the first dq_next"),
    "no_box": (CARTESIAN + 'dq_next(dq); dq_box(dq, "x", NULL);', "give the address of a dq_box_t"),
    "no_memory": (CARTESIAN + 'dq_next(dq); dq_gather(dq, "x", NULL);', "rank 0 gave NULL"),
    "cyclic": (
        'dq = dq_open(0, 0); dq_block_cyclic(dq, "x", 0, 5, 5, 2, 2, 5); dq_next(dq);'
        ' dq_gather(dq, "x", &wrong);',
        "dq_gather: 'x' is block-cyclic: ScaLAPACK's pdgemr2d gathers it",
    ),
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
        [*before, *map(str, words)], capture_output=True, text=True, timeout=HANG_S, check=False
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


@pytest.mark.parametrize("ranks", [1, 4])
def test_each_element_is_on_one_rank(workshop: Workshop, ranks: int) -> None:
    done = run(workshop.compile_text("layout", LAYOUT), ranks=ranks)
    assert (done.returncode, done.stdout) == (0, f"right on {ranks}\n"), done.stderr


# A torus in one dimension, a border in the other, ghosts of different widths, one axis left whole.
BLOCKS = (
    BEGIN
    + """
    const int64_t shape[3] = {7, 5, 3};
    const int halo[3] = {2, 1, 0}, periodic[3] = {1, 0, 0}, dims[3] = {0, 0, 1};
    int64_t *x, whole[105], y_whole[9];
    int *y, cells = 0, all = 0;
    dq = dq_open(&argc, &argv);
    dq_cartesian(dq, "x", &x, 3, shape, halo, periodic, dims, DQ_INT64);
    dq_cartesian(dq, "c", NULL, 1, shape, NULL, NULL, NULL, DQ_COMPLEX);
    dq_block(dq, "y", &y, 9, 2, DQ_INT);
    if (x) return 2;
    dq_loop(dq, 2);
    while (dq_next(dq)) {
        dq_box(dq, "x", &box);
        if (box.data != x || box.data != dq_local(dq, "x") || box.ndims != 3) return 3;
        if (box.dims[0] * box.dims[1] != dq_size(dq) || box.dims[2] != 1 || box.dims[3] != 1)
            return 4;
        if (box.coords[0] * box.dims[1] + box.coords[1] != dq_rank(dq)) return 5;
        for (int d = 0; d < 16; d++) {
            if (box.stored[d] != box.count[d] + 2 * box.halo[d]) return 6;
            if (box.halo[d] != (d < 3 ? halo[d] : 0)) return 7;
            if (box.shape[d] != (d < 3 ? shape[d] : 1)) return 8;
        }
        int64_t(*u)[box.stored[1]][3] = box.data; /* u[i][j][k]: local indices */
        if (dq_step(dq) == 0)
            for (int64_t i = 0; i < box.count[0]; i++)
                for (int64_t j = 0; j < box.count[1]; j++)
                    for (int64_t k = 0; k < 3; k++, cells++)
                        u[i + 2][j + 1][k] =
                            ((box.start[0] + i) * 5 + box.start[1] + j) * 3 + k + 1;
        dq_exchange(dq, "x");
        for (int64_t i = 0; i < box.stored[0]; i++)
            for (int64_t j = 0; j < box.stored[1]; j++)
                for (int64_t k = 0; k < 3; k++) {
                    int64_t row = (box.start[0] + i - 2 + 7) % 7, col = box.start[1] + j - 1;
                    int64_t wanted = col < 0 || col > 4 ? 0 : (row * 5 + col) * 3 + k + 1;
                    if (box.count[0] && box.count[1] && u[i][j][k] != wanted) return 9;
                }
        dq_part(dq, "y", &part);
        for (int64_t i = 0; i < part.rows; i++) y[2 * i] = y[2 * i + 1] = (int)(part.first + i);
        dq_gather(dq, "x", dq_rank(dq) ? NULL : whole);
        dq_gather(dq, "y", y_whole);
        for (int at = 0; !dq_rank(dq) && at < 105; at++)
            if (whole[at] != at + 1) return 10;
        for (int at = 0; !dq_rank(dq) && at < 18; at++)
            if (((int *)y_whole)[at] != at / 2) return 11;
        MPI_Allreduce(&cells, &all, 1, MPI_INT, MPI_SUM, dq_comm(dq));
    }
    if (dq_rank(dq) == 0) printf("%d cells on %d x %d\\n", all, (int)box.dims[0], (int)box.dims[1]);
    return dq_close(dq) || wrong;
}
"""
)


@pytest.mark.parametrize(("ranks", "grid"), [(1, "1 x 1"), (4, "2 x 2")])
def test_a_cartesian_array_has_each_cell_once_and_its_ghosts(
    workshop: Workshop, ranks: int, grid: str
) -> None:
    program = workshop.compile_text("blocks", BLOCKS)
    done = run(sys.executable, "-m", "dq_client.ranks", "-n", ranks, "--", program)
    assert (done.returncode, done.stdout) == (0, f"105 cells on {grid}\n"), done.stderr


def test_debian_s_header_is_found_where_debian_has_it(tmp_path: Path) -> None:
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    library = libraries / "libmpich.so.12"
    for folder in (libraries / "mpich/include", tmp_path / "usr/include/x86_64-linux-gnu/mpich"):
        folder.mkdir(parents=True)
        (folder / "mpi.h").write_text('#define MPICH_VERSION "4.0.2"\n')
        assert type(mpi_here())("MPICH", "4.0.2", library).include() == folder
        (folder / "mpi.h").unlink()


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
            env={**os.environ, **env}, capture_output=True, text=True, timeout=HANG_S, check=False,
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


MODULES = sorted(Path("/usr/include").glob("*/mpich/mpi_f08.mod"))


@pytest.mark.skipif(bool(no_fortran()), reason=no_fortran())
@pytest.mark.skipif(not MODULES, reason="no mpi_f08 here: apt-get install libmpich-dev")
def test_the_example_with_mpi_f08_compiles(workshop: Workshop) -> None:
    """`make test-mpi MPIS=debian-mpich` runs it: the MPI of this environment has no Fortran."""
    sources = [str(workshop.folder / "dq/dq.f90"), str(EXAMPLES / "sums.f90")]
    words = ["gfortran", "-Wall", "-c", f"-I{MODULES[0].parent}", *sources]
    done = subprocess.run(
        words, cwd=workshop.folder, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(bool(no_fortran()), reason=no_fortran())
def test_a_job_with_mpi_f08_adds_up(workshop: Workshop) -> None:
    if "libmpich.so" not in str(mpi_here().file) or shutil.which("mpif90.mpich") is None:
        pytest.skip("this environment's MPI is not Debian's MPICH: make test-mpi MPIS=debian-mpich")
    made = workshop.folder / "sums"
    sources = [str(workshop.folder / "dq/dq.f90"), str(EXAMPLES / "sums.f90")]
    words = ["mpif90.mpich", "-o", str(made), *sources, *build.flags(workshop.folder / "dq")]
    subprocess.run(words, cwd=workshop.folder, check=True, timeout=200)
    done = run(sys.executable, "-m", "dq_client.ranks", "-n", 3, "--", made, 100, 20)
    assert (done.returncode, done.stdout) == (0, "sum 7050 expected 7050\n"), done.stderr
