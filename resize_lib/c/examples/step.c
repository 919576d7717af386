/* A step in C for a loop in Python (around.py): the sum over all ranks, by MPI.

       mpicc -O2 -shared -fPIC -o step.so step.c         the mpicc of the MPI that mpi4py runs on

   It is given the communicator as Fortran has it; in Fortran, `use mpi` takes that number as it is:

       subroutine step(comm, x, n) bind(C)
           integer(c_int), value :: comm, n */

#include <mpi.h>

double step(MPI_Fint comm, double *x, int n)
{
    double mine = 0.0, all = 0.0;
    for (int i = 0; i < n; i++) mine += x[i] += 1.0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_Comm_f2c(comm));
    return all;
}
