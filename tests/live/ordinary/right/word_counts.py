"""Counter, defaultdict and OrderedDict from the standard library."""

import collections
import time

import resize_lib

TEXT = "the quick brown fox jumps over the lazy dog and the dog sleeps".split()

rs = resize_lib.session()
counts = collections.Counter()
places = collections.defaultdict(list)
recent = collections.OrderedDict()
first = 0
for step in rs.iterations(50):
    word = TEXT[step % len(TEXT)]
    counts[word] += rs.comm.allreduce(len(range(rs.rank, 4, rs.size)))
    places[word].append(step)
    first += rs.comm.allreduce(
        sum(places[word][0] + counts[word] for _ in range(rs.rank, 3, rs.size))
    )
    recent[word] = step
    recent.move_to_end(word, last=step % 2 == 0)
    time.sleep(0.02)
if rs.rank == 0:
    order = collections.OrderedDict()
    for step in range(50):
        order[TEXT[step % len(TEXT)]] = step
        order.move_to_end(TEXT[step % len(TEXT)], last=step % 2 == 0)
    weigh = lambda book: sum(i * v for i, v in enumerate(book.values()))
    got = sum(counts.values()) + sum(map(sum, places.values())) + 10**6 * weigh(recent) + first
    words = [TEXT[step % len(TEXT)] for step in range(50)]
    firsts = sum(words.index(w) + 4 * words[: k + 1].count(w) for k, w in enumerate(words))
    expected = 200 + sum(range(50)) + 10**6 * weigh(order) + 3 * firsts
    print("sum", got, "expected", expected)
