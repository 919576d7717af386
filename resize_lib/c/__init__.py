"""The resize library for programs in C and Fortran: dq.h, dq.f90 and libdq (docs/c.md).

    python -m resize_lib.c build -o dq
    cc -o heat heat.c $(python -m resize_lib.c flags dq)

libdq starts a Python inside the program and calls the same session as a Python program does
(program.py); cffi carries the calls (binding.py). Nothing here is loaded by Python programs.
"""
