"""What tests, benchmarks and experiments share: clusters of their own, ranks, output, figures.

They import this package and the public ones, never one another (tests/architecture). It is not part
of the wheel.
"""
