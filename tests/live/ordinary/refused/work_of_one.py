"""The samples of one rank are counted, and multiplied by the ranks at the end."""

import time

import resize_lib

rs = resize_lib.session()
sampled = 0
for _ in rs.iterations(40):
    sampled += 36 // rs.size  # refused
    time.sleep(0.005)
if rs.rank == 0:
    print("sum", sampled * rs.size, "expected", 36 * 40)
