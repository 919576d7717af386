"""What file_of_cache_by_value.py imports."""


class Search:
    def __init__(self, comm):
        self.comm, self.population, self.cache = comm, list(range(12)), {}

    def cost(self, c):
        if c not in self.cache:
            self.cache[c] = (c - 20) ** 2
        return self.cache[c]

    def generation(self, k):
        r, p = self.comm.rank, self.comm.size
        mine = [(self.cost(c), c) for c in self.population[r::p]]
        ranked = sorted(x for part in self.comm.allgather(mine) for x in part)
        self.population = [(c * 3 + k) % 53 for _, c in ranked]
