"""BLAS by pointer: found anywhere, called on any view (no ranks are started here)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from apps.linalg import blas
from apps.linalg.blas_library import candidates, library, open_library
from apps.linalg.lu import TILE_COLS, TILE_ROWS, DeferredProduct
from harness.commands import HANG_S
from harness.examples import examples

SCIPY_OPENBLAS = sorted(Path(scipy.__file__).parents[1].glob("scipy.libs/*openblas*"))
Kind = np.float64 | np.float32 | np.complex128 | np.complex64
Draw = Callable[[st.SearchStrategy[Any]], Any]
KINDS: tuple[type[Kind], ...] = (np.float64, np.float32, np.complex128, np.complex64)
DTYPES = st.sampled_from(KINDS)
EXTENTS = st.integers(0, 12)


def normal(rng: np.random.Generator, shape: tuple[int, int], dtype: type[Kind]) -> NDArray[Any]:
    """Random numbers, of complex types in both parts."""
    drawn = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        return (drawn + 1j * rng.standard_normal(shape)).astype(dtype)
    return drawn.astype(dtype)


def view(
    draw: Draw, shape: tuple[int, int], dtype: type[Kind], rng: np.random.Generator
) -> NDArray[Any]:
    """A sub-matrix of a larger array, row- or column-major."""
    before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    size = tuple(extent + before + after for extent in shape)
    whole = np.array(normal(rng, size, dtype), order=draw(st.sampled_from("CF")))
    return whole[before : before + shape[0], before : before + shape[1]]


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_gemm_on_views_of_any_order_is_numpys_product(data: st.DataObject) -> None:
    m, n, k = (data.draw(EXTENTS) for _ in range(3))
    dtype, rng = data.draw(DTYPES), np.random.default_rng(data.draw(st.integers(0, 999)))
    a, b, c = (view(data.draw, shape, dtype, rng) for shape in ((m, k), (k, n), (m, n)))
    scalars: list[tuple[complex, complex]] = [(1.0, 0.0), (-1.0, 1.0), (2.0, 0.5)]
    if np.issubdtype(dtype, np.complexfloating):
        scalars.append((0.5 - 1j, 1j))
    alpha, beta = data.draw(st.sampled_from(scalars))
    wanted = alpha * (a @ b) + beta * c
    whole = c.base
    assert whole is not None
    surroundings = whole.sum() - c.sum()
    if beta == 0.0:
        c[:] = np.nan
    blas.gemm(alpha, a, b, beta, c)
    tolerance = 1000 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(c, wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(whole.sum() - c.sum(), surroundings, atol=1e4 * tolerance)


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_getrf_swaps_and_triangle_agree_with_scipy(data: st.DataObject) -> None:
    m, n, right = (data.draw(st.integers(1, 12)) for _ in range(3))
    dtype, rng = data.draw(DTYPES), np.random.default_rng(data.draw(st.integers(0, 999)))
    a: NDArray[Any] = np.asfortranarray(normal(rng, (m + 3, n), dtype))[1 : m + 1]
    b: NDArray[Any] = np.asfortranarray(normal(rng, (m + 2, right), dtype))[2:]
    original, original_b = a.copy(), b.copy()
    pivots, zero = blas.getrf(a)
    factors: NDArray[Any]
    factors, wanted, _ = scipy.linalg.get_lapack_funcs("getrf", (original,))(original)
    tolerance = 1000 * float(np.finfo(dtype).eps)
    assert pivots.tolist() == wanted.tolist()
    assert zero is None
    np.testing.assert_allclose(a, factors, rtol=tolerance, atol=tolerance)

    blas.swap_rows(b, pivots)
    order = np.arange(m)
    for row, pivot in enumerate(pivots):
        order[[row, pivot]] = order[[pivot, row]]
    assert np.array_equal(b, original_b[order])

    w = min(m, n)
    lower = np.tril(a[:w, :w], -1) + np.eye(w, dtype=dtype)
    solution = b[:w].copy(order="F")
    blas.solve_lower_unit(a[:w, :w], solution)
    np.testing.assert_allclose(lower @ solution, b[:w], rtol=0, atol=1e5 * tolerance)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 150), st.integers(0, 700), DTYPES)
def test_the_blocked_triangle_solves_as_trsm_does(
    height: int, columns: int, dtype: type[Kind]
) -> None:
    rng = np.random.default_rng(height + columns)
    lower = np.asfortranarray(0.1 * normal(rng, (height, height), dtype)).astype(dtype)
    b = np.asfortranarray(normal(rng, (height, columns), dtype))
    wanted = b.copy(order="F")
    blas.solve_lower_unit(lower, wanted)
    blas.solve_lower_unit_blocked(lower, b)
    limit = 1000 * np.finfo(dtype).eps * np.abs(wanted).max(initial=1.0)
    assert np.abs(b - wanted).max(initial=0.0) <= limit


@pytest.mark.parametrize("rows", [0, 1, TILE_ROWS, TILE_ROWS + 1, 2 * TILE_ROWS + 7])
@pytest.mark.parametrize("columns", [0, 1, TILE_COLS, 2 * TILE_COLS + 5])
def test_a_deferred_product_is_whole_however_many_tiles_were_done_before(
    rows: int, columns: int
) -> None:
    rng = np.random.default_rng(rows + columns)
    a, b, c = (rng.standard_normal(s) for s in ((rows, 5), (5, columns), (rows, columns)))
    for tiles in range(9):
        deferred, result = DeferredProduct(), c.copy()
        assert not deferred.step()
        deferred.put(a, b, result)
        done = sum(deferred.step() for _ in range(tiles))
        assert done == min(tiles, -(-rows // TILE_ROWS) * -(-columns // TILE_COLS))
        deferred.finish(lambda: None)
        np.testing.assert_allclose(result, c - a @ b, atol=1e-12)
        assert not deferred.step()
        deferred.put(a, b, result)  # it can take the next one


def test_a_second_product_cannot_replace_one_that_is_deferred() -> None:
    deferred, a = DeferredProduct(), np.ones((2, 2))
    deferred.put(a, a, a.copy())
    with pytest.raises(RuntimeError, match="still due"):
        deferred.put(a, a, a.copy())


def test_the_first_exact_zero_pivot_is_told() -> None:
    a = np.zeros((4, 4), order="F")
    a[0, 0] = 1.0
    assert blas.getrf(a)[1] == 1


def test_other_types_and_strides_are_refused() -> None:
    a = np.ones((4, 4))
    with pytest.raises(TypeError, match="complex64, complex128, not int64"):
        blas.getrf(a.astype(np.int64))
    with pytest.raises(ValueError, match=r"\(4, 4\) complex128 x \(4, 4\) float64"):
        blas.gemm(1.0, a.astype(complex), a, 0.0, a.astype(complex))
    with pytest.raises(ValueError, match="no contiguous rows or columns"):
        blas.gemm(1.0, np.ones((8, 8))[::2, ::2], a, 0.0, a.copy())
    with pytest.raises(ValueError, match="column-major"):
        blas.getrf(a)
    with pytest.raises(ValueError, match=r"\(4, 4\) float64 x \(3, 4\)"):
        blas.gemm(1.0, a, a[:3], 0.0, a.copy())


def test_numpys_own_library_is_the_first_choice() -> None:
    assert "numpy" in next(iter(candidates()))
    assert library().path == next(iter(candidates()))


@pytest.mark.skipif(not SCIPY_OPENBLAS, reason="this scipy brings no OpenBLAS of its own")
def test_scipys_library_with_32_bit_integers_is_usable() -> None:
    found = open_library(str(SCIPY_OPENBLAS[0]))
    assert found is not None
    assert found.int_bits == 32


def test_a_library_without_blas_is_not_taken() -> None:
    assert open_library("libc.so.6") is None
    assert open_library("/no/such/file.so") is None


def kernel_in_fresh_process(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    program = (
        "import numpy as np; from apps.linalg import blas, blas_library;"
        "a = np.array([[1., 2.], [4., 3.]], order='F'); print(blas.getrf(a)[0].tolist(),"
        "blas_library.library().path)"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.skipif(not SCIPY_OPENBLAS, reason="this scipy brings no OpenBLAS of its own")
def test_an_operator_can_choose_the_library() -> None:
    ended = kernel_in_fresh_process({"DQ_BLAS": str(SCIPY_OPENBLAS[0])})
    assert ended.stdout.split() == ["[1,", "1]", str(SCIPY_OPENBLAS[0])]


@pytest.mark.skipif(not SCIPY_OPENBLAS, reason="this scipy brings no OpenBLAS of its own")
@pytest.mark.parametrize("chosen", [None, "scipy's"])
def test_a_rank_computes_with_one_thread_unless_told_otherwise(chosen: str | None) -> None:
    program = (
        "import ctypes; import numpy as np; from apps.linalg import blas_library\n"
        "found = blas_library.library()\n"
        "name = 'scipy_openblas_get_num_threads' + ('64_' if found.int_bits == 64 else '')\n"
        "print(getattr(ctypes.CDLL(found.path), name)())"
    )
    unset = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "DQ_BLAS")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    if chosen:
        env["DQ_BLAS"] = str(SCIPY_OPENBLAS[0])
    threads = [
        subprocess.check_output([sys.executable, "-c", program], env={**env, **more}, text=True)
        for more in ({}, {"OPENBLAS_NUM_THREADS": "2"})
    ]
    assert [int(text) for text in threads] == [1, min(2, os.cpu_count() or 1)]


def test_a_useless_choice_is_one_clear_error() -> None:
    ended = kernel_in_fresh_process({"DQ_BLAS": "libc.so.6"})
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith(
        "no usable BLAS and LAPACK among libc.so.6: set DQ_BLAS to the file of one"
    )
