"""The methods of `tiebreak race`, with the parameters that their theorems prescribe."""

from typing import ClassVar

from benchopt import BaseSolver

from tiebreak.driver.registry import known_methods
from tiebreak.driver.run import Run
from tiebreak.experiments.field import contestants


class Solver(BaseSolver):
    """One method, chosen by name; its result is the point of its theorem."""

    name = "tiebreak"
    sampling_strategy = "iteration"
    parameters: ClassVar = {"method": contestants()}

    def skip(self, problem, x0):
        """Skip problems outside the method's assumptions, with the reason that the method gives."""
        refusal = known_methods()[self.method]().refusal(problem)
        return refusal is not None, refusal.sentence if refusal else None

    def set_objective(self, problem, x0):
        """Receive the problem and the starting point."""
        self.problem, self.x0 = problem, x0

    def run(self, n_iter):
        """Take n_iter steps from the starting point, without computing certificates."""
        method = known_methods()[self.method]().planned(max(n_iter, 1))
        run = Run(self.problem, method, self.problem.start(self.x0), certifies=False)
        while run.iteration < n_iter and not run.report.finished.why and run.step():
            pass
        self.x = run.state.x

    def get_result(self):
        """Return the point reached."""
        return {"x": self.x}
