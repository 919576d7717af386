"""Bookkeeping of helper_module.py."""

entries = []
balance = 0
_next_id = 1
RATES = {"low": 1, "high": 3}


def book(amount, rate="low"):
    global balance, _next_id
    balance += amount * RATES[rate]
    entries.append((_next_id, amount))
    _next_id += 1
    return balance


class Audit:
    seen = 0

    @classmethod
    def look(cls):
        cls.seen += len(entries)
        return cls.seen
