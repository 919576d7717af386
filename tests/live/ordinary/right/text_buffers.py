"""io.StringIO and io.BytesIO: written, rewound and read."""

import io

import resize_lib

rs = resize_lib.session()
out = io.StringIO()
inbox = io.BytesIO(bytes(range(200)))
total = 0
for step in rs.iterations(50):
    value = inbox.read(2)[1] + len(out.getvalue())
    print(step, value, file=out)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 4, rs.size)))
if rs.rank == 0:
    text, expected = "", 0
    for step in range(50):
        value = 2 * step + 1 + len(text)
        text += f"{step} {value}\n"
        expected += 4 * value
    print("sum", total, "expected", expected)
