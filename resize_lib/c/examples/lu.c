/* LU factorization with ScaLAPACK's pdgetrf on a grid that grows and shrinks.

       cc -O2 -o lu lu.c $(python -m resize_lib.c flags --scalapack dq)
       dq submit --sizes 1,2,4 -- ./lu 1200 64 50                      n, block size, turns

   Each turn factors the same matrix afresh and solves A x = A (1 ... 1): it says on which grid, and
   how large the scaled residual is. Exit code 1 if one is not small. */

#include <float.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dq.h"

#define PASSES_BELOW 16.0 /* as HPL's check */

void pdgetrf_(const int *m, const int *n, double *a, const int *ia, const int *ja, const int *desca,
              int *ipiv, int *info);
void pdgetrs_(const char *trans, const int *n, const int *nrhs, const double *a, const int *ia,
              const int *ja, const int *desca, const int *ipiv, double *b, const int *ib,
              const int *jb, const int *descb, int *info, size_t);
void pdgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
             const double *alpha, const double *a, const int *ia, const int *ja, const int *desca,
             const double *b, const int *ib, const int *jb, const int *descb, const double *beta,
             double *c, const int *ic, const int *jc, const int *descc, size_t, size_t);
double pdlange_(const char *norm, const int *m, const int *n, const double *a, const int *ia,
                const int *ja, const int *desca, double *work, size_t);

/* The element (i, j): the same on every grid, between -0.5 and 0.5. */
static double element(int64_t i, int64_t j)
{
    uint64_t x = (uint64_t)i * 0x9E3779B97F4A7C15u + (uint64_t)j * 0xC2B2AE3D27D4EB4Fu + 1;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 32)) * 0x94D049BB133111EBu;
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0 - 0.5;
}

static double *copy(const double *from, size_t count)
{
    double *to = malloc((count + 1) * sizeof *to);
    memcpy(to, from, count * sizeof *to);
    return to;
}

/* max |A x - b| / (max |A| max |x| n eps) of the solution that the factors give. */
static double residual(int n, const double *a, const dq_part_t *pa, const int *desca,
                       const dq_part_t *pb, const int *descb)
{
    int one = 1, info = 0;
    double plus = 1.0, minus = -1.0, none = 0.0, unused;
    size_t size = (size_t)(pb->rows * pb->cols);
    double *b = malloc((size + 1) * sizeof *b), *x, *lu = copy(a, (size_t)(pa->rows * pa->cols));
    int *pivots = malloc((size_t)(pa->rows + pa->mb) * sizeof *pivots);
    for (size_t i = 0; i < size; i++) b[i] = 1.0;
    x = copy(b, size);
    pdgemm_("N", "N", &n, &one, &n, &plus, a, &one, &one, desca, x, &one, &one, descb, &none, b,
            &one, &one, descb, 1, 1);
    memcpy(x, b, size * sizeof *x);
    pdgetrf_(&n, &n, lu, &one, &one, desca, pivots, &info);
    if (!info)
        pdgetrs_("N", &n, &one, lu, &one, &one, desca, pivots, x, &one, &one, descb, &info, 1);
    pdgemm_("N", "N", &n, &one, &n, &minus, a, &one, &one, desca, x, &one, &one, descb, &plus, b,
            &one, &one, descb, 1, 1);
    double wrong = pdlange_("M", &n, &one, b, &one, &one, descb, &unused, 1);
    double large = pdlange_("M", &n, &n, a, &one, &one, desca, &unused, 1)
                   * pdlange_("M", &n, &one, x, &one, &one, descb, &unused, 1);
    free(b), free(x), free(lu), free(pivots);
    return info ? 1e300 : wrong / (large * n * DBL_EPSILON);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 600, nb = argc > 2 ? atoi(argv[2]) : 64;
    int turns = argc > 3 ? atoi(argv[3]) : 10, nprow, npcol, desca[9], descb[9], bad = 0;
    double *a;
    dq_part_t pa, pb;

    dq_t *dq = dq_open(&argc, &argv);
    dq_block_cyclic(dq, "A", &a, n, n, nb, nb, DQ_DOUBLE);
    dq_block_cyclic(dq, "b", NULL, n, 1, nb, nb, DQ_DOUBLE); /* where right-hand sides lie */
    dq_loop(dq, turns);
    while (dq_next(dq)) {
        dq_part(dq, "A", &pa), dq_part(dq, "b", &pb);
        dq_desc(dq, "A", desca), dq_desc(dq, "b", descb);
        if (dq_step(dq) == 0)
            for (int64_t j = 0; j < pa.cols; j++)
                for (int64_t i = 0; i < pa.rows; i++)
                    a[i + j * pa.ld] = element(dq_row(&pa, i), dq_col(&pa, j));
        double found = residual(n, a, &pa, desca, &pb, descb);
        bad |= !(found < PASSES_BELOW);
        dq_grid(dq, &nprow, &npcol, NULL, NULL);
        if (dq_rank(dq) == 0) {
            printf("turn %d grid %dx%d residual %.3g\n", (int)dq_step(dq), nprow, npcol, found);
            fflush(stdout);
        }
    }
    dq_close(dq);
    return bad;
}
