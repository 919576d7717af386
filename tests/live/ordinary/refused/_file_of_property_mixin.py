"""What file_of_property_mixin.py imports."""


class Tracked:
    _mass = _before = 0.0

    @property
    def mass(self):
        return self._mass

    @mass.setter
    def mass(self, value):
        self._before = self._mass  # refused
        self._mass = value  # refused


class Changing(Tracked):
    @property
    def change(self):
        return abs(self._mass - self._before)


class Field(Changing):
    pass
