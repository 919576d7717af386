"""What file_of_decorator.py imports."""


def with_previous(f):
    def wrapper(*args):
        before, wrapper.last = wrapper.last, f(*args)  # refused
        return wrapper.last, before

    wrapper.last = 0.0  # refused
    return wrapper
