"""Programs in C and Fortran under the server: right after growing and shrinking."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from apps import stencil3d
from harness.c_programs import EXAMPLES, Workshop, no_fortran, no_libdq, no_scalapack
from harness.live import Job, Live

pytestmark = [
    pytest.mark.live,
    pytest.mark.mpi,
    pytest.mark.full,
    pytest.mark.skipif(bool(no_libdq()), reason=f"no libdq: {no_libdq()}"),
]
needs_scalapack = pytest.mark.skipif(bool(no_scalapack()), reason=no_scalapack())
needs_fortran = pytest.mark.skipif(bool(no_fortran()), reason=no_fortran())


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop.opened(tmp_path_factory.mktemp("c"))


def walked(cluster: Live, program: Sequence[object], sizes: Sequence[int]) -> tuple[Job, str]:
    """Start on one processor, bring the job to each size in turn; its end, and its output."""
    job = cluster.submit("-n", 1, "--sizes", "1,2,3,4", "--", *program)

    def has(points: int, view: Job) -> bool:
        return bool(view["remap_points"] > points or view["state"] == "done")

    def is_on(size: int, view: Job) -> bool:
        return bool(view["processors"] == size)

    view = cluster.wait(job, partial(has, 0))
    for size in sizes:
        cluster.dq("resize", job, size)
        view = cluster.wait(job, partial(is_on, size))
        view = cluster.wait(job, partial(has, view["remap_points"]))
    end = cluster.wait_end(job, timeout_s=240)
    assert end["state"] == "done", f"{end['reason']}\n{cluster.dq('logs', job, '--err')}"
    assert [s["processors"] for s in end["sizes"]] == [1, *sizes]
    return end, cluster.dq("logs", job)


# Time for the resizes: 20 ms more in each step of the examples, until both have been made.
SLOWED = {
    "jacobi.c": (
        ("#include <stdio.h>", "#include <stdio.h>\n#include <unistd.h>\nstatic int on_4;"),
        (
            "change = sweep(",
            "on_4 |= dq_size(dq) == 4;\n        if (!on_4 || dq_size(dq) != 1) usleep(20000);\n"
            "        change = sweep(",
        ),
    ),
    "stencil3d.c": (
        ("#include <stdio.h>", "#include <stdio.h>\n#include <unistd.h>\nstatic int on_3;"),
        (
            "dq_exchange(dq,",
            "on_3 |= dq_size(dq) == 3;\n        if (!on_3 || dq_size(dq) != 2) usleep(20000);\n"
            "        dq_exchange(dq,",
        ),
    ),
    "stencil3d.f90": (
        (
            "    implicit none\n    type(dq_session) :: job",
            "    implicit none\n    interface\n        subroutine usleep(us) bind(C)\n"
            "            import :: DQ_INT\n            integer(kind(DQ_INT)), value :: us\n"
            "        end subroutine\n    end interface\n    logical :: on_3 = .false.\n"
            "    type(dq_session) :: job",
        ),
        (
            "call dq_exchange(job,",
            "if (dq_size(job) == 3) on_3 = .true.\n"
            "        if (.not. on_3 .or. dq_size(job) /= 2) call usleep(20000)\n"
            "        call dq_exchange(job,",
        ),
    ),
    "lu.c": (
        ("#include <stdio.h>", "#include <stdio.h>\n#include <unistd.h>\nstatic int on_4;"),
        (
            "dq_grid(dq,",
            "on_4 |= dq_size(dq) == 4;\n        if (!on_4 || dq_size(dq) != 2) usleep(20000);\n"
            "        dq_grid(dq,",
        ),
    ),
    "lu.f90": (
        (
            "    implicit none\n\n    type(dq_session) :: job",
            "    implicit none\n    interface\n        subroutine usleep(us) bind(C)\n"
            "            import :: DQ_INT\n            integer(kind(DQ_INT)), value :: us\n"
            "        end subroutine\n    end interface\n    logical :: on_4 = .false.\n"
            "    type(dq_session) :: job",
        ),
        (
            "call dq_grid(job,",
            "if (dq_size(job) == 4) on_4 = .true.\n"
            "        if (.not. on_4 .or. dq_size(job) /= 2) call usleep(20000)\n"
            "        call dq_grid(job,",
        ),
    ),
    "step.c": (
        ("#include <mpi.h>", "#include <mpi.h>\n#include <unistd.h>\nstatic int on_4, ranks;"),
        (
            "for (int",
            "MPI_Comm_size(MPI_Comm_f2c(comm), &ranks);\n    on_4 |= ranks == 4;\n"
            "    if (!on_4 || ranks != 1) usleep(20000);\n    for (int",
        ),
    ),
}


def slowed(workshop: Workshop, name: str, *, scalapack: bool = False) -> Path:
    """An example, compiled with these changes."""
    return workshop.compile(slowed_source(workshop, name), scalapack=scalapack)


def slowed_source(workshop: Workshop, name: str) -> Path:
    text = (EXAMPLES / name).read_text()
    for old, new in SLOWED[name]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    source = workshop.folder / f"slowed_{name}"
    source.write_text(text)
    return source


def test_jacobi_in_c_gives_the_digits_of_jacobi_in_python(
    ordered: Live, workshop: Workshop
) -> None:
    words = (60, 2000)
    _, found = walked(ordered, [slowed(workshop, "jacobi.c"), *words], [2, 4, 1])
    plain = [sys.executable, "apps/jacobi.py", *map(str, words)]
    wanted = subprocess.run(plain, capture_output=True, text=True, timeout=200, check=True)
    assert found == wanted.stdout


@pytest.mark.parametrize(
    "name", ["stencil3d.c", pytest.param("stencil3d.f90", marks=needs_fortran)]
)
def test_blocks_with_ghosts_keep_their_digits(ordered: Live, workshop: Workshop, name: str) -> None:
    n, steps = 12, 1500
    _, found = walked(ordered, [slowed(workshop, name), n, steps], [3, 2])
    alone = [sys.executable, "-m", "dq_client.ranks", "-n", "1", "--"]
    plain = [*alone, str(workshop.compile(EXAMPLES / name)), str(n), str(steps)]
    wanted = subprocess.run(plain, capture_output=True, text=True, timeout=200, check=True)
    assert found == wanted.stdout
    assert math.isclose(float(found.split()[1]), weighed_in_python(n, steps), rel_tol=1e-12)


def weighed_in_python(n: int, steps: int) -> float:
    """The sum that stencil3d.c prints, by the arithmetic of apps/stencil3d.py."""
    u = np.zeros((n + 2, n + 2, n + 2))
    u[1:-1, 1:-1, 1:-1] = stencil3d.start(*np.ogrid[:n, :n, :n])  # type: ignore[no-untyped-call]
    u[0] = 1.0
    for _ in range(steps):
        u[:, :, 0], u[:, :, -1] = u[:, :, -2], u[:, :, 1]
        u[1:-1, 1:-1, 1:-1] = stencil3d.step(u)  # type: ignore[no-untyped-call]
    weights = np.arange(n**3) % 101 + 1
    return float((u[1:-1, 1:-1, 1:-1].ravel() * weights).sum())


TURNS = 500
GRIDS = ["1x1", "1x2", "2x2", "1x2"]


def grids(output: str) -> list[str]:
    """The process grids of the turns, each once as long as it stays."""
    found: list[str] = []
    for grid in re.findall(r"^turn \d+ grid (\S+)", output, re.MULTILINE):
        if found[-1:] != [grid]:
            found.append(grid)
    return found


@needs_scalapack
def test_pdgetrf_in_c_is_right_on_every_grid(ordered: Live, workshop: Workshop) -> None:
    program = slowed(workshop, "lu.c", scalapack=True)
    _, output = walked(ordered, [program, 96, 16, TURNS], [2, 4, 2])
    residuals = [float(x) for x in re.findall(r"residual (\S+)", output)]
    assert grids(output) == GRIDS
    assert len(residuals) == TURNS
    assert max(residuals) < 16
    assert min(residuals) > 0  # of rounding: nothing that was not computed


@needs_scalapack
@needs_fortran
def test_pdgetrf_in_fortran_is_right_on_every_grid(ordered: Live, workshop: Workshop) -> None:
    program = slowed(workshop, "lu.f90", scalapack=True)
    _, output = walked(ordered, [program, 96, 16, TURNS], [2, 4, 2])
    errors = [float(x) for x in re.findall(r"error\s+(\S+)", output)]
    assert grids(output) == GRIDS
    assert len(errors) == TURNS
    assert max(errors) < 1e-8


FORTRAN = """
program items
    use dq
    implicit none
    type(dq_session) :: job
    type(dq_part_t) :: part
    real(dq_real), pointer :: x(:, :)
    real(dq_real), target, save :: shared(2) = 0
    real(dq_real) :: wrong = 0
    integer :: k, turn = 0
    logical :: on_4 = .false.
    interface
        integer(kind(DQ_INT)) function usleep(us) bind(C)
            import :: DQ_INT
            integer(kind(DQ_INT)), value :: us
        end function
    end interface
    job = dq_open()
    call dq_block(job, "x", 1001, 2, DQ_DOUBLE)
    call dq_value(job, "shared", c_loc(shared), 16)
    call dq_loop(job, 1500)
    do while (dq_next(job))
        x => dq_items(job, "x")
        part = dq_part(job, "x")
        if (dq_step(job) == 0) then
            do k = 1, size(x, 2)
                x(:, k) = [1, -1]*dq_row(part, k)
            end do
        end if
        do k = 1, size(x, 2)
            if (x(1, k) /= dq_row(part, k) + dq_step(job)) wrong = wrong + 1
            if (x(2, k) /= -dq_row(part, k)) wrong = wrong + 1
        end do
        if (shared(2) /= dq_step(job)) wrong = wrong + 1
        x(1, :) = x(1, :) + 1
        shared(2) = shared(2) + 1
        turn = dq_step(job)
        if (dq_size(job) == 4) on_4 = .true.
        if (.not. on_4 .or. dq_size(job) /= 2) k = usleep(20000)  ! time for the resizes
        if (wrong > 0) error stop "data have gone wrong"
    end do
    if (.not. dq_left(job)) &
        print '(i0, " of ", i0, " after turn ", i0)', dq_rank(job), dq_size(job), turn
    call dq_close(job)
