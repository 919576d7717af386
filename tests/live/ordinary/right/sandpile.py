"""A sandpile in a dict of sites: a while loop topples within each iteration."""

from collections import defaultdict

import resize_lib

SIZE = 7


def topple(pile):
    fallen = 0
    todo = [site for site, n in pile.items() if n > 3]
    while todo:
        x, y = todo.pop()
        if pile[x, y] < 4:
            continue
        pile[x, y] -= 4
        fallen += 1
        for site in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
            if 0 <= min(site) and max(site) < SIZE:
                pile[site] += 1
                todo.append(site)
    return fallen


def run(drops, total_of):
    pile, fallen = defaultdict(int), 0
    for k in drops:
        where = (k * 5 % SIZE, k * 3 % SIZE)
        pile[where] += total_of(where) % 5 + 1
        fallen += topple(pile)
    return fallen * 1000 + sum(pile.values())


rs = resize_lib.session()
got = run(
    rs.iterations(60),
    lambda at: rs.comm.allreduce(sum(at[0] + i for i in range(rs.rank, 6, rs.size))),
)
if rs.rank == 0:
    print("sum", got, "expected", run(range(60), lambda at: 6 * at[0] + 15))
