"""Sets of texts, whose order is another one in every process."""

import resize_lib

WORDS = [f"w{i * 7919 % 1000}" for i in range(60)]

rs = resize_lib.session()
vocabulary = set()
groups = {frozenset(["none"]): 0}
rare = frozenset()
total = 0
for step in rs.iterations(55):
    vocabulary.add(WORDS[step])
    if step % 4 == 3:
        vocabulary.discard(WORDS[step - 2])
    rare = frozenset(w for w in vocabulary if len(w) < 4) | rare
    group = frozenset(sorted(vocabulary)[:2])
    groups[group] = groups.get(group, 0) + 1
    value = len(vocabulary) + len(rare) + groups[group]
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 4, rs.size)))
if rs.rank == 0:
    v, g, r, expected = set(), {}, set(), 0
    for step in range(55):
        v.add(WORDS[step])
        if step % 4 == 3:
            v.discard(WORDS[step - 2])
        r |= {w for w in v if len(w) < 4}
        two = tuple(sorted(v)[:2])
        g[two] = g.get(two, 0) + 1
        expected += 4 * (len(v) + len(r) + g[two])
    print("sum", total + len(groups), "expected", expected + len(g) + 1)
