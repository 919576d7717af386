"""Names, attributes and entries that the loop deletes and makes again."""

import resize_lib


class Box:
    pass


rs = resize_lib.session()
warm = 5
box = Box()
box.fresh = 10
table = {"a": 1, "b": 2}
total = 0
for step in rs.iterations(45):
    value = step
    try:
        value += warm
        if step == 7:
            del warm
    except NameError:
        value -= 1
    if hasattr(box, "fresh"):
        value += box.fresh
        if step % 9 == 4:
            del box.fresh
    elif step % 9 == 8:
        box.fresh = step
    table.pop("a" if step % 2 else "b", None)
    table["c" if step % 3 else "a"] = step
    total += rs.comm.allreduce(sum(value + sum(table.values()) for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    fresh, entries, expected = 10, {"a": 1, "b": 2}, 0
    for step in range(45):
        value = step + (5 if step <= 7 else -1)
        if fresh is not None:
            value += fresh
            fresh = None if step % 9 == 4 else fresh
        elif step % 9 == 8:
            fresh = step
        entries.pop("a" if step % 2 else "b", None)
        entries["c" if step % 3 else "a"] = step
        expected += 3 * (value + sum(entries.values()))
    print("sum", total, "expected", expected)
