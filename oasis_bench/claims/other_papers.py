"""The claims of Frome et al. 2007, Wang et al. 2014 and Suárez et al. 2021, each with its rule."""

from __future__ import annotations

import math
from functools import partial

from oasis_bench.claims.claim import Claim, Condition
from oasis_bench.claims.effects import FitNumber, FromPublished, Gain, GainMore
from oasis_bench.claims.paper_figures import published_figures
from oasis_bench.claims.rules import EQUAL, STABLE, gain
from oasis_bench.tasks import RECOGNITION_BY_FROME

LOCAL = "LocalPatchDistances"
TOO_FEW = "With 150 training pictures no number of partitions tells a loss of .01."
SETTINGS = "Ten classes of Caltech101, 15 training pictures each, 100 points a picture."


def _recognised(experiment: str, first: str, second: str, above: float = 0.0) -> Condition:
    """Compare two learners by the mean recognition of Frome et al."""
    measure, task = RECOGNITION_BY_FROME, "classification"
    return gain(experiment, first, second, above, measure=measure, task=task)


FROME_CLAIMS = (
    Claim(
        "F1",
        "Learned local weights beat uniform ones, and the gain grows with pictures a class.",
        "Frome et al. 6, figure 5",
        [
            _recognised("paper-frome", LOCAL, "uniform weights"),
            Condition(
                "paper-frome",
                GainMore(Gain(LOCAL, "uniform weights", RECOGNITION_BY_FROME, "classification")),
                above=0.0,
            ),
        ],
        "20 classes of Caltech101, 5 and 15 training pictures each, 100 points a picture. The "
        "paper itself has no uniform weights.",
    ),
    Claim(
        "F2",
        "Without a second training, globally consistent weights beat independent ones.",
        "Frome et al. 1, 3",
        [_recognised("frome-settings", LOCAL, "independent (2006)")],
        f"{SETTINGS} The method of 2006 has a second training, which ours is without.",
    ),
    Claim(
        "F3",
        "Stopping when the dual grows slowly loses no recognition.",
        "Frome et al. 5.3",
        [_recognised("frome-settings", LOCAL, "to a gap of 1e-5", -EQUAL)],
        SETTINGS,
    ),
    Claim(
        "F4",
        "C chosen by one online pass is as good as C by validation.",
        "Frome et al. 5.4",
        [_recognised("frome-settings", LOCAL, "C on inner folds", -EQUAL)],
        f"{SETTINGS} {TOO_FEW} The paper chose it for its cost and compares nothing.",
    ),
    Claim(
        "F5",
        "Pruning the triplets to the five nearest loses nothing.",
        "Frome et al. 5.2",
        [_recognised("frome-settings", LOCAL, "all triplets", -EQUAL)],
        f"{SETTINGS} {TOO_FEW} The paper says that it about halves them, and tried no other "
        "number; of so few pictures it leaves out few (n_triplets_ in the store).",
    ),
    Claim(
        "F6",
        "Colour patches help (by about two points at 15 pictures a class).",
        "Frome et al. 6",
        [_recognised("frome-settings", LOCAL, "without colour")],
        f"{SETTINGS} Whether they help is tested, not by how much.",
    ),
    Claim(
        "F7",
        "Most weights become zero.",
        "Frome et al. figure 2",
        [
            Condition(
                "frome-settings",
                FitNumber(LOCAL, "zero_share_", f"share of the weights of {LOCAL} that are zero"),
                above=0.5,
            )
        ],
        SETTINGS,
    ),
)

SINGLE_FEATURES = (
    *("wavelet", "colour (LAB)", "SIFT words", "Fisher vector", "HOG", "LBP"),
    "texton",
)
OASIS_BY_HAND = "OASIS: hand-made"
FEW_TRIPLETS = (
    "The networks are pretrained ones that learn from some 800 judged triplets; the paper's "
    "learned from 14 million pictures."
)
PRECISION, AT_TOP_3 = "similarity precision", "score at top 3"
IN_CLASS, A_FIFTH, UNIFORM = "0 % out of class", "20 % out of class", "0 % uniform"
SAMPLING = (
    "Networks on a frozen pretrained one learn from 12,800 triplets; the paper's from 24 million. "
    "Relevance is computed within 222 text queries of 11 pictures (median); the paper has 100,000 "
    "of 140. All of 11 pictures are among the first 30: the score at top 3 stands for that at top "
    "30 of 1000."
)


def _judged(
    first: str,
    second: str,
    above: float = 0.0,
    below: float = math.inf,
    measure: str = PRECISION,
    experiment: str = "deep-ranking",
) -> Condition:
    """Compare two learners by what people judged."""
    return gain(experiment, first, second, above, below, measure, "judged-triplets")


_sampled = partial(_judged, experiment="deep-ranking-sampling")


DEEP_CLAIMS = (
    Claim(
        "D1",
        "A learned embedding is above OASIS on hand-made features, and that above any single one "
        "of them, in similarity precision.",
        "Wang et al. table 1",
        [
            _judged("DeepRanking", OASIS_BY_HAND),
            *(_judged(OASIS_BY_HAND, feature) for feature in SINGLE_FEATURES),
        ],
        FEW_TRIPLETS,
    ),
    Claim(
        "D2",
        "Multiscale beats single scale; OASIS on the points of a network adds little.",
        "Wang et al. table 2",
        [
            _judged("DeepRanking", "single-scale ranking"),
            _judged("OASIS: single-scale ranking", "single-scale ranking", -math.inf, STABLE),
        ],
        f"{FEW_TRIPLETS} In the paper OASIS loses .021 on single-scale ranking. Before "
        "DeepRankingOASIS existed, the rule was of OASIS on the features of the network as it is, "
        "where the gain was -.002.",
    ),
    Claim(
        "D3",
        "About 20 % of out-of-class negatives is best for similarity precision, and lowers the "
        "score at top 30.",
        "Wang et al. figure 6",
        [
            _sampled(A_FIFTH, IN_CLASS),
            *(_sampled(A_FIFTH, f"{share} % out of class", -EQUAL) for share in (40, 60, 80, 100)),
            _sampled(A_FIFTH, IN_CLASS, -math.inf, 0.0, AT_TOP_3),
        ],
        SAMPLING,
    ),
    Claim(
        "D4",
        "Weighted sampling beats uniform at the top 30, not in precision overall.",
        "Wang et al. 6.6",
        [
            _sampled(IN_CLASS, UNIFORM, measure=AT_TOP_3),
            _sampled(IN_CLASS, UNIFORM, -STABLE, STABLE),
        ],
        SAMPLING,
    ),
    Claim(
        "D5",
        "A network that was trained to classify misses appearance; one trained to rank keeps it.",
        "Wang et al. 6.7, figure 7",
        [_judged("DeepRanking", "network as it is")],
        f"{FEW_TRIPLETS} Similarity precision stands for appearance, of which the paper shows "
        "examples.",
    ),
)

KEEL_CLAIMS = (
    Claim(
        "K1",
        "Accuracies of k nearest neighbours by Euclidean, LDA, ITML, NCA, LMNN and MCML on ten "
        "sets of KEEL are as published.",
        "Suárez et al. 2021",
        [
            Condition("keel", FromPublished(learner, published_figures), -EQUAL, EQUAL)
            for learner in ("Euclidean", "LDA", "ITML", "NCA", "LMNN-3", "LMNN-5", "LMNN-7", "MCML")
        ],
        "The mean over the ten sets; the sets are the sample.",
    ),
)
