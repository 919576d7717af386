"""A program beside this one that counts, asked in each iteration."""

import subprocess
import sys

import resize_lib

COUNTER = "import sys\nfor n, _ in enumerate(sys.stdin): print(n * n, flush=True)"

rs = resize_lib.session()
child = subprocess.Popen(  # refused
    [sys.executable, "-c", COUNTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
total = 0
for step in rs.iterations(40):
    child.stdin.write("next\n")
    child.stdin.flush()
    value = int(child.stdout.readline())
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 4, rs.size)))
child.stdin.close()
child.wait()
if rs.rank == 0:
    print("sum", total, "expected", 4 * sum(k * k for k in range(40)))
