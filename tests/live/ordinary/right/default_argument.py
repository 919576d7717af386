"""A mutable default argument as a memory between calls."""

import resize_lib


def remember(value, memory=[], *, best={"value": None}):
    memory.append(value)
    if best["value"] is None or value > best["value"]:
        best["value"] = value
    return sum(memory[-4:]) + best["value"]


rs = resize_lib.session()
total = 0
for step in rs.iterations(50):
    value = remember(step * 37 % 53)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 5, rs.size)))
if rs.rank == 0:
    values = [step * 37 % 53 for step in range(50)]
    expected = sum(sum(values[max(0, k - 3) : k + 1]) + max(values[: k + 1]) for k in range(50))
    print("sum", total, "expected", 5 * expected)
