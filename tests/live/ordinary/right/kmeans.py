"""k-means: points split by rank through rs.array, centroids alike everywhere."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N, K = 240, 4


def points(i):
    return np.sin(i * 12.9898) * 10


with resize_lib.session() as rs:
    x = rs.array("x", N, init=points)
    centroids = np.linspace(-9, 9, K)
    moved = []
    for it in rs.iterations(40):
        p = x.local
        label = np.abs(p[:, None] - centroids[None]).argmin(axis=1)
        s = np.zeros(K)
        c = np.zeros(K)
        np.add.at(s, label, p)
        np.add.at(c, label, 1)
        s = comm.allreduce(s)
        c = comm.allreduce(c)
        new = (s + centroids) / (c + 1)
        moved.append(float(abs(new - centroids).sum()))
        centroids = new
    got = float(centroids @ np.arange(1, K + 1)) + len(moved)
if comm.rank == 0:
    q = points(np.arange(N))
    ce = np.linspace(-9, 9, K)
    for it in range(40):
        l = np.abs(q[:, None] - ce[None]).argmin(axis=1)
        s = np.bincount(l, q, K)
        c = np.bincount(l, minlength=K)
        ce = (s + ce) / (c + 1)
    print("sum", got, "expected", float(ce @ np.arange(1, K + 1)) + 40)
