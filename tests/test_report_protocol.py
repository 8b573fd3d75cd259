"""What the report says of how a run was made: search, fixed parameters and limits."""

import json

from fake_runs import fake_trial, make_run

from oasis_bench.reports import write_report
from oasis_bench.reports.run.protocol import protocol_text
from oasis_bench.reports.run.view import view_of
from oasis_bench.trial import TrialResult


def test_what_was_searched_and_what_was_fixed_is_told_from_the_data(tmp_path):
    points = [
        {"scaling": "l2", "params": json.dumps({"k": k}), "n_steps": None, "fold": 0, "value": 0.1}
        for k in (1, 3)
    ]
    own_space = TrialResult(fake_trial("own space", params={"k": 3}).columns, validation=points)
    run = make_run(
        tmp_path / "run",
        [
            fake_trial("early stopping", n_steps=500, params={"C": 0.1}),
            own_space,
            fake_trial("fixed", params={"pull": 0.5, "n_steps": 7}),
            fake_trial("lost", status="failed", reason="no"),
            fake_trial("plain"),
        ],
        {
            "early stopping": {"params": {"C": 0.1}},
            "own space": {},
            "fixed": {},
            "lost": {"params": {"eta": [1, 2], "mu": 4}, "budget": "10m"},
            "plain": {},
        },
    )
    assert protocol_text(view_of(run)) == (
        "Chosen on 5 inner folds of the training images, by mAP of the task retrieval: "
        "early stopping (steps), own space (k), lost (eta). "
        "Each learner had the same budget of search: 20 candidates. "
        "Fixed: early stopping C = 0.1; fixed pull = 0.5, n_steps = 7; lost mu = 4. "
        "All else is at the learners' defaults. "
        "Limits of a fit: time 1h, memory off; lost time 10m."
    )
    escaped = protocol_text(view_of(run)).replace("'", "&#39;")
    assert escaped in write_report(tmp_path / "run").read_text()
