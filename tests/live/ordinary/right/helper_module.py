"""State in the globals of a second module of the program."""

import time

import _ledger as ledger
import resize_lib
from _ledger import Audit

rs = resize_lib.session()
for step in rs.iterations(50):
    amount = rs.comm.allreduce(sum(step + i for i in range(rs.rank, 3, rs.size)))
    ledger.book(amount, "high" if step % 5 == 0 else "low")
    if step % 10 == 9:
        ledger.RATES["low"] += 1
    Audit.look()
    time.sleep(0.02)
if rs.rank == 0:
    low, expected = 1, 0
    for step in range(50):
        expected += (3 * step + 3) * (3 if step % 5 == 0 else low) + (step + 1)
        low += step % 10 == 9
    expected += sum(range(1, 51))
    numbers = sum(number for number, _ in ledger.entries)
    print("sum", ledger.balance + Audit.seen + numbers, "expected", expected)
