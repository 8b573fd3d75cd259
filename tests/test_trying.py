"""`run --algorithms all`: every learner that takes the rows of a small table."""

import pytest

from oasis_bench.command_line import main
from oasis_bench.plugins import ExemplarLearner, Registry
from oasis_bench.runs import read_run


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "mine.csv"
    lines = [f"{x % 7},{(3 * x) % 5},{'odd' if x % 2 else 'even'}" for x in range(24)]
    path.write_text("\n".join(["a,b,kind", *lines]))
    return str(path)


def test_each_learner_that_takes_the_rows_is_run_and_the_others_are_named(
    table, plugins, tmp_path, capsys
):
    how = "--algorithms all --label kind --quick --partitions 1 --search 1 --blend off --budget 5m"
    how += " --no-traces --examples 0 --tables --param Refuses.n_axes=24"
    words = ["--output", str(tmp_path / "run"), "--plugin", str(plugins / "refusing.py")]
    # Of others' learners some may run out of time on a busy machine.
    assert main(["run", "--dataset", table, *how.split(), *words]) in (0, 1)
    out, err = capsys.readouterr()
    known = Registry.load().algorithms
    ours = {
        name
        for name in known
        if not name.startswith(("metric-learn", "pml", "InfoNCE"))  # the last two are an extra
        and known[name].takes == "rows"
        and not issubclass(known[name], ExemplarLearner)
    }
    trials = read_run(tmp_path / "run").trials.set_index("learner")
    assert ours <= set(trials.index[trials["status"] == "ok"])
    assert trials.loc["LocalDistances", "status"] == "not applicable"
    assert trials.loc["Refuses", "reason"].startswith("24 axes, but ")
    assert "left out: DeepRanking takes pixels" in err
    assert "DeepRanking" not in trials.index
    for name in ours:
        assert name in out
