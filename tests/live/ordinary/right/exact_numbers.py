"""Decimal, Fraction, complex, datetime and integers without bound."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import resize_lib

rs = resize_lib.session()
money = Decimal("100.00")
share = Fraction(1, 3)
rotation = 1 + 0j
now = datetime(2024, 1, 1, 12)
day = date(2024, 2, 20)
factorial = 1
days = 0
for step in rs.iterations(40):
    n = rs.comm.allreduce(len(range(rs.rank, 6, rs.size)))  # 6
    money += money * Decimal("0.01") * n / 6
    share = (share + Fraction(1, n)) / 2
    rotation *= 1j
    now += timedelta(hours=n)
    day += timedelta(days=1)
    factorial = factorial * (step + 1) % (10**30 + 57)
    days += day.day
if rs.rank == 0:
    m, s, f, d = Decimal("100.00"), Fraction(1, 3), 1, 0
    for step in range(40):
        m += m * Decimal("0.01") * 6 / 6
        s = (s + Fraction(1, 6)) / 2
        f = f * (step + 1) % (10**30 + 57)
        d += (date(2024, 2, 21) + timedelta(days=step)).day
    got = (m == money) + 2 * (s == share) + 4 * (f == factorial) + 8 * (rotation == 1)
    hours = (now - datetime(2024, 1, 1, 12)).total_seconds() / 3600
    print("sum", got + 100 * hours + days, "expected", 15 + 100 * 240 + d)
