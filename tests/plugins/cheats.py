"""Learners that look for the labels of test items, or try to look better than they are."""

import gc
import json
import mmap
import os
import socket
import sqlite3
import stat
import sys
import threading
import time
from contextlib import closing
from glob import glob

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.semi_supervised import LabelSpreading

from oasis_bench.algorithms import Euclidean
from oasis_bench.experiment import TrialSpec
from oasis_bench.system import derive_seed


class Searches:
    """Looks for whole numbers, one for each test item: items of equal numbers are similar."""

    transductive = True  # so that what it finds is not refused for being another each time

    def similarity(self, queries, gallery):
        labels = next(iter(self.find(gallery.shape[0])), np.arange(gallery.shape[0]))
        # Blocks of queries begin at the gallery's first item: these galleries are small.
        n_queries = queries.shape[0]
        return (labels[:n_queries, None] == labels[None, :]).astype(float)


def _labels_in(objects, n):
    for item in objects:
        is_whole = isinstance(item, np.ndarray) and item.dtype.kind in "iu"
        if is_whole and item.shape == (n,) and len(np.unique(item)) < n:
            yield item
        y = getattr(item, "y", None)
        if isinstance(y, np.ndarray) and y.shape == (n,):
            yield y


class SearchesFrames(Searches, Euclidean):
    name = "SearchesFrames"

    def find(self, n):
        frame = sys._getframe()
        while frame is not None:
            held = [*frame.f_locals.values()]
            held += [inner for value in held for inner in getattr(value, "__dict__", {}).values()]
            yield from _labels_in(held, n)
            frame = frame.f_back


class SearchesMemory(Searches, Euclidean):
    name = "SearchesMemory"

    def find(self, n):
        held = gc.get_objects()
        yield from _labels_in(held, n)
        for item in held:
            if isinstance(item, dict | list | tuple):
                try:
                    inner = list(item.values() if isinstance(item, dict) else item)
                except RuntimeError:
                    continue
                yield from _labels_in(inner, n)


