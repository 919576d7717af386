"""Distributed linear algebra on block-cyclic matrices: what the applications compute with.

    grid = Grid(comm, 2, 3)
    matmul(grid, desc_a, A, desc_b, B, desc_c, C)      # C = A B
    ipiv = lu(grid, desc, A)                           # PA = LU, in place

Matrices are plain numpy arrays, one local part per rank, beside their ``BlockCyclic`` descriptor.
Local parts should be column-major (``order="F"``): LU requires it, the product is fastest with it.
One thread per rank; float32, float64, complex64, complex128; every grid shape and every size.
"""

from apps.linalg.blas_library import BlasMissingError
from apps.linalg.lu import SingularMatrixError, lu
from apps.linalg.summa import matmul

__all__ = ["BlasMissingError", "SingularMatrixError", "lu", "matmul"]
