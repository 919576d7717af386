"""One list under two names, and in a dictionary that is a global as well."""

import resize_lib

registry = {"samples": []}
alias = registry["samples"]
nested = {"inner": {"list": alias, "pair": (alias, [])}}

rs = resize_lib.session()
for step in rs.iterations(40):
    value = rs.comm.allreduce(sum(step + i for i in range(rs.rank, 8, rs.size)))
    if step % 3 == 0:
        alias.append(value)
    elif step % 3 == 1:
        registry["samples"].append(2 * value)
    else:
        nested["inner"]["pair"][0].append(len(nested["inner"]["list"]))
        nested["inner"]["pair"][1].append(alias[-2])
if rs.rank == 0:
    plain, second = [], []
    for step in range(40):
        value = 8 * step + 28
        plain.append((value, 2 * value, len(plain))[step % 3])
        if step % 3 == 2:
            second.append(plain[-2])
    same = alias is registry["samples"] is nested["inner"]["list"]
    got = sum(alias) + 3 * sum(nested["inner"]["pair"][1]) + 10**9 * same
    print("sum", got, "expected", sum(plain) + 3 * sum(second) + 10**9)
