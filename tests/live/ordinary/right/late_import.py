"""A module of the program's that is imported in the loop only, and keeps state."""

import resize_lib


def book(amount):
    import _ledger

    return _ledger.book(amount)


rs = resize_lib.session()
total = 0
for step in rs.iterations(50):
    if step >= 2:
        value = book(step)
        total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", 3 * sum(sum(range(2, k + 1)) for k in range(2, 50)))
