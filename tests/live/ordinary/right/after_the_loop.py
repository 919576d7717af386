"""What each iteration binds before it reads it is used after the loop, too."""

import resize_lib

rs = resize_lib.session()
u = rs.cartesian("u", (8, 8), halo=0, init=1.0)
p = rs.items("p", "i8", owner=lambda items, size: items % size, init=None)


def run():
    for step in rs.iterations(40):
        cart, part = u.cart, u.local
        items = p.migrate()
        part += 1
        if cart.rank == 0:
            last = step
        else:
            last = 0
    return cart.allreduce(part.sum() + len(items)), cart.allreduce(last)


total, last = run()
if rs.rank == 0:
    print("sum", int(total) + last, "expected", 64 * 41 + 39)
