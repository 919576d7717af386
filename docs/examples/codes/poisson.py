"""Heat on a plate by implicit steps, solved with PETSc (docs/mpi.md has how to install petsc4py).

Matrix, vectors and solver belong to a communicator: made anew after each resize. The temperature
travels; PETSc's rows and those of `rs.array` lie on the same ranks.

    dq submit --sizes 1,2,4 -- python poisson.py [POINTS ITERATIONS]
"""

import sys

import numpy as np
import petsc4py

petsc4py.init()
from petsc4py import PETSc  # noqa: E402

import resize_lib  # noqa: E402

N, ITERATIONS = (int(word) for word in sys.argv[1:] or (24, 60))
STEP = 0.1
made = []


def start(k):
    """The temperature at these points at the start; point k is at row k // N, column k % N."""
    return np.sin(np.pi * (k // N + 1) / (N + 1)) * (k % N) / N


rs = resize_lib.session()
u = rs.array("u", N * N, init=start)


@rs.on_resize
def assemble(comm):
    """1 + STEP * (4 u - its neighbours): the matrix of an implicit step."""
    global solver, right, found
    while made:
        made.pop().destroy()
    rows = (len(u.local), None)
    matrix = PETSc.Mat().createAIJ((rows, rows), nnz=5, comm=comm)
    for k in map(int, u.indices):
        row, column = divmod(k, N)
        matrix.setValue(k, k, 1 + 4 * STEP)
        for i, j in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if 0 <= i < N and 0 <= j < N:
                matrix.setValue(k, i * N + j, -STEP)
    matrix.assemble()
    found, right = matrix.createVecs()
    solver = PETSc.KSP().create(comm)
    solver.setOperators(matrix)
    solver.setType("cg")
    solver.getPC().setType("jacobi")
    solver.setTolerances(rtol=1e-12)
    made.extend((matrix, found, right, solver))


for iteration in rs.iterations(ITERATIONS):
    right.setArray(u.local)
    solver.solve(right, found)
    u.local[:] = found.getArray()
    if iteration % 20 == 0 and rs.rank == 0:
        print(f"iteration {iteration} on {rs.size}: {solver.getIterationNumber()}", flush=True)

heat = rs.comm.allreduce(float(u.local.sum()))
if rs.rank == 0:
    print(f"heat {heat:.9f}", flush=True)
