"""What file_of_class_attribute.py imports."""


class Meter:
    last = 0.0

    @staticmethod
    def change(x):
        change = abs(x - Meter.last)
        Meter.last = x  # refused
        return change
