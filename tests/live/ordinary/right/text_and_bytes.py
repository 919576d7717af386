"""Texts built up, bytes, a bytearray, array.array and a memoryview over it."""

import array
import hashlib

import resize_lib

rs = resize_lib.session()
text = ""
trail = b"start"
buffer = bytearray(8)
numbers = array.array("d", [0.0] * 4)
window = memoryview(numbers)
total = 0.0
for step in rs.iterations(45):
    n = rs.comm.allreduce(sum(step + i for i in range(rs.rank, 5, rs.size)))
    text += f"{n};"
    trail = trail[-20:] + bytes([n % 256])
    buffer[step % 8] = n % 256
    window[step % 4] += n / 2
    mine = (len(text) + sum(trail) + sum(buffer) + sum(numbers)) * 4
    total += rs.comm.allreduce(sum(mine for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    ns = [5 * step + 10 for step in range(45)]
    tail, ring, four, length, sums = b"start", bytearray(8), [0.0] * 4, 0, 0.0
    for step, n in enumerate(ns):
        tail = tail[-20:] + bytes([n % 256])
        ring[step % 8] = n % 256
        four[step % 4] += n / 2
        length += len(f"{n};")
        sums += 12 * (length + sum(tail) + sum(ring) + sum(four))
    digest = lambda *parts: int(hashlib.sha256(b"|".join(parts)).hexdigest()[:4], 16)
    expected = digest("".join(f"{n};" for n in ns).encode(), tail, ring) + sum(four) + sums
    print("sum", digest(text.encode(), trail, buffer) + sum(numbers) + total, "expected", expected)