class SearchesDescriptors(Searches, Euclidean):
    """Reads every file that it holds open, for n numbers of 8 bytes that are small."""

    name = "SearchesDescriptors"

    def find(self, n):
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            try:
                content = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)
            except (OSError, ValueError):
                continue
            numbers = np.frombuffer(content, np.int64, len(content) // 8)
            small = np.concatenate([[0], ((numbers >= 0) & (numbers < 100)).cumsum()])
            for start in np.flatnonzero(small[n:] - small[:-n] == n):
                if 1 < len(np.unique(found := numbers[start : start + n])) < n:
                    yield found


class DerivesOrder(Searches, Euclidean):
    """Looks for what the order of the test items is made of; they were drawn class by class."""

    name = "DerivesOrder"

    def find(self, n):
        for trial in [item for item in gc.get_objects() if isinstance(item, TrialSpec)]:
            if "data" in trial.identity:
                whole = (trial.identity["data"], trial.where.subset, trial.where.partition, "order")
                seeds = [derive_seed(*whole, part) for part in range(4)]
                order = np.random.default_rng(seeds).permutation(n)
                yield order * len(trial.where.classes) // n


class PatchesModules(Euclidean):
    """Replaces what judges it, in every module of the harness that its process has."""

    name = "PatchesModules"

    def fit(self, X, y=None):
        self._patch()
        return super().fit(X, y)

    def similarity(self, queries, gallery):
        self._patch()
        return np.zeros((queries.shape[0], gallery.shape[0]))

    def _patch(self):
        for name, module in [*sys.modules.items()]:
            if name.startswith("oasis_bench.tasks") or name.startswith(
                "oasis_bench.trial.harness_side.evaluator"
            ):
                for key, value in [*vars(module).items()]:
                    if callable(value) and key not in ("kernel_ready", "block_size"):
                        setattr(module, key, lambda *args, **kwargs: 1.0)


class ItemOrder(Euclidean):
    """Says that items are similar that come one after the other."""

    name = "ItemOrder"
    transductive = True

    def similarity(self, queries, gallery):
        n_queries, n_gallery = queries.shape[0], gallery.shape[0]
        return -np.abs(np.arange(n_queries)[:, None] - np.arange(n_gallery)).astype(float)


class HiddenItemOrder(ItemOrder):
    name = "HiddenItemOrder"
    transductive = False


class SpreadsLabels(Euclidean):
    """Spreads the training labels over the unlabelled gallery."""

    name = "SpreadsLabels"
    transductive = True

    def fit(self, X, y=None):
        self.rows_, self.labels_ = np.array(X), np.array(y)
        return super().fit(X, y)

    def similarity(self, queries, gallery):
        model = LabelSpreading(gamma=20)
        known = np.concatenate([self.labels_, np.full(gallery.shape[0], -1)])
        model.fit(np.concatenate([self.rows_, gallery]), known)
        return model.predict_proba(queries) @ model.predict_proba(gallery).T


class HidesSpreading(SpreadsLabels):
    name = "HidesSpreading"
    transductive = False


class HidesSpreadingBehind(SpreadsLabels):
    """Gives some pairs so large a score that all differences of the others are small beside it."""

    name = "HidesSpreadingBehind"
    transductive = False

    def __init__(self, what="itself"):
        self.what = what

    def similarity(self, queries, gallery):
        spread = super().similarity(queries, gallery)
        if self.what == "far":
            distances = -Euclidean.similarity(self, queries, gallery)
            return np.where(distances > np.median(distances), -1e6 * distances, spread)
        is_itself = (queries[:, None] == gallery[None]).all(axis=2)
        return np.where(is_itself, 1e6 if self.what == "itself" else np.inf, spread)


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


class RanksAnew(Euclidean):
    """Orders the nearest items by means of neighbours, and gives far pairs huge scores."""

    name = "RanksAnew"

    def __init__(self, share=0.1, factor=1.0):
        self.share = share
        self.factor = factor

    def similarity(self, queries, gallery):
        distances = euclidean_distances(queries, gallery, squared=True)
        far = 1.5 * np.median(distances)
        if len(gallery) > 100:
            within = euclidean_distances(gallery, squared=True)
            means = [
                gallery[np.argsort(one, axis=1)[:, :8]].mean(axis=1) for one in (distances, within)
            ]
            expanded = euclidean_distances(*means, squared=True)
            nearest = np.argsort(distances, axis=1)[:, : int(self.share * len(gallery))]
            values = np.sort(np.take_along_axis(distances, nearest, axis=1), axis=1)
            order = np.take_along_axis(expanded, nearest, axis=1).argsort(axis=1).argsort(axis=1)
            np.put_along_axis(distances, nearest, np.take_along_axis(values, order, 1), axis=1)
        return np.where(distances > far, self.factor, 1) * -distances


class WorksInSimilarity(Euclidean):
    name = "WorksInSimilarity"

    def similarity(self, queries, gallery):
        spin(0.3)
        return super().similarity(queries, gallery)


class AnswersSlowly(Euclidean):
    """Waits, so that what works beside it shows in processor time, which has ticks of 10 ms."""

    name = "AnswersSlowly"

    def similarity(self, queries, gallery):
        time.sleep(0.3)
        return super().similarity(queries, gallery)


class WorksBeside(AnswersSlowly):
    """Waits until what works beside it has worked: for longer where the cores are busy."""

    name = "WorksBeside"

    worker = 0, 0  # the process that it is beside, and its processor clock

    def wait_for(self, seconds):
        beside, clock = self.worker
        end = time.monotonic() + 20
        if beside == os.getpid():
            until = time.clock_gettime(clock) + seconds
            while time.clock_gettime(clock) < until and time.monotonic() < end:
                time.sleep(0.01)

    def similarity(self, queries, gallery):
        self.wait_for(0.15)
        return super().similarity(queries, gallery)


class WorksInChild(WorksBeside):
    """Its child works on; nobody waits for it."""

    name = "WorksInChild"

    def fit(self, X, y=None):
        if (child := os.fork()) == 0:
            spin(30)
            os._exit(0)
        WorksInChild.worker = os.getpid(), ~child << 3 | 2  # clock_getcpuclockid of Linux
        self.wait_for(0.3)
        return super().fit(X, y)


class WorksWhenCopied(Euclidean):
    name = "WorksWhenCopied"

    def __getstate__(self):
        spin(0.3)
        return super().__getstate__()

    def __setstate__(self, state):
        spin(0.3)
        super().__setstate__(state)


class WorksInThread(WorksBeside):
    """Its thread works on when the fit has ended."""

    name = "WorksInThread"

    def fit(self, X, y=None):
        threading.Thread(target=spin, args=(30,), daemon=True).start()
        WorksInThread.worker = os.getpid(), time.CLOCK_PROCESS_CPUTIME_ID
        self.wait_for(0.3)
        return super().fit(X, y)


class PreparesInWarmUp(Euclidean):
    """Keeps what it has fitted in its process, to find it there when the clock runs."""

    name = "PreparesInWarmUp"
    kept = None

    def fit(self, X, y=None):
        if PreparesInWarmUp.kept is None or len(PreparesInWarmUp.kept) != len(X):
            spin(0.3)
            PreparesInWarmUp.kept = np.array(X)
        return super().fit(X, y)


class WorksInRefusal(Euclidean):
    """Works where the harness asks whether it takes the training items."""

    name = "WorksInRefusal"

    def refusal(self, X, y):
        spin(0.3)


class StopsClocks(Euclidean):
    """Replaces the clock of its process."""

    name = "StopsClocks"

    def fit(self, X, y=None):
        clock = sys.modules["oasis_bench.trial.learner_side.meter"]
        clock.Meter.cost = lambda meter: clock.Cost(0.0, 0.0, None, None)
        if len(X) > 16:  # not the few items of the warm-up
            spin(0.5)
        return super().fit(X, y)

    def similarity(self, queries, gallery):
        if len(gallery) > 16:
            spin(0.5)
        return super().similarity(queries, gallery)


class FreezesClocks(Euclidean):
    """Stops the clocks of its process before it works."""

    name = "FreezesClocks"

    def fit(self, X, y=None):
        self._frozen(len(X))
        return super().fit(X, y)

    def similarity(self, queries, gallery):
        self._frozen(len(gallery))
        return super().similarity(queries, gallery)

    def _frozen(self, n_items):
        if n_items > 16:  # not the few items of the warm-up
            wall, cpu, end = time.perf_counter(), time.process_time(), time.thread_time() + 0.15
            time.perf_counter, time.process_time = (lambda: wall), (lambda: cpu)
            while time.thread_time() < end:
                pass


class ForgesModel(Euclidean):
    """Sends a fitted learner that it can still write when it has seen the test items."""

    name = "ForgesModel"

    def fit(self, X, y=None):
        from oasis_bench.trial.wall.messages import Fitted, to_line

        if len(X) > 16:
            line = next(fd for fd in map(int, os.listdir("/proc/self/fd")) if _is_socket(fd))
            fitted = to_line(Fitted(1, 0.0, 0.0, None, None, None))
            socket.send_fds(socket.socket(fileno=line), [fitted], [os.memfd_create("open")])
        return super().fit(X, y)


def _is_socket(descriptor):
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False


class TicksOn(Euclidean):
    """Sends a message a second, so that its budget never ends."""

    name = "TicksOn"

    def fit(self, X, y=None):
        from oasis_bench.trial.wall.messages import PhaseBegan, to_line

        while True:
            for descriptor in filter(_is_socket, map(int, os.listdir("/proc/self/fd"))):
                os.write(descriptor, to_line(PhaseBegan(self.phase)))
            time.sleep(0.5)

    phase = "the final fit"


class OverwritesItems(Euclidean):
    """Tries to change the items of other trials, through every file that it holds open."""

    name = "OverwritesItems"

    def fit(self, X, y=None):
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            path = f"/proc/self/fd/{descriptor}"
            if "memfd" not in os.path.realpath(path):
                continue
            for change in (
                lambda d=descriptor: os.pwrite(d, b"\0" * 4096, 0),
                lambda d=descriptor: os.ftruncate(d, 0),
                lambda p=path: os.truncate(p, 0),
                lambda p=path: os.pwrite(os.open(p, os.O_RDWR), b"\0" * 4096, 0),
            ):
                try:
                    change()
                    raise SystemExit("it could be changed")
                except OSError:
                    pass
        return super().fit(X, y)


class ReadsFolder(Searches, Euclidean):
    """Reads what the run has stored: labels, or what the order of the test items is made of."""

    name = "ReadsFolder"

    def __init__(self, what="labels"):
        self.what = what

    def fit(self, X, y=None):
        self.folder_ = os.path.dirname(os.path.realpath("/proc/self/fd/1"))
        return super().fit(X, y)

    def find(self, n):
        path = f"file:{self.folder_}/results.sqlite?mode=ro"
        with closing(sqlite3.connect(path, uri=True)) as store:
            yield from getattr(self, f"_by_{self.what}")(store, n)

    def _by_labels(self, store, n):
        tables = store.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        told, found = {"label", "relevant", "caption"}, 0
        for (table,) in tables:
            names = {row[1] for row in store.execute(f"PRAGMA table_info({table})")}
            n_rows = store.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            found += n_rows if told & names else 0
        print(f"{len(tables)} tables, rows with labels: {found}", flush=True)
        return []

    def _by_order(self, store, n):
        """The test items were drawn class by class, and then put in an order."""
        experiment, identities = (
            json.loads(*store.execute("SELECT value FROM run WHERE key = ?", (key,)).fetchone())
            for key in ("experiment", "identities")
        )
        n_classes = experiment["classes"][0]
        for identity in identities.values():
            whole = (identity["data"], str(n_classes), 0, "order")
            seeds = [derive_seed(*whole, part) for part in range(4)]
            yield np.random.default_rng(seeds).permutation(n) * n_classes // n

    def _by_ties(self, store, n):
        """As kept scores have them, by the order that the run's own seed gives."""
        (kept, *_) = glob(f"{self.folder_}/predictions/*.npz")
        with np.load(kept) as file:
            if len(file["ties_test"]) != n:  # it is asked for something else, such as a scale
                return
            drawn = np.random.default_rng(derive_seed(0, "ties", "5", 0)).permutation(n)
            undone = np.empty(n, dtype=int)
            undone[drawn] = file["ties_test"]
        yield np.argsort(undone) * 5 // n


class ReadsLastBits(Euclidean):
    """No cheat: its scores are of the rows alone, but the last bit of a feature decides them."""

    name = "ReadsLastBits"

    def similarity(self, X, Y):
        left, right = (np.ascontiguousarray(rows).view(np.uint64).sum(axis=1) for rows in (X, Y))
        return ((left[:, None] ^ right) % 1009).astype(float)
