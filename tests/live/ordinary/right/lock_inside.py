"""A lock and a condition in an object that is otherwise plain data."""

import threading
import time

import resize_lib


class Store:
    def __init__(self):
        self._lock = threading.Lock()
        self._ready = threading.Condition()
        self.values = {}
        self.version = 0

    def put(self, key, value):
        with self._lock:
            self.values[key] = self.values.get(key, 0) + value
            self.version += 1

    def total(self):
        with self._lock:
            return sum(self.values.values()) * self.version


rs = resize_lib.session()
store = Store()
total = 0
for step in rs.iterations(50):
    store.put(step % 6, step)
    total += rs.comm.allreduce(sum(store.total() for _ in range(rs.rank, 3, rs.size)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 3 * sum(k * (k + 1) // 2 * (k + 1) for k in range(50)))
