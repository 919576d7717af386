"""Ensemble with task results broadcast; a cache of evaluations by value."""

import time
import resize_lib
from _file_of_cache_by_value import Search

rs = resize_lib.session()
s = Search(rs.comm)
for step in rs.iterations(36):
    s.generation(step)
    time.sleep(0.02)
if rs.rank == 0:
    pop = list(range(12))
    for k in range(36):
        pop = [(c * 3 + k) % 53 for c in sorted(pop, key=lambda c: ((c - 20) ** 2, c))]
    print(
        "sum",
        sum(i * c for i, c in enumerate(s.population)),
        "expected",
        sum(i * c for i, c in enumerate(pop)),
    )
