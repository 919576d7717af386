"""State that methods keep: default arguments, attributes and closures of functions in a class."""

import resize_lib


class M:
    def remember(self, x, seen=[], *, box={"n": 0}):
        seen.append(x)
        box["n"] += len(seen)
        return box["n"]

    @staticmethod
    def stat(k):
        M.stat.calls = getattr(M.stat, "calls", 0) + k
        return M.stat.calls

    @classmethod
    def cl(cls, k, memo={"t": 1}):
        memo["t"] += k
        return memo["t"]

    def fun(self):
        M.fun.count += 1
        return M.fun.count


M.fun.count = 0


def deco(f):
    calls = [0]

    def g(*a):
        calls[0] += 1
        return f(*a) + calls[0]

    return g


class N:
    @deco
    def h(self, k):
        return k

    @property
    def p(self, acc=[0]):
        acc[0] += 2
        return acc[0]


m, n = M(), N()
rs = resize_lib.session()
total = 0
for step in rs.iterations(40):
    v = m.remember(step) + M.stat(step) + M.cl(step) + m.fun() + n.h(step) + n.p
    total += rs.comm.allreduce(sum(v for _ in range(rs.rank, 6, rs.size)))
if rs.rank == 0:
    a = 0
    e = 0
    s2 = 0
    for s in range(40):
        a += s + 1
        s2 += s
        e += 6 * (a + s2 + 1 + s2 + s + 1 + s + s + 1 + 2 * (s + 1))
    print("sum", total, "expected", e)
