"""What file_of_cache_object.py imports."""


class Cache:
    def __init__(self, make):
        self.make, self.kept = make, {}  # refused

    def __call__(self, key):
        if key not in self.kept:
            self.kept[key] = self.make(key)  # refused
        return self.kept[key]


class Data:
    def __init__(self, comm):
        self.comm, self.shard = comm, Cache(self.load)

    def load(self, k):
        return [i * k for i in range(self.comm.rank, 24, self.comm.size)]
