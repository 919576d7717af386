"""A property with a setter that counts how often it was set; private names of a class."""

import resize_lib


class Thermostat:
    def __init__(self):
        self.__target = 20.0
        self._changes = 0

    @property
    def target(self):
        return self.__target

    @target.setter
    def target(self, value):
        self._changes += 1
        self.__target = value

    @property
    def changes(self):
        return self._changes


rs = resize_lib.session()
thermostat = Thermostat()
heat = 0.0
for step in rs.iterations(44):
    if step % 4 == 1:
        thermostat.target += 0.5
    parts = [thermostat.target * (i + 1) for i in range(rs.rank, 5, rs.size)]
    heat += rs.comm.allreduce(sum(parts)) + thermostat.changes
if rs.rank == 0:
    changes = [(step + 3) // 4 for step in range(44)]
    print("sum", heat, "expected", sum(15 * (20.0 + 0.5 * c) + c for c in changes))
