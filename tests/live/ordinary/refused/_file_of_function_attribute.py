"""What file_of_function_attribute.py imports."""


def change(part):
    now = float(part.sum())
    before = getattr(change, "before", now)
    change.before = now  # refused
    return abs(now - before)
