"""Which inequalities can be strict: thin wedges are neither closed nor guessed."""

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.linalg.linear_programs import strict_rows

WEDGE = {1e-3: (True, True, True), 1e-7: (True, True, True), 1e-8: (True, True, True)}
WEDGE |= {1e-10: None, 1e-11: None, 0.0: (False, False, True)}


def wedge(width: float) -> np.ndarray:
    """-width v_1 <= v_2 <= 0 <= v_1."""
    return np.array([[0.0, 1.0], [-width, -1.0], [-1.0, 0.0]])


@pytest.mark.parametrize("width", WEDGE)
def test_a_thin_wedge_is_not_closed(width):
    found = strict_rows(wedge(width))
    assert WEDGE[width] == (None if found is None else tuple(found.tolist()))


@pytest.mark.parametrize("width", WEDGE)
@pytest.mark.parametrize("seed", range(3))
def test_a_thin_wedge_among_other_rows_and_on_equations_is_not_closed(width, seed):
    """v_1 and v_2 are sums of other variables by equations; more rows are strict, or a line."""
    rng = np.random.default_rng(seed)
    equal = np.column_stack([np.eye(2), -rng.integers(1, 4, (2, 5))]).astype(float)
    line = np.array([0.0, 0, 1, -1, 0, 0, 0])
    others = [line, -line, *-np.eye(7)[4:6], *-np.ones((1, 7))]
    rows = np.vstack([np.column_stack([wedge(width), np.zeros((3, 5))]), *others])
    order = rng.permutation(len(rows))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = strict_rows(sp.csr_array(rows[order]), sp.csr_array(equal))
    expected = WEDGE[width] and np.array([*WEDGE[width], False, False, True, True, True])
    if found is not None:
        assert expected is not None
        np.testing.assert_array_equal(found, expected[order])


@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-7, 1e-8, 1e-10, 0.0])
@pytest.mark.parametrize("method", ["exact", "auto"])
def test_the_edge_of_a_thin_wedge_is_not_taken_for_the_only_minimiser(width, method):
    """All x with x_3 = 1 minimise g: (1, 0, 1) is the nearest to (1, 1, 0), not (0, 0, 1)."""
    ends = np.array([[1.0, 0, 0], [0, 0, 1], [0, 0, -1]])
    rows = np.vstack([np.column_stack([wedge(width), np.zeros(3)]), ends])
    problem = tb.Problem(
        lower=tb.LeastSquares([[0.0, 0.0, 1.0]], [2.0]),
        upper=tb.SquaredNorm(center=[1.0, 1.0, 0.0]),
        domain=tb.Polyhedron(A=rows, b=[0.0, 0, 0, 1, 1, 1]),
    )
    found = tb.solve(problem, method=method)
    assert found.status == "certified"
    np.testing.assert_allclose(found.x, [1.0, 0.0, 1.0], atol=1e-6)
    assert found.dimension in (2 if width else 1, None)
