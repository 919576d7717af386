/* DQ from C: a running MPI program that grows and shrinks. docs/c.md has the whole story.

       #include <mpi.h>
       #include "dq.h"

       int main(int argc, char **argv)
       {
           double *x;
           dq_t *dq = dq_open(&argc, &argv);            // calls MPI_Init if nobody has
           dq_block(dq, "x", &x, 1000000, 1, DQ_DOUBLE);
           dq_loop(dq, 100);
           while (dq_next(dq)) {                        // here ranks may join and leave
               dq_part_t part;
               dq_part(dq, "x", &part);
               if (dq_step(dq) == 0) fill(x, part.rows);
               work(dq_comm(dq), x, part.rows);
           }
           dq_close(dq);                                // calls MPI_Finalize if dq_open has begun MPI
           return 0;
       }

   Ranks that join run the same program from its start: what stands before the loop must not
   communicate, and must declare the same data. In the loop everything may differ from iteration to iteration:
   communicator, rank, size, and where the data are. DQ sets the pointers that were declared at each
   dq_next; fetch all else anew.

   Errors. As with MPI, a mistake ends the job with one line that says what it was. After
   dq_on_error(DQ_RETURN) functions return -1 (NULL), and dq_error() has the line. */

#ifndef DQ_H
#define DQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What follows, up to the next such line, is read by the build of libdq, too: plain declarations. */
/* [declarations] */
typedef struct dq_session dq_t;

typedef enum {
    DQ_BYTE = 1, DQ_INT = 2, DQ_INT64 = 3, DQ_FLOAT = 4, DQ_DOUBLE = 5,
    DQ_COMPLEX = 6, DQ_DOUBLE_COMPLEX = 7
} dq_type;

typedef enum { DQ_ABORT = 0, DQ_RETURN = 1 } dq_mode;

/* This rank's part of an array. A block-cyclic one is column-major with leading dimension `ld`
   (at least 1), a block one row-major: `rows` items, the first of them globally `first`. */
typedef struct {
    void *data;
    int64_t rows, cols, ld;
    int64_t first;
    int64_t mb, nb;                        /* 0 in block arrays */
    int64_t myrow, mycol, nprow, npcol;
} dq_part_t;

/* This rank's block of a Cartesian array, one value per dimension (those past `ndims`: 1, offsets 0).
   `data` is row-major with the extents `stored`; the item with the global indices start[0],
   start[1], ... lies at halo[0], halo[1], ... of it. Ranks are on the grid `dims` row-major. */
typedef struct {
    void *data;
    int64_t ndims;
    int64_t start[16], count[16];          /* the block: its first global indices, its extents */
    int64_t stored[16], halo[16];          /* extents with ghosts; their width on each side */
    int64_t shape[16];                     /* of the whole array */
    int64_t dims[16], coords[16];          /* the grid of ranks; this rank's place on it */
} dq_box_t;

/* --- the whole program ------------------------------------------------------------------------ */

/* Open the session; once in a program. Both may be NULL. In a rank that joins a running job it
   returns when the job takes the rank in. */
dq_t *dq_open(int *argc, char ***argv);
/* Close it, in every rank, before MPI_Finalize. */
int dq_close(dq_t *dq);
/* What a mistake does; also before dq_open. */
void dq_on_error(dq_mode mode);
/* The last error of this rank in one line; "" without. */
const char *dq_error(void);

/* --- before the loop: what the data are, on every rank the same -------------------------------- */

/* `pointer`: the address of your pointer, set to this rank's part at each dq_next, or NULL.
   Before the first iteration it is NULL. */
int dq_block_cyclic(dq_t *dq, const char *name, void *pointer, int64_t m, int64_t n,
                    int64_t mb, int64_t nb, dq_type type);
/* `n` items of `width` elements each, one after another over the ranks. */
int dq_block(dq_t *dq, const char *name, void *pointer, int64_t n, int64_t width, dq_type type);
/* An array of 1 to 16 dimensions with these extents, in blocks over all of them. NULL stands for 0
   in each dimension. `halo`: the width of the ghosts around a block. `periodic`: 1 where the ends of
   a dimension are neighbours. `dims`, as for MPI_Dims_create: 0 where DQ chooses, 1 where the
   dimension stays whole. */
int dq_cartesian(dq_t *dq, const char *name, void *pointer, int ndims, const int64_t *shape,
                 const int *halo, const int *periodic, const int *dims, dq_type type);
/* `bytes` bytes at `address` that are the same on all ranks: ranks that join get rank 0's. */
int dq_value(dq_t *dq, const char *name, void *address, size_t bytes);

/* --- the loop --------------------------------------------------------------------------------- */

/* A loop of so many iterations comes next (-1: until the program leaves it). Loops may follow one
   another. Without it the first dq_next begins an endless one. */
int dq_loop(dq_t *dq, int64_t iterations);
/* 1: an iteration begins. 0: the loop has ended, or this rank has left the job. */
int dq_next(dq_t *dq);
/* The iteration, from 0. Fill the data at 0: ranks that join never see it. */
int64_t dq_step(dq_t *dq);
/* 1: this iteration's communicator is not the last one's (also in the first). */
int dq_resized(dq_t *dq);
/* 1: a resize has released this rank. All functions below then end it in order, exit code 0. */
int dq_left(dq_t *dq);

/* --- the job now ------------------------------------------------------------------------------ */

int dq_rank(dq_t *dq);
int dq_size(dq_t *dq);
/* The communicator as Fortran has it; dq_comm (below) as C has it. */
int dq_comm_f(dq_t *dq);
/* The process grid, row-major; any of them may be NULL. */
int dq_grid(dq_t *dq, int *nprow, int *npcol, int *myrow, int *mycol);
/* This rank's part; valid until the next dq_next. */
void *dq_local(dq_t *dq, const char *name);
int dq_part(dq_t *dq, const char *name, dq_part_t *part);
/* The same of a Cartesian array. */
int dq_box(dq_t *dq, const char *name, dq_box_t *box);
/* Fill the ghosts of a Cartesian array from the ranks that own them, corners included. Collective.
   Ghosts beyond a border that is not periodic keep what the program has written there. */
int dq_exchange(dq_t *dq, const char *name);
/* Write a whole block or Cartesian array, row-major and without ghosts, to `whole` on rank 0; other
   ranks may give NULL. Collective. */
int dq_gather(dq_t *dq, const char *name, void *whole);

/* --- ScaLAPACK, in programs that are linked with it ------------------------------------------- */

/* A BLACS context of the process grid; valid until the next dq_next. Collective after a resize. */
int dq_blacs(dq_t *dq);
/* The array descriptor of a block-cyclic array on that context. */
int dq_desc(dq_t *dq, const char *name, int desc[9]);
/* [end] */

/* Global row of local row `i`, global column of local column `j`, all from 0. */
static inline int64_t dq_row(const dq_part_t *p, int64_t i)
{
    return p->mb ? (i / p->mb * p->nprow + p->myrow) * p->mb + i % p->mb : p->first + i;
}

static inline int64_t dq_col(const dq_part_t *p, int64_t j)
{
    return p->nb ? (j / p->nb * p->npcol + p->mycol) * p->nb + j % p->nb : j;
}

#ifdef MPI_VERSION /* mpi.h comes first */
/* The job's communicator; valid until the next dq_next. Its errors are fatal, as MPI's are. */
static inline MPI_Comm dq_comm(dq_t *dq)
{
    return MPI_Comm_f2c((MPI_Fint)dq_comm_f(dq));
}
#endif

#ifdef __cplusplus
}
#endif
#endif
