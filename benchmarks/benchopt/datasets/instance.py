"""The instances of `tiebreak race`: built in, planted, from papers, and drawn by a seed."""

from typing import ClassVar

from benchopt import BaseDataset

from tiebreak.experiments.field import BUILT_IN, DRAWN, FROM_PAPERS, UNATTAINED, ready
from tiebreak.experiments.planted import SEEDS

PAPERS = [name for name in FROM_PAPERS if name not in UNATTAINED]


class Dataset(BaseDataset):
    """One instance of the race, chosen by name."""

    name = "race"
    parameters: ClassVar = {"instance": [*BUILT_IN, *SEEDS, *PAPERS, *DRAWN], "seed": [0]}

    def get_data(self):
        """Return the instance with its known answer."""
        return {"ready": ready(self.instance, self.seed, passes=0)}
