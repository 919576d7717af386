"""What file_of_members.py imports."""


class Member:
    def __init__(self, i):
        self.i, self.x = i, i  # refused

    def advance(self, step):
        self.x = (3 * self.x + step) % 101  # refused


class Ensemble:
    def __init__(self, comm, n):
        self.comm, self.members = comm, [Member(i) for i in range(n)]

    def mine(self):
        return [m for m in self.members if m.i % self.comm.size == self.comm.rank]
