"""
Which parts of a picture show its class?
========================================

A local distance function (Frome et al., ICCV 2007) learns a weight for each patch of each training
picture.  Which patches have large weights, and how many weights are 0?

If the folder ``$OASIS_BENCH_DATA/caltech101`` exists, the pictures are four classes of Caltech101.
Otherwise they are cut out of two photographs that come with scikit-learn, a temple and a flower.
"""

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from oasis_bench.algorithms import LocalPatchDistances
from oasis_bench.datasets.patches import KINDS, RINGS, patches_of
from oasis_bench.datasets.picture_files import hashed_pictures
from oasis_bench.system import no_progress

KIND, PICTURES, POINTS = "gb42", 6, 40

folder = Path(os.environ.get("OASIS_BENCH_DATA", "."), "caltech101", "101_ObjectCategories")
classes = ["Leopards", "Motorbikes", "panda", "rooster"]
if not folder.is_dir():
    folder, classes = Path(tempfile.mkdtemp()), ["temple", "flower"]
    rng = np.random.default_rng(0)
    for name, photograph in zip(classes, load_sample_images().images, strict=True):
        (folder / name).mkdir()
        for number in range(PICTURES):
            y, x = rng.integers(photograph.shape[0] - 300), rng.integers(photograph.shape[1] - 300)
            cut = Image.fromarray(photograph[y : y + 300, x : x + 300])
            cut.save(folder / name / f"{number}.jpg")

# %%
# Patches are centred at edges.  Each patch is described by geometric blur: four channels of edges
# in different directions.  The blur increases with the distance from the centre.
paths = [path for name in classes for path in sorted((folder / name).glob("*.jpg"))[:PICTURES]]
y = np.repeat(np.arange(len(classes)), PICTURES)
patches, kept, _ = patches_of(hashed_pictures(paths, no_progress), [KIND], POINTS, no_progress)
paths, y = [paths[number] for number in kept], y[kept]

angles = [2 * np.pi * np.arange(n_places) / n_places for _, n_places in RINGS]
x, y_down = np.concatenate(
    [
        ring * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        for (ring, _), angle in zip(RINGS, angles, strict=True)
    ]
).T
descriptor = patches.kinds[KIND].descriptors[0].reshape(len(x), 4)
figure, panels = plt.subplots(1, 4, figsize=(11, 3), sharex=True, sharey=True)
for number, axes in enumerate(panels):
    # A disc stands where the blurred channel is sampled; white is the largest number.
    axes.scatter(x, y_down, 60, descriptor[:, number], cmap="gray", vmin=0, vmax=descriptor.max())
    axes.set(title=f"gradient at {45 * number}°", aspect="equal", ylim=(60, -60))
figure.suptitle(f"What the first patch of {paths[0].parent.name} sees")

# %%
# All weights are learned together, so distances from different pictures can be compared.
learned = LocalPatchDistances(random_state=0).fit(patches, y)
zeros = np.mean(np.concatenate(learned.weights_) == 0)
gap = learned.gap_ / learned.primal_
print(f"{zeros:.0%} of the weights are 0; the loss is at most {gap:.1%} above its least value")

# %%
# Each circle is a patch; a more opaque circle has a larger weight.  Dots are patches with weight 0.
figure, panels = plt.subplots(
    1, len(classes), figsize=(3.2 * len(classes), 3), layout="constrained"
)
for number, axes in enumerate(panels):
    j = int(np.flatnonzero(y == number)[0])
    pixels = np.asarray(Image.open(paths[j]).convert("RGB"))
    places, weights = learned.exemplars_[j].kinds[KIND].positions, learned.weights_[j]
    radius = KINDS[KIND][2] * max(pixels.shape[:2]) / 300
    axes.imshow(pixels)
    axes.set_axis_off()
    axes.plot(*places[weights == 0].T, linestyle="", marker=".", markersize=3, color="white")
    for place, weight in zip(places, weights / max(weights.max(), 1e-12), strict=True):
        if weight > 0:
            axes.add_patch(plt.Circle(place, radius, fill=False, color="red", alpha=weight))
    axes.set_title(f"{np.count_nonzero(weights)} of {len(weights)} weights above 0")
plt.show()
