"""Charge a battery: least cost, then least CO2, then the calmest schedule

A site with a battery buys electricity at a tariff that has three prices in a day, so many schedules
cost the same to the cent. A linear programming solver returns whichever vertex it meets first. The
carbon intensity of the grid can choose instead, and then the changes from hour to hour, which wear
out the battery; neither choice costs anything.
"""

# %%
# All profiles are simulated: smooth curves and steps of the usual shape, not those of a real site.
# The variables are what is bought, charged, discharged and stored in each of 24 hours.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

import tiebreak as tb

hours = np.arange(24)
load = 30 + 10 * np.sin((hours - 9) * np.pi / 12) + 12 * np.exp(-((hours - 19) ** 2) / 6)  # kW
tariff = np.select([hours < 6, hours < 17, hours < 21, hours < 22], [0.12, 0.22, 0.34, 0.22], 0.12)
carbon = np.select([hours < 4, hours < 10, hours < 16, hours < 22], [0.36, 0.52, 0.28, 0.52], 0.36)
efficiency, power, energy = 0.95, 20.0, 60.0  # of the battery: in each direction, kW, kWh

eye, none = np.eye(24), np.zeros((24, 24))
change = eye - eye[hours - 1]  # from the previous hour; the day wraps around at midnight
balance = np.block(
    [
        [eye, -eye, eye, none],  # bought = load + charged - discharged
        [none, -efficiency * eye, eye / efficiency, change],  # what is stored
    ]
)
right = np.concatenate([load, np.zeros(24)])
most = np.repeat([80.0, power, power, energy], 24)


def of_bought(weights):
    """Return weights for all variables, zero except for what is bought."""
    return np.hstack([weights, np.zeros((*weights.shape[:-1], 72))])


# %%
# Three objectives in order of priority. Each chooses among all optima of the earlier ones and gives
# up nothing of them: there are no weights to tune.

levels = tb.Levels(
    tb.Level(tb.Linear(of_bought(tariff)), name="cost"),
    tb.Level(tb.Linear(of_bought(carbon)), name="CO2"),
    tb.Level(tb.LeastSquares(of_bought(change), np.zeros(24)), name="ramps"),
    domain=tb.Box(0.0, most) & tb.Polyhedron(A_eq=balance, b_eq=right),
)
result = tb.solve(levels)
print(result)

# %%
# The vertex that SciPy's solver finds costs just as much.

bounds = np.column_stack([np.zeros(96), most])
vertex = linprog(of_bought(tariff), A_eq=balance, b_eq=right, bounds=bounds)
for name, x in (("linprog", vertex.x), ("tiebreak", result.x)):
    steepest = np.max(np.abs(change @ x[:24]))
    print(
        f"{name:<8} costs {of_bought(tariff) @ x:.2f}, emits {of_bought(carbon) @ x:.1f} kg, "
        f"changes by {steepest:.1f} kW in an hour at most"
    )

# %%
saved = of_bought(carbon) @ (vertex.x - result.x)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for start in (4, 16):
    ax.axvspan(start, start + 6, facecolor="0.93", edgecolor="0.88", hatch="//")
    ax.text(start + 3, 13, "much CO$_2$ per kWh", ha="center", color="0.3", backgroundcolor="0.93")
ax.stairs(load, range(25), baseline=None, color="0.4", linestyle=":", linewidth=1.5)
ax.stairs(vertex.x[:24], range(25), baseline=None, color="#c8553d", linestyle="--", linewidth=1.7)
ax.stairs(result.x[:24], range(25), baseline=None, color="#1f3b6f", linewidth=2.4)
ax.text(18.5, 48, "load", ha="center", color="0.3")
ax.text(5.0, 42.2, "linprog", ha="center", color="#c8553d")
ax.text(0.2, 37.8, "tiebreak", color="#1f3b6f")
ax.set(xlim=(0, 24), ylim=(10, 51), xticks=range(0, 25, 3))
ax.set_xlabel("hour of the day")
ax.set_ylabel("bought from the grid, kW")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title(
    f"At the same cost {saved:.1f} kg less CO$_2$ a day and a calmer schedule", fontsize=11
)

# %%
# Now we check the claims. A second linear program, with the cost as an extra constraint, confirms
# the least CO2 at the least cost.

cost, emitted, ramps = result.levels.values()
second = linprog(
    of_bought(carbon), [of_bought(tariff)], [vertex.fun + 1e-7], balance, right, bounds
)
assert result.success
assert abs(cost.value - vertex.fun) <= 1e-9 * vertex.fun
assert abs(emitted.value - second.fun) <= 1e-5 * second.fun
assert saved > 1.0
assert ramps.value < 0.5 * (0.5 * np.sum((change @ vertex.x[:24]) ** 2))

_, charged, discharged, _ = result.x.reshape(4, 24)  # a real schedule, within all limits
assert np.max(np.abs(balance @ result.x - right)) <= 1e-9
assert np.all((result.x >= -1e-9) & (result.x <= most + 1e-9))
assert np.max(np.minimum(charged, discharged)) <= 1e-6
plt.show()
