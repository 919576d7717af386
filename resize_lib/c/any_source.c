/* Receives from MPI_ANY_SOURCE, in front of the MPI library.

   MPICH (ch4:ucx, 5.0.x) posts such a receive twice, for ranks that share memory by its own means
   and for all others, among them those of another world: every rank that joined. It loses the
   message if that is there already when the second is posted: UCX then completes this one at once,
   before it is known as the other's partner, and the receive that the program waits for never ends.
   A receive of a message that was matched first (MPI_Mprobe) is posted once. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>

#include "dq.h"
#include "dqc.h"

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    MPI_Message message;
    int failed;
    if (source != MPI_ANY_SOURCE) return PMPI_Recv(buf, count, type, source, tag, comm, status);
    failed = PMPI_Mprobe(source, tag, comm, &message, MPI_STATUS_IGNORE);
    return failed ? failed : PMPI_Mrecv(buf, count, type, &message, status);
}

int MPI_Sendrecv(const void *sent, int sent_count, MPI_Datatype sent_type, int target, int sent_tag,
                 void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                 MPI_Status *status)
{
    MPI_Request request;
    int failed;
    if (source != MPI_ANY_SOURCE)
        return PMPI_Sendrecv(sent, sent_count, sent_type, target, sent_tag, buf, count, type,
                             source, tag, comm, status);
    failed = PMPI_Isend(sent, sent_count, sent_type, target, sent_tag, comm, &request);
    if (!failed) failed = MPI_Recv(buf, count, type, source, tag, comm, status);
    return failed ? failed : PMPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* What has come before the call is found. A message may still be lost that comes in the last moment
   of the search: the call may not wait for it, and UCX cannot be asked (docs/c.md). */
int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    MPI_Message message;
    int found = 0, failed = 0;
    if (source == MPI_ANY_SOURCE)
        for (int i = 0; i < 3 && !found && !failed; i++)
            failed = PMPI_Improbe(source, tag, comm, &found, &message, MPI_STATUS_IGNORE);
    if (failed) return failed;
    if (found) return PMPI_Imrecv(buf, count, type, &message, request);
    return PMPI_Irecv(buf, count, type, source, tag, comm, request);
}

int dqc_is_before_mpi(void) { return dlsym(RTLD_DEFAULT, "MPI_Recv") == (void *)MPI_Recv; }
