"""What the last iteration leaves behind is used after the loop, and a while loop runs inside."""

import resize_lib

rs = resize_lib.session()
x = 27
longest = (0, 0)
for step in rs.iterations(50):
    n, length = x + step, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        length += 1
    length = rs.comm.allreduce(length) // rs.size
    longest = max(longest, (length, x + step))
    x += length % 7
    last = length
if rs.rank == 0:
    y, top = 27, (0, 0)
    for at in range(50):
        m, count = y + at, 0
        while m != 1:
            m = m // 2 if m % 2 == 0 else 3 * m + 1
            count += 1
        top = max(top, (count, y + at))
        y += count % 7
    got = x + 10**4 * longest[0] + 10**8 * longest[1] + last
    print("sum", got + step, "expected", y + 10**4 * top[0] + 10**8 * top[1] + count + at)
