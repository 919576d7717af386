// COSTA for benchmarks/_costa.py: a block-cyclic matrix from one process grid to another.
//
// COSTA's own pxgemr2d takes one grid for both sides. Layouts, overlay and messages are made in each
// call, as in its wrappers.

#include <complex>

#include <costa/grid2grid/transform.hpp>
#include <costa/grid2grid/workspace.hpp>
#include <costa/layout.hpp>
#include <mpi.h>

struct Side {
    int rows, cols;  // of the process grid, row-major from rank 0 on
    void* part;      // in Fortran order; null on a process outside of the grid
    int leading;
};

template <typename T>
static void move(int n, int nb, const Side& old, const Side& fresh, MPI_Comm comm) {
    // Its buffers live as long as the process: a first call has none.
    auto& kept = *costa::memory::get_costa_context_instance<T>();
    std::vector<T>().swap(kept.send_buffer);
    std::vector<T>().swap(kept.recv_buffer);
    int rank;
    MPI_Comm_rank(comm, &rank);
    const auto layout = [&](const Side& side) {
        return costa::block_cyclic_layout<T>(n, n, nb, nb, 1, 1, n, n, side.rows, side.cols, 'R', 0, 0,
                                             static_cast<T*>(side.part), side.leading, 'C', rank);
    };
    auto source = layout(old);
    auto target = layout(fresh);
    costa::transform<T>(source, target, comm);
}

// kind: f4, f8, c8, c16 as 0, 1, 2, 3.
extern "C" void costa_move(int kind, int n, int nb, const Side* old, const Side* fresh, MPI_Fint comm) {
    const MPI_Comm on = MPI_Comm_f2c(comm);
    switch (kind) {
        case 0: return move<float>(n, nb, *old, *fresh, on);
        case 1: return move<double>(n, nb, *old, *fresh, on);
        case 2: return move<std::complex<float>>(n, nb, *old, *fresh, on);
        default: return move<std::complex<double>>(n, nb, *old, *fresh, on);
    }
}
