"""Loggers, in the module and in an object, beside a counter of what they have logged."""

import logging

import resize_lib

log = logging.getLogger("app")
log.addHandler(logging.NullHandler())
log.setLevel(logging.INFO)


class Filter(logging.Filter):
    records = 0

    def filter(self, record):
        Filter.records += 1
        return True


class Model:
    def __init__(self):
        self.log = logging.getLogger("app.model")
        self.level = 0

    def raise_level(self):
        self.level += 2
        self.log.info("level %d", self.level)


log.addFilter(Filter())
rs = resize_lib.session()
model = Model()
total = 0
for step in rs.iterations(45):
    model.raise_level()
    log.info("step %d", step)
    total += rs.comm.allreduce(sum(model.level * i for i in range(rs.rank, 4, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", 6 * sum(2 * (k + 1) for k in range(45)))
