"""When to charge a battery: least cost, then least CO2, then the calmest schedule.

    python examples/dispatch.py

A site with a battery buys electricity at a tariff that has three prices in a day, so many schedules
cost the same. A linear programming solver returns one of them, whichever vertex it meets first; the
carbon intensity of the grid and the changes from hour to hour can choose instead, and cost nothing.
All profiles are made up here: smooth curves and steps of the usual shape, of no real site.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

import tiebreak as tb

HOURS = np.arange(24)
LOAD = 30 + 10 * np.sin((HOURS - 9) * np.pi / 12) + 12 * np.exp(-((HOURS - 19) ** 2) / 6)  # kW
TARIFF = np.select([HOURS < 6, HOURS < 17, HOURS < 21, HOURS < 22], [0.12, 0.22, 0.34, 0.22], 0.12)
CARBON = np.select([HOURS < 4, HOURS < 10, HOURS < 16, HOURS < 22], [0.36, 0.52, 0.28, 0.52], 0.36)
EFFICIENCY, POWER, ENERGY = 0.95, 20.0, 60.0  # of the battery: each way, kW, kWh

# x = (bought, charged, discharged, stored), each of them for 24 hours.
EYE, NONE = np.eye(24), np.zeros((24, 24))
CHANGE = EYE - EYE[HOURS - 1]  # from the hour before; the day before midnight is this day again
BALANCE = np.block(
    [
        [EYE, -EYE, EYE, NONE],  # bought = load + charged - discharged
        [NONE, -EFFICIENCY * EYE, EYE / EFFICIENCY, CHANGE],  # what is stored
    ]
)
RIGHT = np.concatenate([LOAD, np.zeros(24)])
MOST = np.repeat([80.0, POWER, POWER, ENERGY], 24)


def of_bought(weights: np.ndarray) -> np.ndarray:
    """The same for all variables: nothing but what is bought counts."""
    return np.hstack([weights, np.zeros((*weights.shape[:-1], 72))])


def levels() -> tb.Levels:
    """Cost, then CO2, then ramps."""
    return tb.Levels(
        tb.Level(tb.Linear(of_bought(TARIFF)), name="cost"),
        tb.Level(tb.Linear(of_bought(CARBON)), name="CO2"),
        tb.Level(tb.LeastSquares(of_bought(CHANGE), np.zeros(24)), name="ramps"),
        domain=tb.Box(0.0, MOST) & tb.Polyhedron(A_eq=BALANCE, b_eq=RIGHT),
    )


def main() -> tb.LevelsResult:
    """Solve, and compare with the vertex of a linear programming solver."""
    result = tb.solve(levels())
    print(result)

    bounds = np.column_stack([np.zeros(96), MOST])
    vertex = linprog(of_bought(TARIFF), A_eq=BALANCE, b_eq=RIGHT, bounds=bounds)
    for name, x in (("linprog", vertex.x), ("tiebreak", result.x)):
        cost, carbon = of_bought(TARIFF) @ x, of_bought(CARBON) @ x
        steepest = np.max(np.abs(CHANGE @ x[:24]))
        print(f"{name:<8} cost {cost:.2f}, CO2 {carbon:.2f} kg, steepest change {steepest:.1f} kW")

    # The cost is the same, the CO2 is the least at that cost, and the schedule is calmer.
    cost, carbon, ramps = result.levels.values()
    assert result.success
    assert abs(cost.value - vertex.fun) <= 1e-9 * vertex.fun
    assert carbon.value < of_bought(CARBON) @ vertex.x - 1.0
    assert ramps.value < 0.5 * np.sum((CHANGE @ vertex.x[:24]) ** 2)
    # Independently: CO2 minimised with the cost as one more row, at the price of 1e-7 of cost.
    second = linprog(
        of_bought(CARBON), [of_bought(TARIFF)], [vertex.fun + 1e-7], BALANCE, RIGHT, bounds
    )
    assert abs(carbon.value - second.fun) <= 1e-5 * second.fun
    # A real schedule: within all limits, and never charging and discharging at once.
    _, charged, discharged, _ = result.x.reshape(4, 24)
    assert np.max(np.abs(BALANCE @ result.x - RIGHT)) <= 1e-9
    assert np.all(result.x >= -1e-9)
    assert np.all(result.x <= MOST + 1e-9)
    assert np.max(np.minimum(charged, discharged)) <= 1e-6
    return result


if __name__ == "__main__":
    main()
