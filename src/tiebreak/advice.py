"""What to do next, in a sentence or two, when a run did not end with a proof."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tiebreak.certificate import UNDERFLOW
from tiebreak.result import Row
from tiebreak.run import Run

_OR_PENALTY = ", or a penalty on all variables beside a smooth part whose lower_bound is known"


def after_nonfinite(run: Run) -> str:
    return (
        f"step {run.iteration + 1} gave a value of the upper or lower level that is not a finite "
        "number: check the functions away from x0, and their scale"
    )


def what_next(run: Run, status: str, tolerance: tuple[float, float], max_iter: int) -> str:
    """What to do next, in a sentence or two."""
    steep = _levels(run, "steep")
    parts = []
    if steep:
        parts.append(
            f"The {' and the '.join(steep)} function rises faster than its Lipschitz constant "
            "allows: neither the theorem's rate nor a bound on |f(x) - f*| holds (the gaps do); "
            "give a larger lipschitz"
        )
    if run.ledger.is_contradicted:
        return _contradiction(run)
    if status in ("max_iter", "max_time", "stopped"):
        row = run.rows[-1]
        gaps = (row.upper_gap, row.lower_gap)
        or_penalty = "" if run.problem.is_smooth else _OR_PENALTY
        for name, letter, gap in zip(("upper", "lower"), "fg", gaps, strict=True):
            if math.isinf(gap):
                parts.append(
                    f"Nothing bounds {letter}* from below on this unbounded domain: give "
                    "Problem(radius=...) if you know that some solution has |x| <= radius, or a "
                    f"bounded domain, or a strongly convex {name} function{or_penalty}"
                )
        errors = run.ledger.value_errors(run.state.x, row.upper_value, row.lower_value)
        floors = [g <= 16.0 * e for g, e in zip(gaps, errors, strict=True)]
        missed = [g > t for g, t in zip(gaps, tolerance, strict=True)]
        if any(floor and miss for floor, miss in zip(floors, missed, strict=True)):
            parts.append(
                "A gap is as small as rounding allows, and the tolerance is smaller still: set atol"
            )
        elif all(map(math.isfinite, gaps)) and min(tolerance) > UNDERFLOW:
            missing = max(g / t for g, t in zip(gaps, tolerance, strict=True))
            steps = _steps_needed(run.rows, tolerance)
            if steps is not None:
                parts.append(
                    f"The wider gap is {missing:.2g} times the tolerance; at the present rate "
                    f"about {steps:,} steps would do (max_iter is {max_iter:,})"
                )
            else:
                otherwise = ", or try another gamma (a smaller one favours the lower level)"
                parts.append(
                    f"The wider gap is {missing:.2g} times the tolerance and hardly shrinks: "
                    f"relax rtol{otherwise if hasattr(run.method, 'gamma') else ''}"
                )
    return ". ".join(parts)


def _steps_needed(rows: Sequence[Row], tolerance: tuple[float, float]) -> int | None:
    """How many steps both gaps need if they go on shrinking as they did since half-way."""
    last = rows[-1]
    if last.iteration < 8:
        return None
    half = min(rows, key=lambda row: abs(row.iteration - last.iteration / 2))
    needed = float(last.iteration)
    for level, asked in zip(("upper_gap", "lower_gap"), tolerance, strict=True):
        now, then = getattr(last, level), getattr(half, level)
        if now <= asked:
            continue
        if not (math.isfinite(then) and now < then and asked > 0.0):
            return None
        rate = math.log(then / now) / math.log(last.iteration / half.iteration)
        if rate < 0.1:
            return None
        decades = math.log10(now / asked) / rate
        if decades > 12.0:  # a tiny tolerance would overflow
            return None
        needed = max(needed, last.iteration * 10.0**decades)
    digits = 2 - len(str(int(needed)))  # two of them are honest
    return int(round(needed, digits)) if needed < 1e12 else None


def _levels(run: Run, doubt: str) -> list[str]:
    """The levels of whose function the method has noted this doubt."""
    counts = getattr(run.state, doubt, (0, 0))
    return [name for name, count in zip(("upper", "lower"), counts, strict=True) if count]


def _contradiction(run: Run) -> str:
    """Which promise cannot be true: no certificate then."""
    bent = _levels(run, "bent")
    if bent:
        return (
            f"The {' and the '.join(bent)} function fell below its own tangent: it is not convex, "
            "or its gradient is wrong, and nothing can be proved"
        )
    sums = run.ledger.sums
    if sums.lower_bound > sums.ghat:
        return (
            f"What you promised cannot be true: by it g* >= {sums.lower_bound:.6g}, yet g has the "
            f"value {sums.ghat:.6g} in the domain. Check radius, and lower_bound and "
            "strong_convexity of Smooth functions"
        )
    return (
        "What you promised cannot be true: the bounds on f* exclude each other. Check error_bound, "
        "radius and the constants of Smooth functions"
    )
