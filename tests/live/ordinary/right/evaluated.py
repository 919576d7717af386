"""Formulas as texts, evaluated in a namespace of the program's, and a compiled one."""

import resize_lib

namespace = {"x": 1.0, "log": []}
rule = compile("x = 0.9 * x + share; log.append(x)", "<rule>", "exec")
formulas = ["x + len(log)", "x * 2", "sum(log[-3:])"]

rs = resize_lib.session()
total = 0.0
for step in rs.iterations(45):
    namespace["share"] = rs.comm.allreduce(sum(0.1 * step for _ in range(rs.rank, 5, rs.size)))
    exec(rule, namespace)
    value = eval(formulas[step % 3], namespace)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 2, rs.size)))
if rs.rank == 0:
    x, log, expected = 1.0, [], 0.0
    for step in range(45):
        x = 0.9 * x + 0.5 * step
        log.append(x)
        expected += 2 * (x + len(log), x * 2, sum(log[-3:]))[step % 3]
    print("sum", total, "expected", expected)
