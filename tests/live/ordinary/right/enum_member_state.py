import enum

import resize_lib


class Planet(enum.Enum):
    EARTH = 1
    MARS = 2

    def __init__(self, n):
        self.visits = 0


here = Planet.EARTH
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    here = Planet.MARS if here is Planet.EARTH else Planet.EARTH
    here.visits += step
    value = Planet.MARS.visits + 3 * Planet.EARTH.visits
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 41675)
