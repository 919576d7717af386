"""Globals that functions change."""

import resize_lib

calls = 0
momentum = 0.0
log = []


def gradient(x):
    global calls
    calls += 1
    return 2 * (x - 3)


def update(x):
    global momentum
    momentum = 0.8 * momentum - 0.05 * gradient(x)
    log.append(calls)
    return x + momentum


def main():
    rs = resize_lib.session()
    x = 10.0
    for step in rs.iterations(50):
        x = update(x)
        x = rs.comm.allreduce(x) / rs.size
    if rs.rank == 0:
        y, m = 10.0, 0.0
        for _ in range(50):
            m = 0.8 * m - 0.1 * (y - 3)
            y += m
        print("sum", x + sum(log), "expected", y + 50 * 51 // 2)


if __name__ == "__main__":
    main()
