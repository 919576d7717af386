"""What file_of_memo.py imports."""


def memo(f):
    results = {}  # refused

    def wrapper(k, *args):
        if k not in results:
            results[k] = f(k, *args)
        return results[k]

    return wrapper


@memo
def shard(k, comm):
    return [i * k for i in range(comm.rank, 24, comm.size)]
