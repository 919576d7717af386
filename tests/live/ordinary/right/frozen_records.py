"""Frozen dataclasses: each iteration replaces the state by a new one."""

from dataclasses import dataclass, field, replace

import resize_lib


@dataclass(frozen=True, slots=True)
class Account:
    owner: str
    cents: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bank:
    accounts: dict[str, Account] = field(default_factory=dict)
    day: int = 0

    def paid(self, owner, cents):
        one = self.accounts.get(owner, Account(owner))
        one = replace(one, cents=one.cents + cents, notes=(*one.notes[-3:], f"{self.day}:{cents}"))
        return replace(self, accounts={**self.accounts, owner: one}, day=self.day + 1)


def run(loop, add):
    bank = Bank()
    for k in loop:
        bank = bank.paid("abcde"[k * k % 5], add(k))
    return bank.day + sum(a.cents * len("".join(a.notes)) for a in bank.accounts.values())


rs = resize_lib.session()
got = run(
    rs.iterations(45), lambda k: rs.comm.allreduce(sum(k + i for i in range(rs.rank, 4, rs.size)))
)
if rs.rank == 0:
    print("sum", got, "expected", run(range(45), lambda k: 4 * k + 6))
