"""Words in a trie: the loop's variable walks down dicts in dicts."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD


def run(loop, mine, add):
    trie = {}
    made = 0
    for s in loop:
        word = str(add(sum((s + i) ** 3 for i in mine(5))))
        node = trie
        for c in word:
            if c not in node:
                node[c] = {}
                made += 1
            node = node[c]
        node["$"] = node.get("$", 0) + s
    return made * 7 + len(str(trie))


rs = resize_lib.session()
got = run(rs.iterations(40), lambda n: range(comm.rank, n, comm.size), comm.allreduce)
if comm.rank == 0:
    print("sum", got, "expected", run(range(40), range, lambda x: x))
