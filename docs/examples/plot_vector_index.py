"""
Can a learned metric fill an index of vectors?
==============================================

An approximate index finds the nearest of many vectors without comparing each.  It knows inner
products and Euclidean distances, but no learned similarity x'Wy and no blend.  `query_vectors` and
`gallery_vectors` of a model turn its similarity into inner products.  This example needs the extra
``index``.
"""

import tempfile
from pathlib import Path

import faiss
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

import oasis_bench
from oasis_bench.algorithms import OASIS
from oasis_bench.plugins import Blend, Model

digits = load_digits()
train, queries, gallery = np.split(np.random.default_rng(0).permutation(1797), [500, 600])
X, y = digits.data, digits.target
folder = Path(tempfile.mkdtemp())
np.save(folder / "gallery.npy", X[gallery])

# %%
# The model is what `oasis_bench.fit` returns and `load_model` reads: a scaling, a learner, and its
# blend with the Euclidean baseline.  Here it is made by hand, which takes less time than tuning.
scale = StandardScaler().fit(X[train])
rows = scale.transform(X[train])
learner = OASIS(n_steps=20_000, random_state=0).fit(rows, y[train])
model = Model([("scale", scale), ("learner", learner)])
model.blend_ = Blend.of(learner, rows, weight=0.5)
exact, _ = oasis_bench.neighbours(model, X[gallery], X[queries], k=10)

# %%
# The gallery is read from its file in parts, so it may be larger than the memory.
on_disk = np.load(folder / "gallery.npy", mmap_mode="r")
parts = [slice(start, start + 200) for start in range(0, len(on_disk), 200)]


def recall(index, vectors, found_as="approximate"):
    """Print the share of the ten exact neighbours that the index finds."""
    _, found = index.search(vectors.astype(np.float32), 10)
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(found, exact, strict=True)]
    print(f"{found_as}: recall at 10 is {np.mean(shares):.3f}")
    return np.mean(shares)


# %%
# An index that compares with each vector takes the inner products as they are.  A graph, such as
# HNSW, links each vector to those nearest to it.  By the inner products of gallery vectors these
# are the longest ones for nearly all, so that a search sees little else.  With ``bound``, the
# vectors are those of a Euclidean distance with the same ranks.  0 is enough for distances and for
# all blends of rows in one scaling.
indexes = {}
for name, kind, bound in (
    ("all compared, inner product", "Flat", None),
    ("graph, inner product", "HNSW16", None),
    ("graph, distance", "HNSW16", 0),
):
    metric = faiss.METRIC_INNER_PRODUCT if bound is None else faiss.METRIC_L2
    d = model.gallery_vectors(on_disk[:1], bound).shape[1]
    indexes[name] = faiss.index_factory(d, kind, metric), bound
found = {}
for name, (index, bound) in indexes.items():
    for part in parts:
        index.add(model.gallery_vectors(on_disk[part], bound).astype(np.float32))
    found[name] = recall(index, model.query_vectors(X[queries], bound), name)

# %%
# An index is saved and loaded by its library.  New items are added without a new fit, and the next
# query finds them.  Here they are the queries themselves: how many find themselves?
faiss.write_index(index, str(folder / "gallery.hnsw"))
index = faiss.read_index(str(folder / "gallery.hnsw"))
index.add(model.gallery_vectors(X[queries], bound).astype(np.float32))
_, rows = index.search(model.query_vectors(X[queries], bound).astype(np.float32), 3)
own = np.arange(len(gallery), len(gallery) + len(queries))
print(f"{(rows == own[:, None]).any(axis=1).mean():.0%} of the new items are among their first 3")

# %%
figure, axes = plt.subplots(figsize=(7, 2.5), layout="constrained")
axes.barh([*found], [*found.values()])
axes.set(xlabel="recall at 10 of the exact neighbours", xlim=(0, 1))
axes.invert_yaxis()
plt.show()
