"""The tables and figures of the papers that report measurements, and where ours are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperItem:
    """A table or a figure of a paper.

    Attributes
    ----------
    place : str
        Paper and number.
    shows : str
    experiment : str
        The built-in experiment that measures it; '' where there is none.
    note : str
        Where in its report to look, or why there is no experiment.
    """

    place: str
    shows: str
    experiment: str = ""
    note: str = ""


ITEMS = (
    PaperItem(
        "JMLR tables 2, 3; NIPS 2009 table 1; preprint tables 4, 5",
        "pictures that OASIS ranks first: successes and failures",
        "paper-words",
        "in its report: retrieved pictures, best and worst queries",
    ),
    PaperItem(
        "JMLR figure 3; NIPS 2009 figure 1 (a); preprint figures 6, 7",
        "precision by human raters",
        note="'judge RUN' makes the raters' page, 'judge RUN --collect' the figure in the report",
    ),
    PaperItem(
        "JMLR figure 4; NIPS 2009 figure 1 (b)",
        "time over the number of images",
        "paper-growth",
        "to 6000 images; 'web-scale' goes up to 2.3 million; fast LMNN: competitors-mnist",
    ),
    PaperItem("JMLR figure 5; preprint figure 3", "precision along the steps", "paper-curve"),
    PaperItem("JMLR table 4", "precision of five learners, 10 classes", "paper-table4"),
    PaperItem("JMLR table 4", "precision of five learners, 20 and 50 classes", "paper-table4-more"),
    PaperItem(
        "JMLR table 5; NIPS 2009 table 2",
        "time of five learners",
        "paper-table4",
        "in its report: costs",
    ),
    PaperItem(
        "JMLR figure 6; NIPS 2009 figure 2",
        "precision at top k of five learners",
        "paper-table4",
        "in its report: precision at k",
    ),
    PaperItem("JMLR figure 7", "means of 5 and 10 learners", "paper-family"),
    PaperItem(
        "JMLR figure 8; NIPS 2009 figure 3; preprint figure 5", "symmetric variants", "paper-family"
    ),
    PaperItem("JMLR figure 9", "projections on the positive semi-definite cone", "paper-family"),
    PaperItem(
        "Preprint tables 1, 2, figure 4",
        "precision and time on Easy10, Var10, Var20",
        "paper-easy",
        "five classes each, of those that Caltech101 has; all of them: caltech256-papers",
    ),
    PaperItem("Wang et al. tables 1, 2", "similarity precision of models", "deep-ranking"),
    PaperItem(
        "Wang et al. figure 6",
        "share of out-of-class negatives, weighted and uniform sampling",
        "deep-ranking-sampling",
    ),
    PaperItem(
        "Frome et al. figure 2",
        "weights of patches on pictures",
        note="drawn by the gallery's example on local distances",
    ),
    PaperItem(
        "Frome et al. figures 5, 6",
        "recognition over pictures a class, confusion matrix",
        "frome-caltech101",
        "hours; 20 of its classes: paper-frome",
    ),
    PaperItem("Suárez et al. 2021, KEEL", "accuracy of k nearest neighbours", "keel"),
)
