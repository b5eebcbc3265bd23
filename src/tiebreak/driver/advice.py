"""Advice in the report: what to try when a run ends without a proof."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextvars import ContextVar
from typing import NamedTuple

from tiebreak.driver.input_checks import wrong_gradient
from tiebreak.driver.run import Run
from tiebreak.driver.trace import Row
from tiebreak.linalg import TOL, deadline
from tiebreak.proofs.certificate import UNDERFLOW, Certificate
from tiebreak.proofs.evidence import has_error_bounds


class Remedies(NamedTuple):
    """Advice in terms of parameters that the caller knows."""

    bound: str = (
        "give Problem(radius=...) if you know that some solution has |x| <= radius, or a bounded "
        "domain, or"
    )
    narrower: str = "Problem(radius=...) may narrow it"
    one_sided: str = "Problem(error_bound=...) would prove it; criterion='weak' does not require it"
    below_rounding: str = "set atol"  # if "" here or in one_sided, the advice is a looser rtol
    has_method: bool = True  # can the caller choose the method and its parameters?


FOR_SOLVE = Remedies()
REMEDIES = ContextVar("remedies", default=FOR_SOLVE)  # estimators set their own advice

_OR_PENALTY = ", or a penalty on all variables plus a smooth part with a known lower_bound"


def after_nonfinite(run: Run) -> str:
    """Say when a value or a gradient was not finite, and what to check."""
    return (
        f"by step {run.iteration + 1} the upper or lower level had a value or a gradient that was "
        "not finite: check the functions away from x0, and their scale"
    )


def what_next(
    run: Run, status: str, proof: Certificate, tolerance: tuple[float, float], max_iter: int
) -> str:
    """Say what is not proved, why, and what would help; "" if everything is proved."""
    parts = []
    steep = _levels(run.report.lipschitz_violations)
    if steep:
        parts.append(
            f"The {' and the '.join(steep)} function rises faster than its Lipschitz constant "
            "allows, so neither the theorem's rate nor a bound on |f(x) - f*| is valid (the gaps "
            "remain proved): give a larger lipschitz"
        )
    if status in ("solved", "max_iter", "max_time", "stopped"):
        gaps = proof.upper_gap, proof.lower_gap
        is_open = gaps[1] > tolerance[1] and run.problem.is_open_below
        if any(map(math.isinf, gaps)) or (is_open and status == "solved"):
            missing = [math.isinf(gap) for gap in gaps]
            parts.append(_missing_bounds(run, missing if any(missing) else [False, True]))
        elif any(gap > asked for gap, asked in zip(gaps, tolerance, strict=True)):
            parts.append(_too_wide(run, status, proof, tolerance, max_iter))
        else:
            parts.append(_one_sided(run, proof, tolerance[0]))
    return ". ".join(filter(None, parts))


def _missing_bounds(run: Run, is_missing: Sequence[bool]) -> str:
    """Name the levels without a lower bound, and say what would give them one."""
    or_penalty = "" if run.problem.is_smooth else _OR_PENALTY
    names = " or ".join(_levels(is_missing))
    letters = " or ".join(itertools.compress(("f*", "g*"), is_missing))
    for h, letter in ((run.problem.lower, "g"), (run.problem.upper, "f")):
        if not has_error_bounds(h):
            lacks = f"the rounding errors of {type(h).__name__} are unknown"
            return f"Nothing is proved about {letter}*, because {lacks}: define `rounding`"
    if run.iteration == 0:  # a single step of `exact` may prove everything
        return f"No lower bound on {letters} is proved before the first step"
    if math.isfinite(run.problem.domain.diameter_in(int(run.state.x.shape[0]))):
        return f"This method cannot prove a lower bound on {letters} for these constraints"
    return (
        f"Nothing bounds {letters} from below on this unbounded domain: "
        f"{REMEDIES.get().bound} a strongly convex {names} function{or_penalty}"
    )


def _one_sided(run: Run, proof: Certificate, asked: float) -> str:
    """Say why f(x) may lie below f* although both gaps are small enough."""
    if proof.upper_gap < -asked:
        return "f(x) is proved to be too low: x does not minimise the lower level well enough"
    estimate = f"|f(x) - f*| is about {proof.upper_estimate:.2g}, an estimate"
    width = f" ({estimate})" if math.isfinite(proof.upper_estimate) else ""
    remedy = REMEDIES.get().one_sided or _relaxed(run, proof.upper_error / asked)
    said = "; ".join(filter(None, [run.report.one_sided, remedy]))
    lacking = f"Not proved: that f(x) is at most one tolerance below f*{width}"
    return f"{lacking}: {said}" if said else lacking


def _too_wide(
    run: Run, status: str, proof: Certificate, tolerance: tuple[float, float], max_iter: int
) -> str:
    """Say how wide the proved gaps are, why, and what would narrow them."""
    gaps = proof.upper_gap, proof.lower_gap
    words = REMEDIES.get()
    has_asked = min(tolerance) > UNDERFLOW
    ratios = (gap / asked for gap, asked in zip(gaps, tolerance, strict=True))
    missing = max(ratios) if has_asked else 0.0
    relaxed = _relaxed(run, max(missing, proof.upper_error / tolerance[0]) if has_asked else 0.0)
    errors = run.certifier.value_errors(run.state.x, proof.upper_value, proof.lower_value)
    if any(a < g <= TOL.few_units * e for g, a, e in zip(gaps, tolerance, errors, strict=True)):
        smallest = "A gap is as small as rounding allows, and the tolerance is smaller still"
        return _with_remedies(smallest, words.below_rounding or relaxed)
    if not has_asked:
        return ""
    if status == "solved":
        closer = "" if run.problem.is_bounded else words.narrower
        width = f"The proved gap is {missing:.2g} times the tolerance"
        return _with_remedies(width, closer, relaxed)
    wider = f"The larger gap is {missing:.2g} times its tolerance"
    remedy = run.method.remedy if words.has_method else ""
    if run.iteration < 8:  # too few steps to say how fast the gaps shrink
        return _with_remedies(wider, relaxed, remedy)
    if (steps := _steps_needed(run.rows, tolerance)) is not None:
        rate = f"at the current rate, about {steps:,} steps are needed (max_iter is {max_iter:,})"
        return f"{wider}; {rate}"
    return _with_remedies(f"{wider} and hardly shrinks", relaxed, remedy)


def _with_remedies(sentence: str, *remedies: str) -> str:
    """Append the available remedies to the sentence."""
    said = ", or ".join(filter(None, remedies))
    return f"{sentence}: {said}" if said else sentence


def _relaxed(run: Run, missing: float) -> str:
    """Suggest a looser rtol for gaps too wide by this factor; "" if it would be 0.1 or more."""
    needed = missing * max(run.relative)
    return f"relax rtol (x is proved to meet {1.05 * needed:.2g})" if 0.0 < needed < 0.1 else ""


def _steps_needed(rows: Sequence[Row], tolerance: tuple[float, float]) -> int | None:
    """Extrapolate from the second half of the run how many steps both gaps need."""
    last = rows[-1]
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
    digits = 2 - len(str(int(needed)))  # the forecast deserves no more than two digits
    return int(round(needed, digits)) if needed < 1e12 else None


def _levels(counts: Sequence[int]) -> list[str]:
    """Return the names of the levels whose count is not zero."""
    return [name for name, count in zip(("upper", "lower"), counts, strict=True) if count]


def contradiction(run: Run) -> str:
    """Say which promise is false, if any: a false promise rules out a certificate."""
    if not run.accumulator.is_contradicted:
        return ""
    if wrong := deadline.unless_too_long(
        lambda: wrong_gradient(run.problem, run.state.x), "", deadline.Over
    ):
        return wrong
    not_convex = _levels(run.report.convexity_violations)
    if not_convex:
        return (
            f"The {' and the '.join(not_convex)} function fell below its own tangent: it is not "
            "convex or its gradient is wrong, so nothing can be proved"
        )
    sums = run.accumulator.sums
    if sums.lower_bound > sums.ghat:
        return (
            f"Your promises contradict each other: they imply g* >= {sums.lower_bound:.6g}, yet g "
            f"has the value {sums.ghat:.6g} in the domain. Check radius, and lower_bound and "
            "strong_convexity of your own functions"
        )
    return (
        "Your promises contradict each other: the bounds on f* cannot both hold. Check "
        "error_bound, radius and the constants of your own functions"
    )
