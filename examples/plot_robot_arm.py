"""A redundant robot arm: the hand first, then the elbow, then the posture

An arm with seven joints can move its hand in many ways. At every instant, the joint velocities
should move the hand as required; among all that do, lift the elbow as required; and among all
these, return to a rest posture. The standard recipe in robotics projects each task onto the null
space of the earlier ones. It ignores limits: if a joint would be too fast, its velocity is clipped,
and the hand, which has first priority, leaves its path although the other joints could compensate.
Levels treat the limits as constraints.
"""

# %%
# The arm is simulated: seven links of 20 cm in a plane, and joints that turn by at most 0.6 rad/s.

import matplotlib.pyplot as plt
import numpy as np

import tiebreak as tb

joints, elbow, length = 7, 4, 0.2
rest = np.array([1.6, -0.6, -0.6, 0.5, -0.5, -0.5, 0.4])
step, steps = 0.05, 30  # length of a step in seconds, and number of steps
speed, lift, limit = np.array([-0.3, 0.1]), np.array([0.05]), 0.6  # hand, elbow in m/s; rad/s


def ends(q):
    """Return where the links begin and end for the joint angles q."""
    angles = np.cumsum(q)
    links = length * np.stack([np.cos(angles), np.sin(angles)])
    return np.hstack([np.zeros((2, 1)), np.cumsum(links, axis=1)])


def jacobian(q, joint):
    """Return the Jacobian of the end of a link, in x and y, at the joint angles q."""
    angles = np.cumsum(q)[:joint]
    links = length * np.stack([-np.sin(angles), np.cos(angles)])
    moved = np.cumsum(links[:, ::-1], axis=1)[:, ::-1]  # joint j moves all links from j on
    return np.hstack([moved, np.zeros((2, joints - joint))])


def tasks(q):
    """Return each task as a matrix and its target, the most important first."""
    return {
        "hand": (jacobian(q, joints), speed),
        "elbow": (jacobian(q, elbow)[1:], lift),
        "posture": (np.eye(joints), rest - q),
    }


# %%
# Here is the recipe, followed by the tasks as levels.


def by_null_spaces(q):
    velocity, free = np.zeros(joints), np.eye(joints)
    for matrix, target in tasks(q).values():
        inverse = np.linalg.pinv(matrix @ free, rcond=1e-10)
        velocity = velocity + inverse @ (target - matrix @ velocity)
        free = free - inverse @ (matrix @ free)
    return velocity


def by_levels(q, limit=limit):
    levels = [tb.Level(tb.LeastSquares(*task), name=name) for name, task in tasks(q).items()]
    return tb.solve(tb.Levels(*levels, domain=tb.Box(-limit, limit)))


start = rest + np.array([0.0, 0.1, -0.1, 0.0, 0.2, -0.1, 0.0])
print(by_levels(start))

# %%
# If no limit binds, both give the same velocities. On a path of 1.5 s, limits do bind.

loose = by_levels(start, limit=10.0)
assert loose.success
assert np.max(np.abs(loose.x - by_null_spaces(start))) <= 1e-9

path, arm, fastest = {}, {}, {}
for name, velocity in (("recipe", by_null_spaces), ("levels", lambda q: by_levels(q).x)):
    q, hand, asked = rest.copy(), [ends(rest)[:, -1]], []
    for _ in range(steps):
        asked.append(velocity(q))
        change = step * np.clip(asked[-1], -limit, limit)
        hand.append(hand[-1] + jacobian(q, joints) @ change)
        q = q + change
    path[name], arm[name], fastest[name] = np.array(hand), ends(q), np.max(np.abs(asked))
straight = path["levels"][0] + step * np.outer(np.arange(steps + 1), speed)
off = {name: np.max(np.linalg.norm(path[name] - straight, axis=1)) for name in path}
for name in path:
    print(f"{name}: asks for {fastest[name]:.2f} rad/s, off the path by {100 * off[name]:.1f} cm")

# %%
fig, ax = plt.subplots(figsize=(7, 4.1), layout="constrained")
ax.plot(*ends(rest), color="0.8", linewidth=5, marker="o", markersize=7)
ax.plot(*arm["levels"], color="0.55", linewidth=5, marker="o", markersize=7)
ax.plot(*path["recipe"].T, "--", color="#c8553d", linewidth=2.2)
ax.plot(*path["levels"].T, "-", color="#1f3b6f", linewidth=2.2)
ax.text(0.80, 0.82, "levels: the path asked for", color="#1f3b6f")
ax.text(0.62, 0.735, "recipe, clipped", ha="right", va="center", color="#c8553d")
ax.text(0.22, 0.33, "arm at the start", color="0.35")
ax.text(-0.1, 0.66, "after 1.5 s", ha="right", color="0.35")
ax.set(aspect="equal", xlim=(-0.4, 1.35), ylim=(-0.05, 0.95), xlabel="metres", ylabel="metres")
ax.spines[["top", "right"]].set_visible(False)
clipped = f"Clipped, the hand ends up {100 * off['recipe']:.0f} cm off its path"
ax.set_title(f"{clipped}; within the limits it can keep to it", fontsize=11)

assert fastest["recipe"] > limit  # so that clipping matters
assert fastest["levels"] <= limit + 1e-9
assert off["levels"] <= 1e-9
assert off["recipe"] >= 0.1
plt.show()
