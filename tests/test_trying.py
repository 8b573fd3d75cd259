"""`list algorithms --for`: every learner on one partition of a small table."""

import shlex

import pytest

from oasis_bench.command_line import listing, main
from oasis_bench.command_line.listing import form_of
from oasis_bench.plugins import load_registry


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "mine.csv"
    lines = [f"{x % 7},{(3 * x) % 5},{'odd' if x % 2 else 'even'}" for x in range(24)]
    path.write_text("\n".join(["a,b,kind", *lines]))
    return str(path)


def test_each_learner_is_tried_and_what_cannot_learn_says_why(table, plugins, capsys, monkeypatch):
    monkeypatch.setattr(listing, "BUDGET", "5m")  # a busy machine may need more than ten seconds
    how = ["--label", "kind", "--plugin", str(plugins / "refusing.py")]
    assert main(["list", "algorithms", "--for", table, *how]) == 0
    answered, _, others = capsys.readouterr().out.partition("without an answer:")
    names = {line.split()[0] for line in answered.splitlines() if line}
    known = load_registry().algorithms
    ours = {
        name
        for name in known
        if not name.startswith(("metric-learn", "pml"))  # the second is an extra
        and known[name].takes == "rows"
        and form_of(known[name]) != "exemplar"
    }
    assert ours <= names
    costs = [float(line.split()[3]) for line in answered.splitlines()[1:] if line]
    assert costs == sorted(costs)
    assert "LocalDistances          not applicable: LocalDistances scores training items" in others
    command = shlex.split(others.splitlines()[-1])
    assert command[:7] == f"python -m oasis_bench run --dataset {table} --label".split()
    assert "Refuses" not in names
    assert "not applicable: 8 axes, but 7 rows" in others
    assert "One partition of 14 training items" in others
