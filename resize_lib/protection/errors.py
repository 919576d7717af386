"""What can go wrong with copies."""


class ProtectionError(Exception):
    """A copy that cannot be made, or cannot be used; one line says which and why."""
