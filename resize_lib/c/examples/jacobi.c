/* Jacobi iteration for Laplace's equation on a square plate, in C; apps/jacobi.py is the same in
   Python and prints the same digits, on any number of ranks and after any resizes.

       cc -O2 -o jacobi jacobi.c $(python -m resize_lib.c flags dq)
       dq submit --sizes 1,2,4 -- ./jacobi 2000 100                    rows, sweeps */

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dq.h"

/* One sweep over the local rows of u, in place; the largest change anywhere. `rim`: three rows of
   memory. */
static double sweep(MPI_Comm comm, double *u, int rows, int n, double *rim)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    double *above = rim, *below = rim + n, *old = rim + 2 * n, change = 0.0, most;
    MPI_Sendrecv(u + (size_t)(rows - 1) * n, n, MPI_DOUBLE, down, 0, above, n, MPI_DOUBLE, up, 0,
                 comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(u, n, MPI_DOUBLE, up, 1, below, n, MPI_DOUBLE, down, 1, comm, MPI_STATUS_IGNORE);
    for (int i = 0; i < rows; i++) {
        double *row = u + (size_t)i * n, left, self;
        memcpy(old, row, n * sizeof *old);
        if ((i > 0 || rank > 0) && (i < rows - 1 || rank < size - 1)) { /* the edges stay */
            const double *next = i < rows - 1 ? row + n : below;
            for (int j = 1; j < n - 1; j++) {
                left = old[j - 1], self = old[j];
                row[j] = 0.25 * (above[j] + next[j] + left + old[j + 1]);
                change = fmax(change, fabs(row[j] - self));
            }
        }
        memcpy(above, old, n * sizeof *old); /* the row above the next, as it was */
    }
    MPI_Allreduce(&change, &most, 1, MPI_DOUBLE, MPI_MAX, comm);
    return most;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 200, steps = argc > 2 ? atoi(argv[2]) : 100;
    double *u, change = 0.0, *rim = calloc(3 * (size_t)n, sizeof *rim);
    dq_part_t part;

    dq_t *dq = dq_open(&argc, &argv);
    dq_block(dq, "u", &u, n, n, DQ_DOUBLE); /* n rows of n numbers */
    dq_loop(dq, steps);
    while (dq_next(dq)) {
        dq_part(dq, "u", &part);
        if (dq_step(dq) == 0) /* the top edge is hot, the rest is cold */
            for (int64_t i = 0; i < part.rows; i++)
                for (int j = 0; j < n; j++)
                    u[i * n + j] = dq_row(&part, i) == 0 ? 1.0 : 0.0;
        change = sweep(dq_comm(dq), u, (int)part.rows, n, rim);
    }
    if (!dq_left(dq) && dq_rank(dq) == 0) printf("change %.17g\n", change);
    dq_close(dq);
    free(rim);
    return 0;
}
