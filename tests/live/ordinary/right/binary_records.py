"""A binary file, read record by record, with seek and tell."""

import struct
import tempfile

import resize_lib

rs = resize_lib.session()
records = tempfile.TemporaryFile()
records.write(b"".join(struct.pack("<id", i, i / 4) for i in range(100)))
records.seek(0)
total = 0.0
for step in rs.iterations(50):
    if step % 10 == 5:
        records.seek(12, 1)  # over one record
    number, value = struct.unpack("<id", records.read(12))
    total += rs.comm.allreduce(sum(number * value for _ in range(rs.rank, 4, rs.size)))
if rs.rank == 0:
    at, expected = 0, 0.0
    for step in range(50):
        at += step % 10 == 5
        expected += 4 * at * at / 4
        at += 1
    print("sum", total, "expected", expected)
