"""What a run tells of itself: to JSON and back, and what is refused."""

import json
from dataclasses import replace

import pytest

from oasis_bench.runs import RunFacts, SplitSource, TaskSource
from oasis_bench.runs.schema import DatasetSource, Resumption, Source, Sources


@pytest.fixture
def info(experiment):
    """A run that was cut short."""
    return RunFacts(
        experiment=experiment,
        identities={"OASIS, classes 2": {"data": "d41d8c", "classes": [3, 8]}},
        plugin_files=["mine.py"],
        sources=Sources(
            DatasetSource(name="digits", summary="scanned", citation="UCI", licence="CC BY 4.0"),
            {"OASIS": Source(summary="online", citation="JMLR 11")},
            {
                "retrieval": TaskSource(
                    summary="ranks",
                    citation="JMLR 11",
                    split="seen-classes",
                    gallery="test",
                    measures=["mAP"],
                    of_data=[],
                )
            },
            {"seen-classes": SplitSource(summary="each class", citation="JMLR", per_class=True)},
        ),
        planned_trials=8,
        provenance={"processor": "a processor"},
        load_at_start=0.5,
        command=None,
        started="2026-11-21T07:00:00+00:00",
        classes={"2": ["a", "b"]},
        multi_label=False,
        items="images",
        scaling=["l2"],
        remarks=["columns of unlike scales"],
        left_out=["one picture"],
        notes={},
    )


def as_stored(info):
    return json.loads(json.dumps(info.to_json()))


def test_what_is_stored_is_read_back(info):
    assert RunFacts.from_json(as_stored(info)) == info
    later = Resumption(
        started="2026-11-21T08:00:00+00:00",
        trials=4,
        limits={"budget": "10m"},
        command="python -m oasis_bench run --resume x",
        provenance={},
        load_at_start=None,
    )
    done = replace(info, resumed=(later,), finished="2026-11-21T09:00:00+00:00", load_at_end=0.25)
    assert RunFacts.from_json(as_stored(done)) == done


def test_a_run_that_was_cut_short_stores_no_end(info):
    assert not {"finished", "load_at_end", "resumed"} & as_stored(info).keys()
