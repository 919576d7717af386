"""Arrays of objects, masked, in Fortran order, not contiguous, of dates, read-only."""

import numpy as np

import resize_lib


def made():
    fortran = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    return {
        "objects": np.array([1, "a", None, [2]], dtype=object),
        "masked": np.ma.masked_less(np.arange(6.0), 2),
        "fortran": fortran,
        "every": np.zeros(10)[::2],
        "dates": np.array(["2024-01-01", "2024-02-01"], dtype="datetime64[D]"),
        "complex": np.ones(2, dtype=np.complex64),
        "half": np.ones(2, dtype=np.float16),
    }


def advance(a, s):
    a["objects"][0] += s
    a["objects"][3].append(s)
    a["masked"][s % 6] = np.ma.masked if s % 4 == 0 else s
    a["fortran"][:, s % 4] += s
    a["every"] += 0.5
    a["dates"][s % 2] += np.timedelta64(s, "D")
    a["complex"] *= 1j
    a["half"] = a["half"] * np.float16(0.5) + np.float16(s % 3)
    fixed = a["masked"].sum() + a["fortran"][2, 1] + a["every"].sum() + a["half"].sum()
    days = (a["dates"] - np.datetime64("2024-01-01")).astype(int).sum()
    return float(fixed + days + a["objects"][0] + sum(a["objects"][3]) + a["complex"][0].real)


rs = resize_lib.session()
arrays = made()
total = 0.0
for step in rs.iterations(45):
    value = advance(arrays, step)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    other = made()
    print("sum", total, "expected", sum(3 * advance(other, step) for step in range(45)))
