/* Heat in a block: a seven-point stencil in three dimensions, in C; apps/stencil3d.py is the same in
   Python, stencil3d.f90 in Fortran. The lower wall of the first axis is hot, the other walls of the
   first two axes are cold, the third axis is a ring.

       cc -O2 -o stencil3d stencil3d.c $(python -m resize_lib.c flags dq)
       dq submit --sizes 1,2,4 -- ./stencil3d 40 100                   cells along an axis, steps */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "dq.h"

/* The block with its ghosts: u(i, j, k) with global indices. */
#define u(i, j, k) \
    x[(((i)-box.start[0] + 1) * box.stored[1] + (j)-box.start[1] + 1) * box.stored[2] + (k) \
      - box.start[2] + 1]
#define ALL_OF_THE_BLOCK                                                         \
    for (int64_t i = box.start[0]; i < box.start[0] + box.count[0]; i++)         \
        for (int64_t j = box.start[1]; j < box.start[1] + box.count[1]; j++)     \
            for (int64_t k = box.start[2]; k < box.start[2] + box.count[2]; k++)

static void fill(double *x, dq_box_t box)
{
    ALL_OF_THE_BLOCK u(i, j, k) = (double)((i * 7 + j * 11 + k * 13) % 17) / 17;
    if (box.start[0] == 0) /* ghosts beyond a border: the program's boundary values */
        for (int64_t at = 0; at < box.stored[1] * box.stored[2]; at++) x[at] = 1.0;
}

/* One step on the block, by way of `next`, which has room for it. */
static void step(double *x, dq_box_t box, double *next)
{
    double *to = next;
    ALL_OF_THE_BLOCK {
        double around = u(i - 1, j, k) + u(i + 1, j, k);
        around += u(i, j - 1, k) + u(i, j + 1, k);
        around += u(i, j, k - 1) + u(i, j, k + 1);
        *to++ = u(i, j, k) + 0.1 * (around - 6 * u(i, j, k));
    }
    to = next;
    ALL_OF_THE_BLOCK u(i, j, k) = *to++;
}

/* A sum in which every cell has a weight of its own. */
static double weighed(const double *whole, size_t cells)
{
    double sum = 0.0;
    for (size_t at = 0; at < cells; at++) sum += whole[at] * (double)(at % 101 + 1);
    return sum;
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? atoi(argv[1]) : 40, steps = argc > 2 ? atoi(argv[2]) : 100;
    const int64_t shape[3] = {n, n, n};
    const int halo[3] = {1, 1, 1}, periodic[3] = {0, 0, 1};
    double *x, *next = malloc((size_t)(n * n * n) * sizeof *next);
    dq_box_t box;

    dq_t *dq = dq_open(&argc, &argv);
    dq_cartesian(dq, "u", &x, 3, shape, halo, periodic, NULL, DQ_DOUBLE);
    dq_loop(dq, steps);
    while (dq_next(dq)) {
        dq_box(dq, "u", &box);
        if (dq_step(dq) == 0) fill(x, box);
        dq_exchange(dq, "u");
        step(x, box, next);
    }
    if (!dq_left(dq)) {
        dq_gather(dq, "u", next);
        if (dq_rank(dq) == 0) printf("sum %.17g\n", weighed(next, (size_t)(n * n * n)));
    }
    dq_close(dq);
    free(next);
    return 0;
}
