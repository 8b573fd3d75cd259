"""What one waits for before anything happens: commands from the start of their process, wall time.

And how much the memory of a run's own process grows, trial by trial.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from oasis_bench.experiment import Experiment, LearnerSpec
from oasis_bench.runs import Watcher, run_experiment

ROUNDS = 5
N_TRIALS = 200

NOTES_ITS_FIT = """
import os, pathlib, time
from oasis_bench.algorithms import Euclidean

class NotesItsFit(Euclidean):
    name = "NotesItsFit"

    def fit(self, X, y):
        pathlib.Path(os.environ["FIRST_FIT"]).write_text(str(time.time()))
        return super().fit(X, y)
"""

SMALL = (
    "--dataset digits --classes 2 --partitions 1 --inner-folds 2 --train 6 --test 4 "
    "--no-traces --examples 0"
)


class Command:
    """Each in a folder, and with a cache, of its own."""

    number = 1
    repeat = ROUNDS
    warmup_time = 0
    timeout = 300

    def setup(self):
        self.place = tempfile.TemporaryDirectory(prefix="oasis-bench-")
        self.folder = Path(self.place.name)
        self.environment = {**os.environ, "OASIS_BENCH_CACHE": str(self.folder / "cache")}

    def teardown(self):
        self.place.cleanup()

    def call(self, *words, status=0, **environment):
        ended = subprocess.run(
            [sys.executable, "-m", "oasis_bench", *map(str, words)],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == status, ended.stderr


class Short(Command):
    def time_version(self):
        self.call("--version")

    def time_unknown_algorithm(self):
        self.call("run", "--algorithms", "OASSIS", status=2)

    def time_unknown_dataset(self):
        self.call("run", "--dataset", "digit", status=2)

    def time_missing_path(self):
        self.call("run", "--dataset", "no/such.csv", status=2)

    def time_list(self):
        self.call("list")


class Remembered(Command):
    """What is quick from the second command on."""

    def setup(self):
        super().setup()
        self.call("list")

    def time_list(self):
        self.call("list")

    def time_unknown_algorithm(self):
        self.call("run", "--algorithms", "OASSIS", status=2)


class Whole(Command):
    """Runs that users make, the search of OASIS, and a corpus split as in the suite."""

    repeat = 3
    timeout = 900

    def time_quick(self):
        self.call("run", "--quick", "--output", "quick")

    def time_default_with_one_partition(self):
        self.call("run", "--partitions", "1", "--output", "default")

    def time_oasis_with_one_partition(self):
        self.call("run", "--algorithms", "OASIS", "--partitions", "1", "--output", "oasis")

    def time_a_corpus_with_quick_learners(self):
        words = "run --dataset digits --split stratified --tasks retrieval,unseen-classes"
        learners = "Euclidean,LDA,PLDA,WCCN,RCA"
        more = ["--algorithms", learners, "--partitions", "1", "--no-traces", "--examples", "0"]
        self.call(*words.split(), *more, "--output", "corpus")


class FirstTrial(Command):
    def track_seconds_to_the_fit_of_the_first_trial(self):
        plugin, note = self.folder / "plugin.py", self.folder / "first_fit"
        plugin.write_text(NOTES_ITS_FIT)
        words = ["run", "--plugin", plugin, "--algorithms", "NotesItsFit", *SMALL.split()]
        waited = []
        for round_ in range(ROUNDS):
            start = time.time()
            self.call(*words, "--output", self.folder / str(round_), FIRST_FIT=str(note))
            waited.append(float(note.read_text()) - start)
        return statistics.median(waited)

    track_seconds_to_the_fit_of_the_first_trial.unit = "s"


class Report(Command):
    """Ten learners, every second an incremental one, on ten partitions of two subsets."""

    def setup(self):
        super().setup()
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from fake_runs import fake_trial, write_run

        trials = [
            fake_trial(f"L{i}", n, p, 0.3 + 0.02 * i + 0.001 * p, n_steps=4000 if i % 2 else None)
            for n in (5, 10)
            for i in range(10)
            for p in range(N_TRIALS // 20)
        ]
        write_run(self.folder / "run", trials, experiment={"partitions": N_TRIALS // 20})

    def time_report_of_200_trials(self):
        self.call("report", "run")


class Memory:
    timeout = 600

    def track_growth_of_the_harness_over_200_trials(self):
        sizes = []
        harness = psutil.Process()
        first = 20
        watcher = Watcher()
        watcher.trial = lambda *_: sizes.append(harness.memory_info().rss)
        experiment = Experiment(
            title="Memory",
            dataset="digits",
            learners={"Euclidean": LearnerSpec("Euclidean")},
            classes=(2,),
            partitions=first + N_TRIALS,
            inner_folds=2,
            train_per_class=6,
            test_per_class=4,
            traces=False,
            examples=0,
        )
        with tempfile.TemporaryDirectory(prefix="oasis-bench-") as folder:
            run_experiment(experiment, Path(folder) / "run", watcher=watcher)
        return (sizes[-1] - sizes[first]) / 2**20

    track_growth_of_the_harness_over_200_trials.unit = "MiB"