end program
"""


@needs_fortran
def test_a_fortran_program_keeps_its_items_and_values(ordered: Live, workshop: Workshop) -> None:
    source = workshop.folder / "items.f90"
    source.write_text(FORTRAN)
    _, output = walked(ordered, [workshop.compile(source)], [2, 4, 2])
    assert sorted(output.splitlines()) == ["0 of 2 after turn 1499", "1 of 2 after turn 1499"]


# Rank 0's first message is there, unexpected, when the others receive from anybody.
ANY_SOURCE = """
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
#include "dq.h"
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    dq_t *dq = dq_open(NULL, NULL);
    int sum = 0, on_4 = 0, got[3];
    dq_value(dq, "sum", &sum, sizeof sum);
    dq_value(dq, "on_4", &on_4, sizeof on_4);
    dq_loop(dq, 1500);
    while (dq_next(dq)) {
        MPI_Comm comm = dq_comm(dq);
        on_4 |= dq_size(dq) == 4;
        if (dq_rank(dq) == 0)
            for (int to = 1; to < dq_size(dq); to++)
                for (int tag = 0; tag < 4; tag++) MPI_Send(&tag, 1, MPI_INT, to, tag, comm);
        else {
            MPI_Request request;
            MPI_Status status;
            MPI_Recv(got, 1, MPI_INT, 0, 3, comm, &status);
            MPI_Recv(got, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, &status);
            MPI_Irecv(got + 1, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &request);
            MPI_Wait(&request, &status);
            MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, got + 2, 1, MPI_INT, MPI_ANY_SOURCE,
                         2, comm, &status);
            if (got[0] != 0 || got[1] != 1 || got[2] != 2 || status.MPI_SOURCE != 0) return 9;
        }
        if (!on_4 || dq_size(dq) != 1) usleep(20000);  // time for the resizes
        sum++;
    }
    if (dq_rank(dq) == 0) printf("%d turns on %d\\n", sum, dq_size(dq));  // ends those that left
    dq_close(dq);
    MPI_Finalize();
    return 0;
}
"""


def test_receives_from_any_source_reach_ranks_that_joined(
    ordered: Live, workshop: Workshop
) -> None:
    _, output = walked(ordered, [workshop.compile_text("any_source", ANY_SOURCE)], [2, 4, 1])
    assert output == "1500 turns on 1\n"


def test_a_loop_in_python_around_a_step_in_c(ordered: Live, workshop: Workshop) -> None:
    library = workshop.folder / "step.so"
    mpicc = Path(sys.executable).parent / "mpicc"
    source = slowed_source(workshop, "step.c")
    words = list(map(str, [mpicc, "-O2", "-shared", "-fPIC", "-o", library, source]))
    subprocess.run(words, check=True, timeout=200)
    n, turns = 100000, 2000
    program = ["python", EXAMPLES / "around.py", library, n, turns]
    _, output = walked(ordered, program, [2, 4, 1])
    assert output == f"total {n * (n - 1) // 2 + n * turns}\n"
