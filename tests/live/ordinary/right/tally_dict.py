"""A dictionary of counts by colour."""
import resize_lib

COLOURS = ("red", "green", "blue")

rs = resize_lib.session()
tally = {}
for step in rs.iterations(60):
    votes = [COLOURS[(step + i) % 3] for i in range(rs.rank, 10, rs.size)]
    for part in rs.comm.allgather(votes):
        for colour in part:
            tally[colour] = tally.get(colour, 0) + 1
if rs.rank == 0:
    expected = sum(
        (1, 10, 100)[(step + i) % 3] for step in range(60) for i in range(10)
    )
    print("sum", tally["red"] + 10 * tally["green"] + 100 * tally["blue"], "expected", expected)
