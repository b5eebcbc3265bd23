# ruff: noqa: E501
"""Wrong calls, each with the exact sentence it gets: the argument, what was got, what is needed."""

from __future__ import annotations

import math
import re
from typing import Any

import array_api_strict as xps
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import tiebreak as tb
from tiebreak.linalg.refusals import Refusal

I2 = np.eye(2)
LS = tb.LeastSquares([[1.0, 1.0]], [1.0])
GROUPS = "GroupL2: groups must be a vector with the group of each variable (-1: none) or a list of lists of variables, got "
NO_PROJECTION = "domain must have a cheap projection"
TAKES_SUCH_SETS = "the conic and exact methods accept such sets"
NO_PROX = "the penalties and the domain must have a joint prox in closed form, got"
FOR_PENALTIES = "methods for penalties: adaptive, primal-dual, p-agm-bio, r-apm, pb-apg, bi-sg"


def sq(x: Any) -> float:
    return float(x @ x) / 2


def idt(x: Any) -> Any:
    return x


def small(**changes: Any) -> tb.Problem:
    parts = {
        "upper": tb.SquaredNorm(),
        "lower": tb.LeastSquares([[1.0, 1.0]], [1.0]),
        "domain": tb.Ball(2.0),
    }
    return tb.Problem(**(parts | changes))


