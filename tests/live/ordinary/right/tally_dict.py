"""A dictionary of counts by colour."""

import resize_lib

COLOURS = ("red", "green", "blue")

rs = resize_lib.session()
tally = {}
total = 0
for step in rs.iterations(60):
    votes = [COLOURS[(step + i) % 3] for i in range(rs.rank, 10, rs.size)]
    for part in rs.comm.allgather(votes):
        for colour in part:
            tally[colour] = tally.get(colour, 0) + 1
    leads = max(tally, key=tally.get)
    total += rs.comm.allreduce(sum(tally[leads] for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    serial, expected = [0, 0, 0], 0
    for step in range(60):
        for i in range(10):
            serial[(step + i) % 3] += 1
        expected += 3 * max(serial)
    print("sum", total + sum(tally.values()), "expected", expected + 600)
