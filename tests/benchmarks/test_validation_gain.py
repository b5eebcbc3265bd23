"""The benchmark of the choice by validation data: its splits, its arithmetic, and its table."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "estimators"))

import gain_data
import validation_gain as gain

import tiebreak as tb
from tiebreak.sklearn import TieBreakRegressor

rng = np.random.default_rng(0)


def test_no_row_is_in_two_parts_and_a_series_is_tested_after_it_is_trained():
    for order in ("random", "time"):
        y = np.arange(50.0)
        case = gain_data.Case("c", "", y, y[:, None], gain_data.none(y), order=order)
        for seed in range(20):
            train, validation, test = case.split(seed)
            assert len({*train, *validation, *test}) == len(train) + len(validation) + len(test)
            if order == "time":
                assert train.max() < validation.min()
                assert validation.max() < test.min()
    assert test.max() == 49  # the last window ends the series


def test_new_levels_are_not_in_the_training_rows():
    levels = np.repeat(np.array(list("abcdefgh")), 30)
    y = rng.standard_normal(len(levels))
    X = gain_data.none(y)
    case = gain_data.Case("c", "", y, X, gain_data.hot(levels), levels=levels)
    train, validation, test = case.split(3)
    assert len(set(levels[train])) == 6
    assert len(set(levels[validation])) == len(set(levels[test])) == 8


def test_features_have_mean_0_and_deviation_1_in_the_training_rows_only():
    y = rng.standard_normal(40)
    X = np.column_stack([rng.standard_normal((40, 2)), np.ones(40)])
    expand = gain_data.products(2)
    case = gain_data.Case("c", "", y, X, gain_data.none(y), expand=expand)
    train = case.split(0).train
    Z = case.features(train)
    assert Z.shape == (40, 9)
    np.testing.assert_allclose(Z[train].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(Z[train].std(axis=0)[:2], 1.0)


def test_losses_are_those_of_scikit_learn():
    from sklearn.metrics import log_loss, mean_poisson_deviance, mean_squared_error

    y, p = rng.integers(0, 2, 30).astype(float), rng.uniform(0.1, 0.9, 30)
    assert gain.loss_of("logistic", y, p) == pytest.approx(log_loss(y, p))
    assert gain.loss_of("squared", y, p) == pytest.approx(mean_squared_error(y, p))
    counts = rng.poisson(2.0, 30).astype(float)
    assert 2.0 * gain.loss_of("poisson", counts, p) == pytest.approx(
        mean_poisson_deviance(counts, p)
    )


@pytest.mark.parametrize("columns", [40, 12])
def test_the_shrunk_choice_is_the_regressor_with_a_penalty_on_the_norm(columns):
    X = rng.standard_normal((40, columns))
    X[:, -1] = X[:, 0] + X[:, 1]  # ties, whatever the number of columns
    y = X[:, 0] + rng.standard_normal(40)
    A, y, V, w = X[:15], y[:15], X[15:], y[15:]
    V[:, -1] += rng.standard_normal(25)
    found = gain.shrunk(A, y, V, w)
    prefer = tb.LeastSquares(V - A.mean(axis=0), w - y.mean()) + tb.SquaredNorm(found.weight)
    model = TieBreakRegressor(prefer).fit(A, y)
    np.testing.assert_allclose(found.coef, model.coef_, atol=1e-6)
    assert found.intercept == pytest.approx(model.intercept_, abs=1e-6)


def test_all_fits_with_ties_have_the_least_training_loss():
    case = gain_data.wine()
    one = gain.run_split(case, case.split(0))
    assert one.ties == 20  # 90 columns less 71 rows, of which the intercept takes one
    for name in ("norm", "chosen", "shrunk"):
        assert one.training[name] <= 1e-12
    assert one.training["ridge"] > 1e-3
    assert one.moved > 0.1  # and yet they say something else about new rows


def test_where_test_rows_are_combinations_of_training_rows_the_choice_changes_nothing():
    levels = np.array(["a", "b", "c"] * 20)
    y = rng.standard_normal(60)
    case = gain_data.Case("c", "", y, gain_data.none(y), gain_data.hot(levels))
    one = gain.run_split(case, case.split(0))
    assert one.ties == 1
    assert one.moved <= 1e-9
    assert one.losses["chosen"] == pytest.approx(one.losses["norm"], rel=1e-9)


def test_a_verdict_needs_more_than_two_standard_errors():
    noise = rng.standard_normal(20) * 0.01
    base = np.full(20, 0.5)
    assert gain.verdict(base * 0.8 + noise, base) == "better"
    assert gain.verdict(base * 1.3 + noise, base) == "worse"
    assert gain.verdict(base + noise, base) == "unclear"
    assert gain.verdict(base * (1.0 + 1e-9), base) == "the same"
    assert gain.wins(np.array([-1.0, 1.0, 0.0, -1.0]), 1.0) == "2/3"
    # sd sqrt(1/20 + 3/7), by Nadeau and Bengio
    expected = np.std(noise, ddof=1) * np.sqrt(0.05 + 3.0 / 7.0)
    assert gain.standard_error(noise, gain.SHARED) == pytest.approx(expected)


def test_the_command_prints_its_table(capsys, tmp_path):
    out = ["--out", str(tmp_path)]
    assert gain.main(["--only", "linnerud", "covid", "--splits", "2", *out]) == 0
    printed = capsys.readouterr().out
    assert "| linnerud | 8 + 6 + 6 | 20 | 13 |" in printed
    assert "covid is left out: it needs england_covid.json in the folder of --data" in printed
    assert "chosen against both: 0 better, 0 worse, 0 unclear, 1 the same;" in printed
    assert "Fits by tiebreak that are proved: 6 of 6." in printed
    lines = (tmp_path / "validation_gain.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * len(gain.FITS)


def test_an_unknown_data_set_is_named(capsys):
    with pytest.raises(SystemExit):
        gain.main(["--only", "nonsense"])
    assert "'nonsense' is unknown" in capsys.readouterr().err
