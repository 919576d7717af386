"""The loop inside of with statements: an ExitStack, a context manager of the program's."""

import contextlib

import resize_lib


@contextlib.contextmanager
def recorded(name, into):
    into[name] = {"events": 0}
    try:
        yield into[name]
    finally:
        into[name]["closed"] = True


rs = resize_lib.session()
book = {}
total = 0
with contextlib.ExitStack() as stack:
    record = stack.enter_context(recorded("run", book))
    done = []
    stack.callback(done.append, 1)
    for step in rs.iterations(45):
        record["events"] += 2
        total += rs.comm.allreduce(sum(record["events"] for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    got = total + 1000 * book["run"]["events"] + book["run"]["closed"] + len(done)
    print("sum", got, "expected", 3 * sum(2 * (k + 1) for k in range(45)) + 90_000 + 2)
