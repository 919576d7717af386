"""State as a namedtuple that is replaced in each iteration."""

import typing
from collections import namedtuple

import resize_lib

Point = namedtuple("Point", "x y")


class Track(typing.NamedTuple):
    head: Point
    length: int = 0


rs = resize_lib.session()
track = Track(Point(1, 0))
total = 0
for step in rs.iterations(50):
    x, y = track.head
    track = track._replace(head=Point((3 * x + y) % 1009, x), length=track.length + 1)
    mine = [track.head.x * track.length for _ in range(rs.rank, 7, rs.size)]
    total += rs.comm.allreduce(sum(mine))
if rs.rank == 0:
    x, y, expected = 1, 0, 0
    for n in range(1, 51):
        x, y = (3 * x + y) % 1009, x
        expected += 7 * x * n
    print("sum", total, "expected", expected)