WRONG = {
    "entries whose squares overflow": (
        lambda: tb.solve(small(lower=tb.LeastSquares([[1e160, 1.0]], [1.0]))),
        ValueError,
        "solve: A of LeastSquares in lower must be between 1e-152 and 1e+152 in size, or squares of its entries overflow or underflow; got |A| = 1e+160: rescale it",
    ),
    "entries whose squares underflow": (
        lambda: tb.solve(small(upper=tb.Logistic(1e-160 * I2, [1.0, -1.0])), "exact"),
        ValueError,
        "solve: A of Logistic in upper must be between 1e-152 and 1e+152 in size, or squares of its entries overflow or underflow; got |A| = 1.4e-160: rescale it",
    ),
    "a point of a problem whose squares overflow": (
        lambda: tb.certify(
            small(lower=tb.LeastSquares(sp.csr_array(1e200 * I2), [1.0, 1.0])), I2[0]
        ),
        ValueError,
        "certify: A of LeastSquares in lower must be between 1e-152 and 1e+152 in size, or squares of its entries overflow or underflow; got |A| = 1.4e+200: rescale it",
    ),
    "operator wrong adjoint": (
        lambda: tb.LeastSquares(
            LinearOperator((2, 3), lambda x: x[:2], lambda r: np.full(3, r[0]), dtype=float),
            [1.0, 1.0],
        ),
        ValueError,
        "LeastSquares: A must be one with <Ax, r> = <x, A'r>, got an adjoint (rmatvec) that does not match: sides 0.3 apart",
    ),
    "operator no adjoint": (
        lambda: tb.LeastSquares(LinearOperator((2, 3), lambda x: x[:2], dtype=float), [1.0, 1.0]),
        ValueError,
        "LeastSquares: A must have an adjoint (rmatvec), got _CustomLinearOperator without it",
    ),
    "operator complex": (
        lambda: tb.LeastSquares(aslinearoperator(np.eye(2, dtype=complex)), [1.0, 1.0]),
        TypeError,
        "LeastSquares: A must be a real operator, got dtype complex128",
    ),
    "operator nan": (
        lambda: tb.LeastSquares(aslinearoperator(np.diag([1.0, math.nan])), [1.0, 1.0]),
        ValueError,
        "LeastSquares: A must have finite products, got NaN or infinite ones",
    ),
    "operator gram": (
        lambda: tb.LeastSquares(aslinearoperator(I2), [1.0, 1.0], gram=True),
        ValueError,
        "LeastSquares: gram must be False or None if A is not a matrix in memory that can be made dense, got True",
    ),
    "operator exact": (
        lambda: tb.solve(small(lower=tb.LeastSquares(aslinearoperator(I2), [1.0, 1.0])), "exact"),
        ValueError,
        "Exact: lower must have matrices with known entries, which can be factorised, got an operator of 2 x 2",
    ),
    "Quadratic operator not symmetric": (
        lambda: tb.Quadratic(aslinearoperator(np.array([[1.0, 1.0], [0.0, 1.0]]))),
        ValueError,
        "Quadratic: Q must be symmetric, <Qx, y> = <x, Qy>, got two sides 0.1 apart",
    ),
    "Quadratic operator not square": (
        lambda: tb.Quadratic(aslinearoperator(np.ones((2, 3)))),
        ValueError,
        "Quadratic: Q must be square, got shape 2 x 3",
    ),
    "Quadratic operator not convex": (
        lambda: tb.Quadratic(aslinearoperator(np.diag([1.0, -1.0]))),
        ValueError,
        "Quadratic: Q must be positive semidefinite (convex), got the eigenvalue -1",
    ),
    "Quadratic streamed": (
        lambda: tb.Quadratic(tb.Streamed(np.eye(2))),
        TypeError,
        "Quadratic: Q must be a matrix in memory or an operator, got Streamed",
    ),
    "Streamed no file": (
        lambda: tb.Streamed("nowhere.npy"),
        ValueError,
        "Streamed: source must be a file that exists, got 'nowhere.npy'",
    ),
    "Streamed not a source": (
        lambda: tb.Streamed(3.0),
        TypeError,
        "Streamed: source must be a path or have shape, dtype and rows source[i:j], got float",
    ),
    "Streamed 1d": (
        lambda: tb.Streamed(np.ones(3)),
        ValueError,
        "Streamed: source must be a matrix with at least one column, got shape (3,)",
    ),
    "Streamed complex": (
        lambda: tb.Streamed(np.eye(2, dtype=complex)),
        TypeError,
        "Streamed: source must hold bool, whole or real numbers, got dtype complex128",
    ),
    "Streamed nan": (
        lambda: tb.Streamed(np.diag([1.0, math.nan])),
        ValueError,
        "Streamed: source must be finite, got NaN or infinite entries in row 1",
    ),
    "Streamed block": (
        lambda: tb.Streamed(I2, block=0),
        ValueError,
        "Streamed: block must be a whole number of bytes >= 1, got 0",
    ),
    "Streamed columns": (
        lambda: tb.Streamed(I2, columns=["a"]),
        ValueError,
        "Streamed: columns must be None if the source is not a Parquet file",
    ),
    "Streamed b": (
        lambda: tb.LeastSquares(tb.Streamed(I2), [1.0]),
        ValueError,
        "LeastSquares: b must have one entry per row of A (2), got 1",
    ),
    "LeastSquares A nan": (
        lambda: tb.LeastSquares([[1.0, math.nan]], [1.0]),
        ValueError,
        "LeastSquares: A must be finite, got NaN or infinite entries",
    ),
    "LeastSquares A inf -inf": (
        lambda: tb.LeastSquares([[math.inf, -math.inf]], [1.0]),
        ValueError,
        "LeastSquares: A must be finite, got NaN or infinite entries",
    ),
    "LeastSquares A 1d": (
        lambda: tb.LeastSquares([1.0, 2.0], [1.0]),
        ValueError,
        "LeastSquares: A must be a matrix with at least one column, got an array of shape (2,)",
    ),
    "LeastSquares A 3d": (
        lambda: tb.LeastSquares(np.zeros((2, 2, 2)), [1.0]),
        ValueError,
        "LeastSquares: A must be a matrix with at least one column, got an array of shape (2, 2, 2)",
    ),
    "LeastSquares A no cols": (
        lambda: tb.LeastSquares(np.zeros((3, 0)), np.zeros(3)),
        ValueError,
        "LeastSquares: A must be a matrix with at least one column, got an array of shape (3, 0)",
    ),
    "LeastSquares A string": (
        lambda: tb.LeastSquares("data.npy", [1.0]),
        TypeError,
        "LeastSquares: A must be an array of numbers, got str",
    ),
    "LeastSquares A list of strings": (
        lambda: tb.LeastSquares([["1", "2"]], [1.0]),
        TypeError,
        "LeastSquares: A must be an array of numbers, got strings",
    ),
    "LeastSquares A none": (
        lambda: tb.LeastSquares(None, [1.0]),
        TypeError,
        "LeastSquares: A must be an array of numbers, got NoneType",
    ),
    "LeastSquares A ragged": (
        lambda: tb.LeastSquares([[1.0], [1.0, 2.0]], [1.0]),
        ValueError,
        "LeastSquares: A must be a rectangular array, got rows of different lengths",
    ),
    "LeastSquares A complex": (
        lambda: tb.LeastSquares(np.array([[1j, 1.0]]), [1.0]),
        TypeError,
        "LeastSquares: A must hold real numbers, got dtype complex128",
    ),
    "LeastSquares A complex list": (
        lambda: tb.LeastSquares([[1j, 1.0]], [1.0]),
        TypeError,
        "LeastSquares: A must hold real numbers, got dtype complex128",
    ),
    "LeastSquares A sparse complex": (
        lambda: tb.LeastSquares(sp.csr_array(np.array([[1j, 1.0]])), [1.0]),
        TypeError,
        "LeastSquares: A must hold real numbers, got dtype complex128",
    ),
    "LeastSquares A sparse nan": (
        lambda: tb.LeastSquares(sp.csr_array(np.array([[math.nan, 1.0]])), [1.0]),
        ValueError,
        "LeastSquares: A must be finite, got NaN or infinite entries",
    ),
    "LeastSquares A object": (
        lambda: tb.LeastSquares(np.array([[1, 2]], dtype=object), [1.0]),
        TypeError,
        "LeastSquares: A must hold real numbers, got dtype object",
    ),
    "LeastSquares b short": (
        lambda: tb.LeastSquares(I2, [1.0]),
        ValueError,
        "LeastSquares: b must have one entry per row of A (2), got 1",
    ),
    "LeastSquares b 2d": (
        lambda: tb.LeastSquares(I2, [[1.0], [2.0]]),
        ValueError,
        "LeastSquares: b must be a vector with at least one entry, got an array of shape (2, 1)",
    ),
    "LeastSquares b empty": (
        lambda: tb.LeastSquares(I2, []),
        ValueError,
        "LeastSquares: b must be a vector with at least one entry, got an array of shape (0,)",
    ),
    "LeastSquares b nan": (
        lambda: tb.LeastSquares(I2, [1.0, math.nan]),
        ValueError,
        "LeastSquares: b must be finite, got NaN or infinite entries",
    ),
    "LeastSquares mean": (
        lambda: tb.LeastSquares(I2, [1.0, 2.0], mean="yes"),
        TypeError,
        "LeastSquares: mean must be True or False, got 'yes'",
    ),
    "LeastSquares gram": (
        lambda: tb.LeastSquares(I2, [1.0, 2.0], gram="yes"),
        TypeError,
        "LeastSquares: gram must be True or False or None, got 'yes'",
    ),
    "LeastSquares lipschitz neg": (
        lambda: tb.LeastSquares(I2, [1.0, 2.0], lipschitz=-1.0),
        ValueError,
        "LeastSquares: lipschitz must be a non-negative finite number, got -1.0",
    ),
    "LeastSquares lipschitz str": (
        lambda: tb.LeastSquares(I2, [1.0, 2.0], lipschitz="big"),
        TypeError,
        "LeastSquares: lipschitz must be a non-negative finite number, got str",
    ),
    "LeastSquares 0rows b1": (
        lambda: tb.LeastSquares(np.zeros((0, 2)), [1.0]),
        ValueError,
        "LeastSquares: b must have one entry per row of A (0), got 1",
    ),
    "Huber delta": (
        lambda: tb.Huber(I2, [0, 1], 0.0),
        ValueError,
        "Huber: delta must be a positive finite number, got 0.0",
    ),
    "Huber b": (
        lambda: tb.Huber(I2, [0, 1, 2]),
        ValueError,
        "Huber: b must have one entry per row of A (2), got 3",
    ),
    "Multinomial halves": (
        lambda: tb.Multinomial(I2, [0.5, 1.0]),
        ValueError,
        "Multinomial: y must hold the classes as whole numbers 0, 1, 2, ..., got the value 0.5",
    ),
    "Multinomial -1": (
        lambda: tb.Multinomial(I2, [-1, 1]),
        ValueError,
        "Multinomial: y must hold the classes as whole numbers 0, 1, 2, ..., got the value -1",
    ),
    "Multinomial strings": (
        lambda: tb.Multinomial(I2, ["cat", "dog"]),
        TypeError,
        "Multinomial: y must be an array of numbers, got strings",
    ),
    "Multinomial too many": (
        lambda: tb.Multinomial(I2, [0, 3], classes=3),
        ValueError,
        "Multinomial: y must hold labels below classes = 3, got the value 3",
    ),
    "Multinomial one class": (
        lambda: tb.Multinomial(I2, [0, 0], classes=1),
        ValueError,
        "Multinomial: classes must be a whole number >= 2, got 1",
    ),
    "Logistic 1/2": (
        lambda: tb.Logistic(I2, [1, 2]),
        ValueError,
        "Logistic: y must hold labels -1 and +1, or 0 and 1, got values 1, 2",
    ),
    "Logistic nan": (
        lambda: tb.Logistic(I2, [1.0, math.nan]),
        ValueError,
        "Logistic: y must be finite, got NaN or infinite entries",
    ),
    "Logistic 2d": (
        lambda: tb.Logistic(I2, [[1.0], [-1.0]]),
        ValueError,
        "Logistic: y must be a vector with at least one entry, got an array of shape (2, 1)",
    ),
    "Logistic strings": (
        lambda: tb.Logistic(I2, ["yes", "no"]),
        TypeError,
        "Logistic: y must be an array of numbers, got strings",
    ),
    "Logistic mean": (
        lambda: tb.Logistic(I2, [1, -1], mean=2),
        TypeError,
        "Logistic: mean must be True or False, got 2",
    ),
    "Quadratic asym": (
        lambda: tb.Quadratic([[1.0, 1.0], [0.0, 1.0]]),
        ValueError,
        "Quadratic: Q must be symmetric, got |Q - Q'| = 1.4 relative to |Q| = 1.7; pass (Q + Q')/2",
    ),
    "Quadratic indef": (
        lambda: tb.Quadratic([[1.0, 0.0], [0.0, -1.0]]),
        ValueError,
        "Quadratic: Q must be positive semidefinite (convex), got the eigenvalue -1",
    ),
    "Quadratic nonsq": (
        lambda: tb.Quadratic([[1.0, 0.0]]),
        ValueError,
        "Quadratic: Q must be square, got shape 1 x 2",
    ),
    "Quadratic c": (
        lambda: tb.Quadratic(I2, [1.0]),
        ValueError,
        "Quadratic: c must have one entry per row of Q (2), got 1",
    ),
    "Quadratic const": (
        lambda: tb.Quadratic(I2, constant="1"),
        TypeError,
        "Quadratic: constant must be a finite number, got str",
    ),
    "Quadratic const inf": (
        lambda: tb.Quadratic(I2, constant=math.inf),
        ValueError,
        "Quadratic: constant must be a finite number, got inf",
    ),
    "SquaredNorm w0": (
        lambda: tb.SquaredNorm(0.0),
        ValueError,
        "SquaredNorm: weight must be a positive finite number, got 0.0",
    ),
    "SquaredNorm wneg": (
        lambda: tb.SquaredNorm(-1.0),
        ValueError,
        "SquaredNorm: weight must be a positive finite number, got -1.0",
    ),
    "SquaredNorm wstr": (
        lambda: tb.SquaredNorm("1"),
        TypeError,
        "SquaredNorm: weight must be a positive finite number, got str",
    ),
    "SquaredNorm w matrix": (
        lambda: tb.SquaredNorm(np.ones((2, 1))),
        ValueError,
        "SquaredNorm: weight must be a vector with at least one entry, "
        "got an array of shape (2, 1)",
    ),
    "SquaredNorm w negative": (
        lambda: tb.SquaredNorm([1.0, -2.0]),
        ValueError,
        "SquaredNorm: weight must be non-negative, got -2 at index 1",
    ),
    "SquaredNorm w zeros": (
        lambda: tb.SquaredNorm(np.zeros(2)),
        ValueError,
        "SquaredNorm: weight must have a positive entry, got only zeros",
    ),
    "SquaredNorm w center": (
        lambda: tb.SquaredNorm([1.0, 2.0], [1.0]),
        ValueError,
        "SquaredNorm: center must have one entry per weight (2), got 1",
    ),
    "SquaredNorm center nan": (
        lambda: tb.SquaredNorm(1.0, [1.0, math.nan]),
        ValueError,
        "SquaredNorm: center must be finite, got NaN or infinite entries",
    ),
    "SquaredNorm center scalar": (
        lambda: tb.SquaredNorm(1.0, 3.0),
        ValueError,
        "SquaredNorm: center must be a vector with at least one entry, got a single number",
    ),
    "Linear 2d": (
        lambda: tb.Linear([[1.0, 2.0]]),
        ValueError,
        "Linear: c must be a vector with at least one entry, got an array of shape (1, 2)",
    ),
    "Linear empty": (
        lambda: tb.Linear([]),
        ValueError,
        "Linear: c must be a vector with at least one entry, got an array of shape (0,)",
    ),
    "Smooth not callable": (
        lambda: tb.Smooth(1.0, idt, 1.0),
        TypeError,
        "Smooth: value must be callable, got float",
    ),
    "Smooth grad": (
        lambda: tb.Smooth(sq, None, 1.0),
        TypeError,
        "Smooth: gradient must be callable, got NoneType",
    ),
    "Smooth L neg": (
        lambda: tb.Smooth(sq, idt, -1.0),
        ValueError,
        "Smooth: lipschitz must be a non-negative finite number, got -1.0",
    ),
    "Smooth L nan": (
        lambda: tb.Smooth(sq, idt, math.nan),
        ValueError,
        "Smooth: lipschitz must be a non-negative finite number, got nan",
    ),
    "Smooth sc > L": (
        lambda: tb.Smooth(sq, idt, 1.0, 2.0),
        ValueError,
        "Smooth: strong_convexity must not exceed lipschitz, got 2.0 > 1.0",
    ),
    "Smooth lb": (
        lambda: tb.Smooth(sq, idt, 1.0, lower_bound=math.nan),
        ValueError,
        "Smooth: lower_bound must be a number or -inf, got nan",
    ),
    "Smooth lb str": (
        lambda: tb.Smooth(sq, idt, 1.0, lower_bound="0"),
        TypeError,
        "Smooth: lower_bound must be a number or -inf, got str",
    ),
    "-1*f": (
        lambda: -1 * tb.SquaredNorm(),
        ValueError,
        "Scaled: weight must be a positive finite number, got -1.0",
    ),
    "0*f": (
        lambda: 0 * tb.SquaredNorm(),
        ValueError,
        "Scaled: weight must be a positive finite number, got 0.0",
    ),
    "sum dim": (
        lambda: tb.Linear([1.0]) + tb.Linear([1.0, 2.0]),
        ValueError,
        "Sum: both functions must have the same number of variables, got 1 and 2",
    ),
    "sum kinds": (
        lambda: tb.Linear([1.0]) + tb.Linear(xps.ones(1)),
        ValueError,
        "Sum: both functions must hold arrays of the same library and dtype, got numpy float64 and array_api_strict float64",
    ),
    "Ball neg": (
        lambda: tb.Ball(-1.0),
        ValueError,
        "Ball: radius must be a positive finite number, got -1.0",
    ),
    "Ball 0": (
        lambda: tb.Ball(0),
        ValueError,
        "Ball: radius must be a positive finite number, got 0",
    ),
    "Ball nan": (
        lambda: tb.Ball(math.nan),
        ValueError,
        "Ball: radius must be a positive finite number, got nan",
    ),
    "Ball str": (
        lambda: tb.Ball("1"),
        TypeError,
        "Ball: radius must be a positive finite number, got str",
    ),
    "Ball array": (
        lambda: tb.Ball([1.0, 2.0]),
        TypeError,
        "Ball: radius must be a positive finite number, got list",
    ),
    "Ball center": (
        lambda: tb.Ball(1.0, [[1.0]]),
        ValueError,
        "Ball: center must be a vector with at least one entry, got an array of shape (1, 1)",
    ),
    "Ball center nan": (
        lambda: tb.Ball(1.0, [math.nan]),
        ValueError,
        "Ball: center must be finite, got NaN or infinite entries",
    ),
    "Box crossed": (
        lambda: tb.Box(1.0, 0.0),
        ValueError,
        "Box: lower must not exceed upper, got 1.0 and 0.0",
    ),
    "Box crossed vec": (
        lambda: tb.Box([0.0, 2.0], [1.0, 1.0]),
        ValueError,
        "Box: lower must not exceed upper, got 2.0 and 1.0 at entry 1",
    ),
    "Box lens": (
        lambda: tb.Box([0.0, 0.0], [1.0]),
        ValueError,
        "Box: lower and upper must have the same length, got 2 and 1",
    ),
    "Box nan": (
        lambda: tb.Box(math.nan, 1.0),
        ValueError,
        "Box: lower must hold numbers or infinities, got NaN",
    ),
    "Box nan vec": (
        lambda: tb.Box([0.0, math.nan], 1.0),
        ValueError,
        "Box: lower must hold numbers or infinities, got NaN",
    ),
    "Box inf": (
        lambda: tb.Box(math.inf, math.inf),
        ValueError,
        "Box: lower must be below inf and upper above -inf",
    ),
    "Box str": (
        lambda: tb.Box("a", 1.0),
        TypeError,
        "Box: lower must be a number or a vector, got str",
    ),
    "Simplex neg": (
        lambda: tb.Simplex(-1.0),
        ValueError,
        "Simplex: total must be a positive finite number, got -1.0",
    ),
    "L1Ball 0": (
        lambda: tb.L1Ball(0.0),
        ValueError,
        "L1Ball: radius must be a positive finite number, got 0.0",
    ),
    "Halfspace zero": (
        lambda: tb.Halfspace([0.0, 0.0], 1.0),
        ValueError,
        "Halfspace: normal must not be the zero vector",
    ),
    "Halfspace offset nan": (
        lambda: tb.Halfspace([1.0, 0.0], math.nan),
        ValueError,
        "Halfspace: offset must be a finite number, got nan",
    ),
    "Halfspace normal scalar": (
        lambda: tb.Halfspace(1.0, 1.0),
        ValueError,
        "Halfspace: normal must be a vector with at least one entry, got a single number",
    ),
    "Halfspace normal empty": (
        lambda: tb.Halfspace([], 1.0),
        ValueError,
        "Halfspace: normal must be a vector with at least one entry, got an array of shape (0,)",
    ),
    "ErrorBound order": (
        lambda: tb.ErrorBound(0.5, 1.0, 1.0),
        ValueError,
        "ErrorBound: order must be a finite number >= 1, got 0.5",
    ),
    "ErrorBound mod": (
        lambda: tb.ErrorBound(1.0, 0.0, 1.0),
        ValueError,
        "ErrorBound: modulus must be a positive finite number, got 0.0",
    ),
    "ErrorBound grad": (
        lambda: tb.ErrorBound(1.0, 1.0, -1.0),
        ValueError,
        "ErrorBound: gradient_bound must be a non-negative finite number, got -1.0",
    ),
    "ErrorBound str": (
        lambda: tb.ErrorBound("2", 1.0, 1.0),
        TypeError,
        "ErrorBound: order must be a finite number >= 1, got str",
    ),
    "ErrorBound inf": (
        lambda: tb.ErrorBound(math.inf, 1.0, 1.0),
        ValueError,
        "ErrorBound: order must be a finite number >= 1, got inf",
    ),
    "Problem upper": (
        lambda: small(upper=lambda x: x),
        TypeError,
        "Problem: upper must be a function such as LeastSquares(A, b), Smooth(value, gradient), L1(0.1) or a sum of them, got a plain Python function",
    ),
    "Problem by position": (
        lambda: tb.Problem(tb.SquaredNorm(), tb.LeastSquares([[1.0, 1.0]], [2.0])),
        TypeError,
        "Problem: upper and lower must be given by name, as in Problem(upper=f, lower=g), which minimises f over all minimisers of g, got 2 without a name",
    ),
    "Problem without lower": (
        lambda: tb.Problem(upper=tb.SquaredNorm()),
        TypeError,
        "Problem: upper and lower must be given by name, as in Problem(upper=f, lower=g), which minimises f over all minimisers of g, got no lower",
    ),
    "Problem upper class": (
        lambda: small(upper=tb.SquaredNorm),
        TypeError,
        "Problem: upper must be a function such as LeastSquares(A, b), Smooth(value, gradient), L1(0.1) or a sum of them, got the class SquaredNorm",
    ),
    "Problem lower none": (
        lambda: small(lower=None),
        TypeError,
        "Problem: lower must be a function such as LeastSquares(A, b), Smooth(value, gradient), L1(0.1) or a sum of them, got NoneType",
    ),
    "Problem domain str": (
        lambda: small(domain="ball"),
        TypeError,
        "Problem: domain must be a set such as Box(0.0, 1.0) or Space(), got str",
    ),
    "Problem domain class": (
        lambda: small(domain=tb.Ball),
        TypeError,
        "Problem: domain must be a set such as Box(0.0, 1.0) or Space(), got the class Ball",
    ),
    "Problem dims": (
        lambda: small(upper=tb.SquaredNorm(1.0, [1.0, 2.0, 3.0])),
        ValueError,
        "Problem: upper and lower must have the same number of variables, got 3 and 2",
    ),
    "Problem domain dims": (
        lambda: small(domain=tb.Ball(1.0, [0.0, 0.0, 0.0])),
        ValueError,
        "Ball: center must have one entry per variable (2), got 3",
    ),
    "Problem domain box dims": (
        lambda: small(domain=tb.Box([0.0] * 3, 1.0)),
        ValueError,
        "Box: lower must have one entry per variable (2), got 3",
    ),
    "Problem domain half dims": (
        lambda: small(domain=tb.Halfspace([1.0] * 3, 1.0)),
        ValueError,
        "Halfspace: normal must have one entry per variable (2), got 3",
    ),
    "Problem radius": (
        lambda: small(radius=-1.0),
        ValueError,
        "Problem: radius must be a positive finite number, got -1.0",
    ),
    "Problem radius str": (
        lambda: small(radius="big"),
        TypeError,
        "Problem: radius must be a positive finite number, got str",
    ),
    "Problem eb": (
        lambda: small(error_bound=2.0),
        TypeError,
        "Problem: error_bound must be an ErrorBound, got float",
    ),
    "Problem lib": (
        lambda: small(upper=tb.Linear(xps.ones(2))),
        ValueError,
        "Problem: upper and lower must hold arrays of the same library and dtype, got array_api_strict float64 and numpy float64",
    ),
    "Problem unbounded": (
        lambda: small(lower=tb.Linear([1.0, 0.0]), domain=tb.Space()),
        ValueError,
        "Problem: lower is unbounded below on the domain, so it has no minimisers",
    ),
    "Problem unbounded scaled": (
        lambda: small(lower=2 * tb.Linear([1.0, 0.0]), domain=tb.Space()),
        ValueError,
        "Problem: lower is unbounded below on the domain, so it has no minimisers",
    ),
    "Problem unbounded sum": (
        lambda: small(lower=tb.Linear([1.0, 0.0]) + tb.Linear([1.0, 0.0]), domain=tb.Space()),
        ValueError,
        "Problem: lower is unbounded below on the domain, so it has no minimisers",
    ),
    "L1 str": (
        lambda: tb.L1("a"),
        TypeError,
        "L1: weight must be a non-negative finite number, got str",
    ),
    "L1 neg": (
        lambda: tb.L1(-1),
        ValueError,
        "L1: weight must be a non-negative finite number, got -1",
    ),
    "L1 nan": (
        lambda: tb.L1(math.nan),
        ValueError,
        "L1: weight must be a non-negative finite number, got nan",
    ),
    "L1 matrix": (
        lambda: tb.L1(np.ones((2, 1))),
        ValueError,
        "L1: weight must be a vector with at least one entry, got an array of shape (2, 1)",
    ),
    "L1 list": (
        lambda: tb.L1([0.1, -0.2]),
        ValueError,
        "L1: weight must be non-negative, got -0.2 at index 1",
    ),
    "L1 bool": (
        lambda: tb.L1(True),
        TypeError,
        "L1: weight must be a non-negative finite number, got bool",
    ),
    "L1 step": (
        lambda: tb.L1().prox(np.ones(2), -1.0),
        ValueError,
        "L1: step must be a non-negative finite number, got -1.0",
    ),
    "L2 inf": (
        lambda: tb.L2(math.inf),
        ValueError,
        "L2: weight must be a non-negative finite number, got inf",
    ),
    "ElasticNet l1": (
        lambda: tb.ElasticNet(-0.1, 1.0),
        ValueError,
        "ElasticNet: l1 must be a non-negative finite number, got -0.1",
    ),
    "ElasticNet l2": (
        lambda: tb.ElasticNet(0.1, "big"),
        TypeError,
        "ElasticNet: l2 must be a non-negative finite number, got str",
    ),
    "-1*L1": (
        lambda: -1 * tb.L1(),
        ValueError,
        "L1: its factor must be a non-negative finite number, got -1",
    ),
    "1e308*L1": (
        lambda: 1e308 * tb.L1(1e308),
        ValueError,
        "L1: weight must be a non-negative finite number, got inf",
    ),
    "-1*composite": (
        lambda: -1 * (LS + tb.L1()),
        ValueError,
        "L1: its factor must be a non-negative finite number, got -1",
    ),
    "0*composite": (
        lambda: 0 * (LS + tb.L1()),
        ValueError,
        "Scaled: weight must be a positive finite number, got 0.0",
    ),
    "GroupL2 str": (lambda: tb.GroupL2("ab"), TypeError, f"{GROUPS}str"),
    "GroupL2 number": (lambda: tb.GroupL2(3), TypeError, f"{GROUPS}int"),
    "GroupL2 floats": (lambda: tb.GroupL2([0.0, 1.0]), TypeError, f"{GROUPS}a list with float"),
    "GroupL2 names": (lambda: tb.GroupL2(["a", "b"]), TypeError, f"{GROUPS}a list with str"),
    "GroupL2 2d": (
        lambda: tb.GroupL2(np.zeros((2, 2), int)),
        ValueError,
        f"{GROUPS}an array of shape (2, 2)",
    ),
    "GroupL2 empty": (lambda: tb.GroupL2([]), ValueError, f"{GROUPS}an empty list"),
    "GroupL2 empty group": (
        lambda: tb.GroupL2([[0], []]),
        ValueError,
        "GroupL2: groups must not be empty, got group 1 without variables",
    ),
    "GroupL2 overlap": (
        lambda: tb.GroupL2([[0, 1], [1, 2]]),
        ValueError,
        "GroupL2: groups must be disjoint, got variable 1 twice",
    ),
    "GroupL2 label": (
        lambda: tb.GroupL2([0, -2]),
        ValueError,
        "GroupL2: groups must be whole numbers >= -1, got -2",
    ),
    "GroupL2 weight": (
        lambda: tb.GroupL2([0, 1], -1.0),
        ValueError,
        "GroupL2: weight must be a non-negative finite number, got -1.0",
    ),
    "GroupL2 + f dims": (
        lambda: LS + tb.GroupL2([0, 1, 1]),
        ValueError,
        "GroupL2: groups must have one entry per variable (2), got 3",
    ),
    "GroupL2 problem dims": (
        lambda: small(upper=tb.GroupL2([0, 1, 1])),
        ValueError,
        "GroupL2: groups must have one entry per variable (2), got 3",
    ),
    "GroupL2 lists dims": (
        lambda: small(upper=tb.GroupL2([[0, 2]])),
        ValueError,
        "GroupL2: groups must hold variables below 2, got 2",
    ),
    "GroupL2 x0 dims": (
        lambda: tb.solve(small(upper=tb.GroupL2([[0, 2]]), lower=tb.SquaredNorm()), x0=[1.0, 1.0]),
        ValueError,
        "GroupL2: groups must hold variables below 2, got 2",
    ),
    "composite + composite dims": (
        lambda: (LS + tb.L1()) + (tb.LeastSquares([[1.0]], [1.0]) + tb.L1()),
        ValueError,
        "Sum: both functions must have the same number of variables, got 2 and 1",
    ),
    "two partitions": (
        lambda: tb.GroupL2([[0, 1]]) + tb.GroupL2([[1, 2]]),
        Refusal,
        f"PenaltySum: {NO_PROX} two GroupL2 with different groups",
    ),
    "Indicator class": (
        lambda: tb.Indicator(tb.Box),
        TypeError,
        "Indicator: domain must be a domain such as Box(0, 1), got the class Box",
    ),
    "Indicator of a penalty": (
        lambda: tb.Indicator(tb.L1()),
        TypeError,
        "Indicator: domain must be a domain such as Box(0, 1), got L1",
    ),
    "two boxes apart": (
        lambda: small(upper=LS + tb.Indicator(tb.Box(0.0, 1.0)), domain=tb.Box(2.0, 3.0)),
        Refusal,
        "Problem: the two boxes must have a point in common",
    ),
    "two boxes dims": (
        lambda: small(
            upper=tb.L1() + tb.Indicator(tb.Box([0.0] * 3, 1.0)), domain=tb.Box([0.0] * 2, 1.0)
        ),
        Refusal,
        "Problem: the two boxes must have the same number of variables, got 2 and 3",
    ),
    "box and ball": (
        lambda: tb.solve(small(upper=LS + tb.Indicator(tb.Box(0.0, 1.0))), "agm-bio"),
        ValueError,
        f"AGMBiO: {NO_PROJECTION}, got Intersection; {TAKES_SUCH_SETS}",
    ),
    "indicator dims": (
        lambda: small(upper=tb.L1() + tb.Indicator(tb.Box([0.0] * 3, 1.0)), domain=tb.Space()),
        ValueError,
        "Box: lower must have one entry per variable (2), got 3",
    ),
    "Problem upper penalty class": (
        lambda: small(upper=tb.L1),
        TypeError,
        "Problem: upper must be a function such as LeastSquares(A, b), Smooth(value, gradient), L1(0.1) or a sum of them, got the class L1",
    ),
    "Problem upper domain": (
        lambda: small(upper=tb.Ball(1.0)),
        TypeError,
        "Problem: upper must be a function such as LeastSquares(A, b), Smooth(value, gradient), L1(0.1) or a sum of them, got Ball",
    ),
    "Problem domain penalty": (
        lambda: small(domain=tb.L1()),
        TypeError,
        "Problem: domain must be a set such as Box(0.0, 1.0) or Space(), got L1",
    ),
    "Problem domain indicator": (
        lambda: small(domain=tb.Indicator(tb.Box(0.0, 1.0))),
        TypeError,
        "Problem: domain must be a set such as Box(0.0, 1.0) or Space(), got Indicator",
    ),
    "Problem unbounded L1": (
        lambda: small(lower=tb.Linear([1.0, 0.0]) + tb.L1(0.5), domain=tb.Space()),
        ValueError,
        "Problem: lower is unbounded below on the domain, so it has no minimisers",
    ),
    "Problem unbounded L2": (
        lambda: small(lower=tb.Linear([3.0, 4.0]) + tb.L2(4.9), domain=tb.Space()),
        ValueError,
        "Problem: lower is unbounded below on the domain, so it has no minimisers",
    ),
    "Problem unbounded groups": (
        lambda: small(lower=tb.Linear([0.1, 0.0]) + tb.GroupL2([-1, 0]), domain=tb.Space()),
        ValueError,
        "Problem: lower is unbounded below on the domain, so it has no minimisers",
    ),
    "Problem unbounded orthant": (
        lambda: small(lower=tb.Linear([-1.0, 1.0]) + tb.L1(0.5), domain=tb.Orthant()),
        ValueError,
        "Problem: lower is unbounded below on the domain, so it has no minimisers",
    ),
    "solve two partitions": (
        lambda: tb.solve(
            tb.Problem(upper=tb.GroupL2([[0, 1]]), lower=tb.SquaredNorm() + tb.GroupL2([[1, 2]])),
            "p-agm-bio",
            x0=np.ones(3),
        ),
        ValueError,
        f"PAGMBiO: {NO_PROX} two GroupL2 with different groups",
    ),
    "solve L1 on a simplex": (
        lambda: tb.solve(small(upper=tb.L1(), domain=tb.Simplex()), "p-agm-bio"),
        ValueError,
        f"PAGMBiO: {NO_PROX} L1 and Simplex",
    ),
    "solve L2 in a box": (
        lambda: tb.solve(small(upper=LS + tb.L2(), domain=tb.Box(0.0, 1.0)), "p-agm-bio"),
        ValueError,
        f"PAGMBiO: {NO_PROX} L2 and Box",
    ),
    "solve sum in a ball elsewhere": (
        lambda: tb.solve(
            small(lower=LS + tb.L1() + tb.L2(), domain=tb.Ball(1.0, [1.0, 0.0])), "adaptive"
        ),
        ValueError,
        f"AdaptiveAGMBiO: {NO_PROX} L1 + L2 and Ball with another center",
    ),
    "agm-bio with a penalty": (
        lambda: tb.solve(small(upper=tb.L1()), "agm-bio"),
        ValueError,
        f"AGMBiO: upper must be smooth, got L1(weight=1.0); {FOR_PENALTIES}",
    ),
    "a-irg with a penalty": (
        lambda: tb.solve(small(upper=tb.L1()), "a-irg"),
        ValueError,
        f"AIRG: upper must be smooth, got L1(weight=1.0); {FOR_PENALTIES}",
    ),
    "sea with a penalty": (
        lambda: tb.solve(small(lower=LS + tb.L2(0.5)), "sea"),
        ValueError,
        f"SEA: lower must be smooth, got <LeastSquares, 1 x 2> + L2(weight=0.5); {FOR_PENALTIES}",
    ),
    "cg-bio with a penalty": (
        lambda: tb.solve(small(lower=LS + tb.L1()), "cg-bio"),
        ValueError,
        f"CGBiO: lower must be smooth, got <LeastSquares, 1 x 2> + L1(weight=1.0); {FOR_PENALTIES}",
    ),
    "bisec-bio with a penalty": (
        lambda: tb.solve(small(upper=tb.L1()), "bisec-bio"),
        ValueError,
        f"BisecBiO: upper must be smooth, got L1(weight=1.0); {FOR_PENALTIES}",
    ),
    "solve penalties without size": (
        lambda: tb.solve(small(upper=tb.L1(), lower=tb.L2())),
        ValueError,
        "solve: x0 is needed, because nothing in the problem says how many variables there are",
    ),
    "solve a penalty": (
        lambda: tb.solve(tb.L1()),
        TypeError,
        "solve: problem must be a Problem(upper=f, lower=g), got L1",
    ),
    "AGMBiO gamma 0": (
        lambda: tb.AGMBiO(gamma=0),
        ValueError,
        "AGMBiO: gamma must be a number in (0, 1] or None, got 0",
    ),
    "AGMBiO gamma 2": (
        lambda: tb.AGMBiO(gamma=2),
        ValueError,
        "AGMBiO: gamma must be a number in (0, 1] or None, got 2",
    ),
    "AGMBiO gamma nan": (
        lambda: tb.AGMBiO(gamma=math.nan),
        ValueError,
        "AGMBiO: gamma must be a number in (0, 1] or None, got nan",
    ),
    "AGMBiO gamma str": (
        lambda: tb.AGMBiO(gamma="1"),
        TypeError,
        "AGMBiO: gamma must be a number in (0, 1] or None, got str",
    ),
    "AGMBiO levels": (
        lambda: tb.AGMBiO(levels="online"),
        TypeError,
        "AGMBiO: levels must be OnlineLevels(), FixedLevels(iterations) or GivenLevels(values), got str",
    ),
    "AGMBiO levels class": (
        lambda: tb.AGMBiO(levels=tb.OnlineLevels),
        TypeError,
        "AGMBiO: levels must be OnlineLevels(), FixedLevels(iterations) or GivenLevels(values), got the class OnlineLevels",
    ),
    "AGMBiO horizon": (
        lambda: tb.AGMBiO(horizon=0),
        ValueError,
        "AGMBiO: horizon must be a whole number >= 1, got 0",
    ),
    "AGMBiO horizon type": (
        lambda: tb.AGMBiO(horizon=2.5),
        TypeError,
        "AGMBiO: horizon must be a whole number >= 1, got float",
    ),
    "Levels list": (
        lambda: tb.Levels([tb.L1(), tb.L2()]),
        TypeError,
        "Levels: levels must be given one by one, Levels(g, f), got list",
    ),
    "Levels one": (
        lambda: tb.Levels(tb.Linear([1.0])),
        ValueError,
        "Levels: levels must be two or more, such as Levels(g, SquaredNorm()) for the minimiser of "
        "g of least norm, got 1",
    ),
    "Levels domain": (
        lambda: tb.Levels(tb.L1(), tb.Linear([1.0]), domain=tb.Ball),
        TypeError,
        "Levels: domain must be a set such as Box(0.0, 1.0) or Space(), got the class Ball",
    ),
    "Levels radius": (
        lambda: tb.Levels(tb.L1(), tb.Linear([1.0]), radius=-1.0),
        ValueError,
        "Levels: radius must be a positive finite number, got -1.0",
    ),
    "Levels last slack": (
        lambda: tb.Levels(tb.L1(), tb.Level(tb.Linear([1.0]), slack=0.1)),
        ValueError,
        "Levels: the last level must have no slack, because no level follows it, got Slack(absolute=0.1, relative=0.0, share=0.0)",
    ),
    "Slack text": (
        lambda: tb.Slack(relative="1 %"),
        TypeError,
        "Slack: relative must be a non-negative finite number, got str",
    ),
    "FixedLevels 0": (
        lambda: tb.FixedLevels(0),
        ValueError,
        "FixedLevels: iterations must be a whole number >= 1, got 0",
    ),
    "FixedLevels 2.5": (
        lambda: tb.FixedLevels(2.5),
        TypeError,
        "FixedLevels: iterations must be a whole number >= 1, got float",
    ),
    "GivenLevels empty": (
        lambda: tb.GivenLevels([]),
        TypeError,
        "GivenLevels: values must be a number, a non-empty sequence of numbers or a callable of k, got an empty list",
    ),
    "GivenLevels str": (
        lambda: tb.GivenLevels("123"),
        TypeError,
        "GivenLevels: values must be a number, a non-empty sequence of numbers or a callable of k, got str",
    ),
    "GivenLevels nan": (
        lambda: tb.GivenLevels(math.nan),
        ValueError,
        "GivenLevels: the level of step 0 must be a number, got nan",
    ),
    "GivenLevels none": (
        lambda: tb.GivenLevels(None),
        TypeError,
        "GivenLevels: values must be a number, a non-empty sequence of numbers or a callable of k, got NoneType",
    ),
    "GivenLevels bool": (
        lambda: tb.GivenLevels(True),
        TypeError,
        "GivenLevels: values must be a number, a non-empty sequence of numbers or a callable of k, got bool",
    ),
    "solve problem": (
        lambda: tb.solve("x"),
        TypeError,
        "solve: problem must be a Problem(upper=f, lower=g), got str",
    ),
    "solve problem class": (
        lambda: tb.solve(tb.Problem),
        TypeError,
        "solve: problem must be a Problem(upper=f, lower=g), got the class Problem",
    ),
    "solve method": (
        lambda: tb.solve(small(), "quicksort"),
        ValueError,
        "solve: unknown method 'quicksort', use \"auto\" or a name in tb.methods()",
    ),
    "solve method misspelt": (
        lambda: tb.solve(small(), "AGM_BIO"),
        ValueError,
        "solve: unknown method 'AGM_BIO' (did you mean 'agm-bio'?)",
    ),
    "solve method class": (
        lambda: tb.solve(small(), tb.AGMBiO),
        TypeError,
        "solve: method must be a name or an object such as AGMBiO(), got the class AGMBiO",
    ),
    "solve method obj": (
        lambda: tb.solve(small(), 3),
        TypeError,
        "solve: method must be a name or an object such as AGMBiO(), got int",
    ),
    "solve rtol neg": (
        lambda: tb.solve(small(), rtol=-1e-4),
        ValueError,
        "solve: rtol must be a non-negative finite number, got -0.0001",
    ),
    "solve rtol nan": (
        lambda: tb.solve(small(), rtol=math.nan),
        ValueError,
        "solve: rtol must be a non-negative finite number, got nan",
    ),
    "solve rtol str": (
        lambda: tb.solve(small(), rtol="1e-4"),
        TypeError,
        "solve: rtol must be a non-negative finite number, got str",
    ),
    "solve rtol 3": (
        lambda: tb.solve(small(), rtol=(1, 2, 3)),
        ValueError,
        "solve: rtol must be one number or a pair, got 3 numbers",
    ),
    "solve rtol none": (
        lambda: tb.solve(small(), rtol=None),
        TypeError,
        "solve: rtol must be a non-negative finite number, got NoneType",
    ),
    "solve atol neg": (
        lambda: tb.solve(small(), atol=(0.0, -1.0)),
        ValueError,
        "solve: atol must be a non-negative finite number, got -1.0",
    ),
    "solve max_iter neg": (
        lambda: tb.solve(small(), max_iter=-1),
        ValueError,
        "solve: max_iter must be a whole number >= 0, got -1",
    ),
    "solve max_iter float": (
        lambda: tb.solve(small(), max_iter=1e4),
        TypeError,
        "solve: max_iter must be a whole number >= 0, got float",
    ),
    "solve max_iter none": (
        lambda: tb.solve(small(), max_iter=None),
        TypeError,
        "solve: max_iter must be a whole number >= 0, got NoneType",
    ),
    "solve max_time": (
        lambda: tb.solve(small(), max_time=0),
        ValueError,
        "solve: max_time must be a positive finite number, got 0",
    ),
    "solve max_time str": (
        lambda: tb.solve(small(), max_time="1 h"),
        TypeError,
        "solve: max_time must be a positive finite number, got str",
    ),
    "solve callback": (
        lambda: tb.solve(small(), callback=3),
        TypeError,
        "solve: callback must be callable, got int",
    ),
    "solve x0 len": (
        lambda: tb.solve(small(), x0=[1.0, 2.0, 3.0]),
        ValueError,
        "solve: x0 must have one entry per variable (2), got 3",
    ),
    "solve x0 2d": (
        lambda: tb.solve(small(), x0=[[1.0], [2.0]]),
        ValueError,
        "solve: x0 must be a vector with at least one entry, got an array of shape (2, 1)",
    ),
    "solve x0 nan": (
        lambda: tb.solve(small(), x0=[1.0, math.nan]),
        ValueError,
        "solve: x0 must be finite, got NaN or infinite entries",
    ),
    "solve x0 str": (
        lambda: tb.solve(small(), x0="origin"),
        TypeError,
        "solve: x0 must be an array of numbers, got str",
    ),
    "solve x0 liststr": (
        lambda: tb.solve(small(), x0=["1", "2"]),
        TypeError,
        "solve: x0 must be an array of numbers, got strings",
    ),
    "solve x0 scalar": (
        lambda: tb.solve(small(), x0=0.0),
        ValueError,
        "solve: x0 must be a vector with at least one entry, got a single number",
    ),
    "solve x0 needed": (
        lambda: tb.solve(small(lower=tb.SquaredNorm())),
        ValueError,
        "solve: x0 is needed, because nothing in the problem says how many variables there are",
    ),
    "solve x0 domain": (
        lambda: tb.solve(small(lower=tb.SquaredNorm(), domain=tb.Ball(1.0, [0.0, 0.0])), x0=[1.0]),
        ValueError,
        "solve: x0 must have one entry per variable (2), got 1",
    ),
    "solve lipschitz unknown": (
        lambda: tb.solve(small(upper=tb.Smooth(sq, idt)), "agm-bio"),
        ValueError,
        "AGMBiO: upper must have a known Lipschitz constant, got none; give Smooth(..., lipschitz=...)",
    ),
    "solve value none": (
        lambda: tb.solve(small(upper=tb.Smooth(lambda x: None, idt, 1.0))),
        TypeError,
        "Smooth: value must be a callable that returns a number, got NoneType",
    ),
    "solve value array": (
        lambda: tb.solve(small(upper=tb.Smooth(lambda x: x, idt, 1.0))),
        TypeError,
        "Smooth: value must be a callable that returns a number, got an array of shape (2,)",
    ),
    "solve value nan": (
        lambda: tb.solve(small(upper=tb.Smooth(lambda x: math.nan, idt, 1.0))),
        ValueError,
        "solve: the value of upper must be finite at the start, got nan",
    ),
    "solve grad shape": (
        lambda: tb.solve(small(upper=tb.Smooth(sq, lambda x: np.ones(3), 1.0))),
        ValueError,
        "solve: the gradient of upper must be a vector of 2 entries, got an array of shape (3,)",
    ),
    "solve grad scalar": (
        lambda: tb.solve(small(upper=tb.Smooth(sq, lambda x: 1.0, 1.0))),
        ValueError,
        "solve: the gradient of upper must be a vector of 2 entries, got float",
    ),
    "solve grad shape in a sum": (
        lambda: tb.solve(small(upper=tb.Smooth(sq, lambda x: np.ones(3)) + tb.SquaredNorm())),
        ValueError,
        "solve: the gradient of upper must be a vector of 2 entries, got an array of shape (3,)",
    ),
    "solve grad broadcast in a sum": (
        lambda: tb.solve(small(upper=2.0 * tb.Smooth(sq, lambda x: x[:1]) + tb.SquaredNorm())),
        ValueError,
        "solve: the gradient of upper must be a vector of 2 entries, got an array of shape (1,)",
    ),
    "solve grad none, weighted": (
        lambda: tb.solve(small(upper=2.0 * tb.Smooth(sq, lambda x: None))),
        ValueError,
        "solve: the gradient of upper must be a vector of 2 entries, got NoneType",
    ),
    "solve grad nan": (
        lambda: tb.solve(small(upper=tb.Smooth(sq, lambda x: x * math.nan, 1.0))),
        ValueError,
        "solve: the gradient of upper must be finite at the start, got NaN or infinite entries",
    ),
    "solve grad strings": (
        lambda: tb.solve(small(upper=tb.Smooth(sq, lambda x: np.array(["a", "b"]), 1.0))),
        TypeError,
        "solve: the gradient of upper must hold real floating-point numbers, got dtype <U1",
    ),
    "solve ckpt suffix": (
        lambda: tb.solve(small(), checkpoint="run.pkl"),
        ValueError,
        "solve: checkpoint must be a .npz file, got 'run.pkl'",
    ),
    "solve ckpt folder": (
        lambda: tb.solve(small(), checkpoint="no/such/folder/run.npz"),
        ValueError,
        "solve: checkpoint must be in a folder that exists, got 'no/such/folder/run.npz'",
    ),
    "solve ckpt type": (
        lambda: tb.solve(small(), checkpoint=3),
        TypeError,
        "solve: checkpoint must be a file name, got int",
    ),
    "certify problem": (
        lambda: tb.certify(None, [1.0]),
        TypeError,
        "certify: problem must be a Problem(upper=f, lower=g), got NoneType",
    ),
    "certify x len": (
        lambda: tb.certify(small(), [1.0]),
        ValueError,
        "certify: x must have one entry per variable (2), got 1",
    ),
    "certify x nan": (
        lambda: tb.certify(small(), [1.0, math.nan]),
        ValueError,
        "certify: x must be finite, got NaN or infinite entries",
    ),
    "tradeoff x0": (
        lambda: tb.tradeoff(small(), [0.1], x0=[1.0, 2.0, 3.0]),
        ValueError,
        "tradeoff: x0 must have one entry per variable (2), got 3",
    ),
    "tradeoff max_time": (
        lambda: tb.tradeoff(small(), [0.1], max_time=-1.0),
        ValueError,
        "tradeoff: max_time must be a positive finite number, got -1.0",
    ),
    "certify x none": (
        lambda: tb.certify(small(), None),
        TypeError,
        "certify: x must be an array of numbers, got NoneType",
    ),
    "certify max_iter": (
        lambda: tb.certify(small(), [1.0, 0.0], max_iter=-1),
        ValueError,
        "certify: max_iter must be a whole number >= 0, got -1",
    ),
    "certify max_iter f": (
        lambda: tb.certify(small(), [1.0, 0.0], max_iter=2.5),
        TypeError,
        "certify: max_iter must be a whole number >= 0, got float",
    ),
    "certify value none": (
        lambda: tb.certify(small(upper=tb.Smooth(lambda x: math.nan, idt, 1.0)), [1.0, 0.0]),
        ValueError,
        "certify: the value of upper must be finite at the start, got nan",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_call_gets_exactly_this_sentence(name):
    call, kind, sentence = WRONG[name]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert str(caught.value) == sentence


def test_table_is_long_and_every_sentence_is_one_that_names_its_owner():
    assert len(WRONG) >= 40
    for _, _, sentence in WRONG.values():
        assert re.match(r"^[A-Za-z0-9]+: \S.* \S+$", sentence)
        assert "\n" not in sentence
        assert not sentence.endswith(".")
        assert len(sentence) <= 160


@pytest.mark.parametrize(
    "call",
    [
        lambda: tb.SquaredNorm() * tb.SquaredNorm(),
        lambda: tb.SquaredNorm() + 3,
        lambda: tb.SquaredNorm() - tb.SquaredNorm(),
        lambda: tb.Problem(tb.SquaredNorm(), tb.SquaredNorm()),
        lambda: small(penalty=1.0),
        lambda: tb.LeastSquares(I2),
        lambda: tb.L1() + "x",
        lambda: tb.L1() + 3,
        lambda: LS + tb.L1,
        lambda: LS + tb.Ball(1.0),
        lambda: LS - tb.L1(),
        lambda: -tb.L1(),
        lambda: tb.L1() * tb.L1(),
        lambda: np.ones(2) * tb.L1(),
        lambda: (LS + tb.L1()) * (LS + tb.L1()),
        lambda: tb.L1(lam=0.1),
        lambda: tb.L1(0.1)(np.ones(2)),
        lambda: tb.ElasticNet(0.1),
    ],
)
def test_what_python_itself_refuses_is_a_type_error(call):
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize(
    "lower",
    [
        tb.Linear([1.0, 0.0]) + tb.L1(1.0),  # just bounded, minimal on a ray
        tb.Linear([1.0, 0.0]) + tb.L1(1.5),
        tb.Linear([3.0, 4.0]) + tb.L2(5.0),
        tb.Linear([1.0, 0.0]) + tb.ElasticNet(0.0, 1e-300),
        tb.Linear([1.0, 0.0]) + tb.GroupL2([0, -1]),
        tb.L1(),
    ],
)
def test_what_is_bounded_below_is_not_refused(lower):
    assert tb.Problem(upper=tb.SquaredNorm(), lower=lower).lower.value(np.zeros(2)) == 0.0


def test_wrong_input_is_refused_before_the_first_step():
    asked = []

    def gradient(x: Any) -> Any:
        asked.append(1)
        return x

    problem = small(upper=tb.Smooth(sq, gradient, lipschitz=1.0))
    for options in ({"rtol": -1}, {"x0": [1.0]}, {"max_iter": -1}, {"method": "no"}):
        with pytest.raises(ValueError):  # noqa: PT011
            tb.solve(problem, **options)
    assert asked == []


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), 0.5])
def test_every_real_number_is_a_number(number):
    assert tb.AGMBiO(gamma=number).gamma == 0.5
    assert tb.GivenLevels(number).at(3) == 0.5
    assert tb.Ball(number).radius == 0.5
    assert tb.SquaredNorm(number).weight == 0.5
    assert tb.ErrorBound(1, number, number).modulus == 0.5


@pytest.mark.parametrize("number", [np.int32(5), np.int64(5), 5])
def test_every_whole_number_is_a_whole_number(number):
    assert tb.FixedLevels(number).iterations == 5
    assert tb.AGMBiO(horizon=number).horizon == 5
    assert tb.solve(small(), "agm-bio", rtol=0.0, max_iter=number).nit == 5
    assert tb.Ball(number).radius == 5.0
