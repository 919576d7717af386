"""A record in a bytearray: struct.pack_into, a memoryview, a checksum by zlib."""

import struct
import zlib

import resize_lib


def run(loop, add):
    memory = bytearray(64)
    view, check = memoryview(memory), 0
    for k in loop:
        at = k % 8 * 8
        (old,) = struct.unpack_from("<q", memory, at)
        struct.pack_into("<q", memory, at, old * 3 % 10007 + add(k))
        view[63] = k % 256
        check = zlib.crc32(view[: at + 8], check)
    return check + sum(memory)


rs = resize_lib.session()
got = run(
    rs.iterations(60), lambda k: rs.comm.allreduce(sum(k * i for i in range(rs.rank, 3, rs.size)))
)
if rs.rank == 0:
    print("sum", got, "expected", run(range(60), lambda k: 3 * k))
