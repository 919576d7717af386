"""A Markov chain of words: nested Counters, and a random.Random that is passed about."""

import random
from collections import Counter, defaultdict

import resize_lib

TEXT = "the cat saw the dog and the dog saw the bird and the bird saw a cat".split()


class Chain:
    def __init__(self, seed):
        self.rng, self.after, self.word = random.Random(seed), defaultdict(Counter), "the"

    def learn(self, words, weight):
        for a, b in zip(words, words[1:]):
            self.after[a][b] += weight

    def say(self):
        nexts = self.after[self.word] or Counter(the=1)
        self.word = self.rng.choices(list(nexts), list(nexts.values()))[0]
        return self.word


def run(loop, add):
    chain, said = Chain(11), []
    for k in loop:
        chain.learn(TEXT[k % 9 : k % 9 + 6], add(k))
        said.append(chain.say())
    return sum(len(w) * i for i, w in enumerate(said)) + sum(
        sum(c.values()) for c in chain.after.values()
    )


rs = resize_lib.session()
got = run(
    rs.iterations(50),
    lambda k: rs.comm.allreduce(sum(k % 3 + i for i in range(rs.rank, 4, rs.size))),
)
if rs.rank == 0:
    print("sum", got, "expected", run(range(50), lambda k: 4 * (k % 3) + 6))
