"""A stored run as Python and a notebook take it: tables, summary, report, and its best learner."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pandas as pd
from sklearn.pipeline import Pipeline

from oasis_bench.notebook.best import refit_best
from oasis_bench.plugins import load_reports
from oasis_bench.runs import StoredRun, read_run
from oasis_bench.system import for_terminal


class RunResult:
    """A run that is stored in a folder; in a notebook it shows its summary with figures.

    Parameters
    ----------
    folder : str or Path
        The output of `oasis_bench.run`, or of the command `run`.

    Raises
    ------
    UsageError
        Where the folder holds no run.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._run: StoredRun = read_run(self.folder)

    @property
    def trials(self) -> pd.DataFrame:
        """A row for each trial: what it was, how it ended, its parameters and costs in seconds."""
        return self._run.trials.copy()

    @property
    def measures(self) -> pd.DataFrame:
        """A row for each trial, task, measure and k: its value, and its chance."""
        return self._run.measures.copy()

    def best(self) -> Pipeline:
        """Fit the best learner on all rows of the data set.

        The best is that of the highest mean of the first measure of the first task, on the largest
        class subset, among those with the most partitions.  It may not be distinguishable from
        others: see the summary.  Scaling and hyper-parameters are those that most partitions chose,
        the number of steps the median of what these chose.

        Returns
        -------
        Pipeline
            The scaling, if there is one, then the learner, both fitted.  It takes rows as they are
            in the data set, of those kinds of features that the experiment names for the learner;
            `oasis_bench.scorers.similarity_of` asks it for similarities.

        Raises
        ------
        UsageError
            Where no trial ended well, the data set is not there any more, or it has changed.
        """
        return refit_best(self._run)

    def report(self) -> Path:
        """Make the report of the run anew; return the path of its page, which needs no network."""
        page: Path = load_reports().write_report(self.folder)
        return page

    def __str__(self) -> str:
        text: str = load_reports().summary_text(self._run, in_python=True)
        return for_terminal(text)

    def __repr__(self) -> str:
        return f"RunResult({str(self.folder)!r})\n{self}"

    def _repr_html_(self) -> str:
        return self._html

    @cached_property
    def _html(self) -> str:
        html: str = load_reports().summary_html(self._run)
        return html
