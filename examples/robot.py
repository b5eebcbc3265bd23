"""A redundant arm: the hand first, then the elbow, then the posture, within the joints' limits.

    python examples/robot.py

Seven joints in a plane. In every instant the joint velocities should move the hand as asked; of all
that do, lift the elbow as asked; of all that do, return to a rest posture. The recipe of robotics
projects each task onto the null space of those before it. It knows no limits: where a joint would
be too fast its velocity is clipped, and the hand, which has the first priority, misses its path
although the other joints could make up for it. Levels take the limits as constraints.
"""

from __future__ import annotations

import numpy as np

import tiebreak as tb

JOINTS, ELBOW, LENGTH = 7, 4, 0.2
REST = np.array([1.6, -0.6, -0.6, 0.5, -0.5, -0.5, 0.4])
STEP, STEPS = 0.05, 30  # seconds, steps
SPEED = np.array([-0.3, 0.1])  # of the hand, in m/s
LIFT = np.array([0.05])  # of the elbow, upwards
LIMIT = 0.6  # of a joint, in rad/s


def jacobian(q: np.ndarray, joint: int) -> np.ndarray:
    """How fast the end of a link moves with the joint angles q, in x and in y."""
    angles = np.cumsum(q)[:joint]
    steps = LENGTH * np.stack([-np.sin(angles), np.cos(angles)])
    moved = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]  # joint j moves all links from j on
    return np.hstack([moved, np.zeros((2, JOINTS - joint))])


def tasks(q: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Each a matrix and what it times the joint velocities should be, the first most important."""
    return {
        "hand": (jacobian(q, JOINTS), SPEED),
        "elbow": (jacobian(q, ELBOW)[1:], LIFT),
        "posture": (np.eye(JOINTS), REST - q),
    }


def by_null_spaces(q: np.ndarray) -> np.ndarray:
    """The recipe: each task in the null space of those before it."""
    velocity, free = np.zeros(JOINTS), np.eye(JOINTS)
    for matrix, target in tasks(q).values():
        inverse = np.linalg.pinv(matrix @ free, rcond=1e-10)
        velocity = velocity + inverse @ (target - matrix @ velocity)
        free = free - inverse @ (matrix @ free)
    return velocity


def by_levels(q: np.ndarray, limit: float) -> tb.LevelsResult:
    """The same tasks as levels, within the limit."""
    found = (
        tb.Level(tb.LeastSquares(matrix, target), name=name)
        for name, (matrix, target) in tasks(q).items()
    )
    return tb.solve(tb.Levels(*found, domain=tb.Box(-limit, limit)))


def worst_miss(use_levels: bool) -> float:
    """The largest error of the hand's velocity along a path, in m/s."""
    q, worst = REST.copy(), 0.0
    for _ in range(STEPS):
        found = by_levels(q, LIMIT).x if use_levels else by_null_spaces(q)
        velocity = np.clip(found, -LIMIT, LIMIT)
        worst = max(worst, float(np.linalg.norm(jacobian(q, JOINTS) @ velocity - SPEED)))
        q = q + STEP * velocity
    return worst


def main() -> tb.LevelsResult:
    """One instant without and with a limit that binds, and a path."""
    start = REST + np.array([0.0, 0.1, -0.1, 0.0, 0.2, -0.1, 0.0])
    recipe = by_null_spaces(start)
    free = by_levels(start, 10.0 * LIMIT)
    # Where no limit binds, levels and null spaces are the same.
    assert free.success
    assert np.max(np.abs(free.x - recipe)) <= 1e-9

    assert np.max(np.abs(recipe)) > LIMIT
    result = by_levels(start, LIMIT)
    print(result)
    hand = jacobian(start, JOINTS)
    clipped = np.linalg.norm(hand @ np.clip(recipe, -LIMIT, LIMIT) - SPEED)
    print(f"clipped, the recipe misses the velocity of the hand by {clipped:.3f} m/s")
    assert result.success
    assert clipped >= 0.01
    assert np.linalg.norm(hand @ result.x - SPEED) <= 1e-9
    assert np.linalg.norm(jacobian(start, ELBOW)[1:] @ result.x - LIFT) <= 1e-9
    assert np.max(np.abs(result.x)) <= LIMIT + 1e-9

    misses = [worst_miss(use_levels) for use_levels in (False, True)]
    print(f"on a path of {STEPS} steps: {misses[0]:.3f} m/s at worst, levels {misses[1]:.1g} m/s")
    assert misses[1] <= 1e-9 < 0.01 <= misses[0]
    return result


if __name__ == "__main__":
    main()
