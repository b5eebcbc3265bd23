"""The instances and methods of `tiebreak race` as a benchopt benchmark.

benchopt run benchmarks/benchopt -d "race[instance=toy]" -s "tiebreak[method=primal-dual]"
"""

from benchopt import BaseObjective


class Objective(BaseObjective):
    """The errors of both levels, relative to the same scales as in the race."""

    name = "Convex simple bilevel optimisation"
    url = "docs/race.md"
    min_benchopt_version = "1.5"

    def set_data(self, ready):
        """Receive an instance with its known answer."""
        self.ready = ready

    def evaluate_result(self, x):
        """Return both relative errors, |f - f*| and g - g*; the value is the larger of the two."""
        problem, course = self.ready.problem, self.ready.course
        upper = abs(problem.upper.value(x) - course.f) / course.upper
        lower = (problem.lower.value(x) - course.g) / course.lower
        return {"value": max(upper, lower), "upper_error": upper, "lower_error": lower}

    def get_one_result(self):
        """Return an example of a result: the starting point."""
        return {"x": self.ready.x0}

    def get_objective(self):
        """Return what solvers may know: the problem with its constants, and the starting point."""
        return {"problem": self.ready.problem, "x0": self.ready.x0}
