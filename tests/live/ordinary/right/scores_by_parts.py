"""Scores in a dict, of which each rank computes a part and all get the whole."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

links = {i: [(i * 2) % 20, (i * 3 + 1) % 20] for i in range(20)}
rank = {i: 1 / 20 for i in links}
for it in rs.iterations(30):
    part = {}
    for i in list(links)[comm.rank :: comm.size]:
        for j in links[i]:
            part[j] = part.get(j, 0) + rank[i] / len(links[i])
    merged = {}
    for p in comm.allgather(part):
        for j, v in p.items():
            merged[j] = merged.get(j, 0) + v
    rank = {i: 0.15 / 20 + 0.85 * merged.get(i, 0) for i in links}
if comm.rank == 0:
    r = {i: 1 / 20 for i in links}
    for s in range(30):
        m = {}
        for i in links:
            for j in links[i]:
                m[j] = m.get(j, 0) + r[i] / 2
        r = {i: 0.15 / 20 + 0.85 * m.get(i, 0) for i in links}
    print(
        "sum",
        round(sum(i * v for i, v in rank.items()), 9),
        "expected",
        round(sum(i * v for i, v in r.items()), 9),
    )
