"""Tables of pandas: labels that do not match are refused, columns without numbers are named."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import tiebreak as tb

ROWS = [7, 3, 5]
TABLE = pd.DataFrame({"age": [30.0, 41.0, 7.0], "income": [1.0, 2.0, 3.5]}, index=ROWS)
PRICE = pd.Series([1.0, -1.0, 1.0], index=ROWS, name="price")


@pytest.mark.parametrize("loss", [tb.LeastSquares, tb.Logistic, tb.Huber])
def test_rows_in_another_order_or_with_other_labels_are_refused(loss):
    name = "y" if loss is tb.Logistic else "b"
    loss(TABLE, PRICE)
    loss(TABLE, PRICE.to_numpy())
    loss(TABLE.to_numpy(), PRICE)
    loss(TABLE.reset_index(drop=True), PRICE.reset_index(drop=True))
    for other, got in ((PRICE.sort_index(), 3), (PRICE.reset_index(drop=True), 0)):
        with pytest.raises(
            ValueError, match=f"^{loss.__name__}: {name} must have the index of A, "
        ) as e:
            loss(TABLE, other)
        assert f"got {got} where A has 7; pass {name}.loc[A.index]" in str(e.value)
    loss(TABLE, PRICE.sort_index().loc[TABLE.index])


OTHER = TABLE[["income", "age"]]
NAMED = {
    "two levels": lambda: (tb.LeastSquares(OTHER, PRICE), tb.LeastSquares(TABLE, PRICE)),
    "a sum": lambda: (tb.SquaredNorm(), tb.LeastSquares(TABLE, PRICE) + tb.Linear(OTHER.iloc[0])),
    "center": lambda: (tb.SquaredNorm(1.0, OTHER.iloc[0]), tb.LeastSquares(TABLE, PRICE)),
    "weight": lambda: (tb.SquaredNorm(OTHER.iloc[0]), tb.LeastSquares(TABLE, PRICE)),
    "weight and center": lambda: (tb.SquaredNorm(OTHER.iloc[0], TABLE.iloc[0]), tb.SquaredNorm()),
    "Linear": lambda: (tb.Linear(OTHER.iloc[0]), tb.LeastSquares(TABLE, PRICE)),
    "Quadratic": lambda: (tb.Quadratic(TABLE.T @ TABLE), tb.LeastSquares(OTHER, PRICE)),
    "Quadratic itself": lambda: (tb.Quadratic(TABLE.T @ TABLE, OTHER.iloc[0]), tb.SquaredNorm()),
    "Quadratic Q": lambda: (tb.Quadratic(TABLE.T @ OTHER), tb.SquaredNorm()),
    "Ball": lambda: (tb.SquaredNorm(), tb.LeastSquares(TABLE, PRICE), tb.Ball(1.0, OTHER.iloc[0])),
    "Box": lambda: (tb.SquaredNorm(), tb.LeastSquares(TABLE, PRICE), tb.Box(OTHER.iloc[0], 50.0)),
    "both bounds": lambda: (tb.SquaredNorm(), tb.LeastSquares(TABLE, PRICE),
                            tb.Box(0 * OTHER.iloc[0], TABLE.iloc[0])),
    "Halfspace": lambda: (tb.SquaredNorm(), tb.LeastSquares(TABLE, PRICE),
                          tb.Halfspace(OTHER.iloc[0], 1.0)),
    "GroupL2": lambda: (tb.LeastSquares(TABLE, PRICE) + tb.GroupL2(pd.Series([0, 1], list(OTHER))),
                        tb.SquaredNorm()),
    "Indicator": lambda: (tb.SquaredNorm() + tb.Indicator(tb.Box(OTHER.iloc[0], 50.0)),
                          tb.LeastSquares(TABLE, PRICE)),
}  # fmt: skip


@pytest.mark.parametrize("what", NAMED)
def test_variables_of_other_names_or_in_another_order_are_refused(what):
    def make():
        upper, lower, *domain = NAMED[what]()
        return tb.Problem(upper=upper, lower=lower, domain=domain[0] if domain else tb.Space())

    sentence = r"same (columns|names|index) in the same order, got '.* at index 0$"
    with pytest.raises(ValueError, match=sentence):
        make()


def test_names_that_match_are_welcome_everywhere_and_counted_columns_are_no_names():
    bare = pd.DataFrame(TABLE.to_numpy())
    for upper in (TABLE, TABLE.to_numpy(), bare):
        f = tb.LeastSquares(upper, PRICE.to_numpy()) + tb.SquaredNorm(1.0, TABLE.iloc[0])
        p = tb.Problem(
            upper=f,
            lower=tb.LeastSquares(TABLE, PRICE),
            domain=tb.Box(-TABLE.iloc[0], TABLE.iloc[0]),
        )
        x = tb.solve(p, x0=TABLE.iloc[0]).x
        assert type(x) is np.ndarray
    with pytest.raises(ValueError, match=r"^solve: the problem and x0 must have the same names"):
        tb.solve(p, x0=OTHER.iloc[0])


TEXT = "must hold numbers, got text in column 'city'"
GAP = "must be finite, got NaN or infinite entries in column 'city'"


@pytest.mark.parametrize(
    ("column", "error", "got"),
    [
        (["a", "b", "c"], TypeError, TEXT),
        (pd.Categorical(["a", "b", "a"]), TypeError, TEXT),
        ([1, None, "x"], TypeError, TEXT),
        (pd.to_datetime(["2024", "2025", "2026"]), TypeError, "must hold numbers, got entries"),
        ([1.0, np.nan, 2.0], ValueError, GAP),
        (pd.array([1, None, 2], dtype="Int64"), ValueError, GAP),
        ([1.0, np.inf, 2.0], ValueError, GAP),
    ],
)  # fmt: skip
def test_a_column_that_is_wrong_is_named(column, error, got):
    table = TABLE.assign(city=column)
    with pytest.raises(error, match=f"^LeastSquares: A {got}"):
        tb.LeastSquares(table, PRICE)
    with pytest.raises(error, match=f"^Linear: c {got.partition(' in column')[0]}"):
        tb.Linear(table["city"])


def test_columns_of_any_numbers_are_taken():
    table = TABLE.assign(flag=[True, False, True], whole=pd.array([1, 2, 3], dtype="Int64"))
    f = tb.LeastSquares(table.astype({"age": np.float32}), PRICE)
    np.testing.assert_array_equal(f.matrix.entries, table.astype(float))
    assert f.prototype.dtype == np.float64
    assert tb.LeastSquares(TABLE.astype(np.float32), PRICE.to_numpy()).prototype.dtype == np.float32
    twice = pd.concat([TABLE, TABLE], axis=1)
    with pytest.raises(ValueError, match=r"^LeastSquares: A must have columns of different names"):
        tb.LeastSquares(twice, PRICE)


def test_columns_of_numbers_beside_true_and_false_are_taken():
    """What get_dummies makes of a table."""
    table = pd.get_dummies(pd.DataFrame({"age": [1.0, 2.0, 3.0], "sex": ["f", "m", "f"]}))
    loss = tb.LeastSquares(table, [1.0, 2.0, 3.0])
    plain = tb.LeastSquares([[1.0, 1, 0], [2, 0, 1], [3, 1, 0]], [1.0, 2.0, 3.0])
    x = np.array([0.3, -0.2, 0.7])
    assert loss.value(x) == plain.value(x)


@pytest.mark.parametrize("method", ["auto", "exact", "adaptive"])
def test_a_direction_without_minimum_is_told_by_the_names_of_the_columns(method):
    X = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "income": [1.0, 5.0, 2.0, 0.0]})
    lower = tb.Logistic(X, [0, 0, 1, 1])
    result = tb.solve(tb.Problem(lower=lower, upper=tb.SquaredNorm()), method)
    assert result.status == "unbounded"
    assert re.search(r"along the direction (age \+\S+, income -|income -\S+, age \+)", str(result))
    counted = tb.Logistic(X.to_numpy(), [0, 0, 1, 1])
    result = tb.solve(tb.Problem(lower=counted, upper=tb.SquaredNorm()), method)
    assert re.search(r"along the direction x\[[01]\]", str(result))


def test_a_direction_without_minimum_of_levels_is_told_by_the_names_too():
    X = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "income": [1.0, 5.0, 2.0, 0.0]})
    result = tb.solve(tb.Levels(tb.Logistic(X, [0, 0, 1, 1]), tb.SquaredNorm()))
    assert "income -" in result.message
