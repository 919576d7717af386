"""A history of residuals, of which the last three decide the next step."""

import time

import resize_lib


def main():
    rs = resize_lib.session()
    history = [1.0, 1.0, 1.0]
    for step in rs.iterations(50):
        mean = sum(history[-3:]) / 3
        parts = rs.comm.allreduce(sum(mean / 16 for _ in range(rs.rank, 16, rs.size)))
        history.append(0.9 * parts + 0.01 * step)
        time.sleep(0.02)
    if rs.rank == 0:
        serial = [1.0, 1.0, 1.0]
        for step in range(50):
            serial.append(0.9 * sum(serial[-3:]) / 3 + 0.01 * step)
        print("sum", sum(history), "expected", sum(serial))


main()
