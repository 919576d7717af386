"""Iterators of many kinds, made before the loop: range, enumerate, zip, map, filter, reversed, dict."""

import resize_lib

names = {f"n{i}": i * i for i in range(80)}
ranges = iter(range(5, 500, 3))
numbered = enumerate([x * 2 for x in range(70)], start=10)
pairs = zip(range(100), range(1000, 1100))
squares = map(lambda x: x * x, range(90))
odd = filter(lambda x: x % 2, range(200))
backwards = reversed(list(range(75)))
keys = iter(names.items())
letters = iter("abcdefghij" * 6)


def draw():
    number, doubled = next(numbered)
    a, b = next(pairs)
    key, value = next(keys)
    numbers = (next(ranges), number, doubled, a, b, next(squares), next(odd), next(backwards))
    return sum(numbers) + value + len(key) + ord(next(letters))


rs = resize_lib.session()
total = 0
for step in rs.iterations(45):
    value = draw()
    total += rs.comm.allreduce(sum(value * i for i in range(rs.rank, 5, rs.size)))
if rs.rank == 0:
    expected = 0
    for s in range(45):
        fixed = 5 + 3 * s + 10 + s + 2 * s + s + 1000 + s + s * s + 2 * s + 1 + 74 - s
        expected += 10 * (fixed + s * s + len(f"n{s}") + ord("abcdefghij"[s % 10]))
    print("sum", total, "expected", expected)
