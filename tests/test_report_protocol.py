"""What the report says of how a run was made: search, fixed parameters and limits."""

import json

from fake_runs import fake_trial, make_run

from oasis_bench.reports import write_report
from oasis_bench.reports.run.protocol import protocol_text
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
    assert protocol_text(run) == (
        "Chosen on 5 inner folds of the training images, by mAP of the task retrieval: "
        "early stopping (steps), own space (k), lost (eta). "
        "Each learner had the same budget of search: 20 candidates. "
        "Fixed: early stopping C = 0.1; fixed pull = 0.5, n_steps = 7; lost mu = 4. "
        "All else is at the learners' defaults. "
        "Limits of a fit: time 1h, memory off; lost time 10m."
    )
    assert protocol_text(run).replace("'", "&#39;") in write_report(tmp_path / "run").read_text()


def test_limits_given_when_a_run_went_on_are_told_too(tmp_path):
    resumed = [
        {"started": "2026-11-20T07:00:00+00:00", "limits": {}},
        {"started": "2026-11-21T06:00:00+00:00", "limits": {"budget": "5m"}},
        {"started": "2026-11-22T06:00:00+00:00", "limits": {"memory": "<b>", "budget": "9m"}},
    ]
    limits = (
        "Limits of a fit: time 1h, memory off; after the run was resumed on 2026-11-21: time 5m "
        "for all; after the run was resumed on 2026-11-22: time 9m, memory <b> for all."
    )
    run = make_run(tmp_path / "run", [fake_trial("A")], ["A"], info={"resumed": resumed})
    assert protocol_text(run).endswith(limits)
    assert "memory &lt;b&gt; for all" in write_report(tmp_path / "run").read_text()


def test_without_a_choice_none_is_claimed(tmp_path):
    run = make_run(tmp_path / "run", [fake_trial("A")], ["A"])
    assert protocol_text(run).startswith("No hyper-parameter was searched. All else")
    assert "cross-validation" not in write_report(tmp_path / "run").read_text()
