"""
Which parts of a picture tell its class?
========================================

A local distance function (Frome et al., ICCV 2007) gives each patch of each training picture a
weight of its own.  Where are the patches that count, and how many of them?

The pictures are four classes of Caltech101 where ``$OASIS_BENCH_DATA/caltech101`` has them.  Else
they are cut out of the two photographs that come with scikit-learn: a temple and a flower.
"""

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from oasis_bench.algorithms import LocalPatchDistances
from oasis_bench.datasets.patches import KINDS, draw_geometric_blur, draw_patch_weights, patches_of
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
# Patches are centred at edges.  Geometric blur describes each: four channels of edges, the more
# blurred the farther from the centre.
paths = [path for name in classes for path in sorted((folder / name).glob("*.jpg"))[:PICTURES]]
y = np.repeat(np.arange(len(classes)), PICTURES)
patches, kept, _ = patches_of(hashed_pictures(paths, no_progress), [KIND], POINTS, no_progress)
paths, y = [paths[number] for number in kept], y[kept]

figure, panels = plt.subplots(1, 4, figsize=(11, 3), sharex=True, sharey=True)
draw_geometric_blur(panels, patches.kinds[KIND].descriptors[0], KINDS[KIND][2])
figure.suptitle(f"What the first patch of {paths[0].parent.name} sees")

# %%
# All weights are learned together, so that distances from different pictures can be compared.
learned = LocalPatchDistances(random_state=0).fit(patches, y)
zeros = np.mean(np.concatenate(learned.weights_) == 0)
gap = learned.gap_ / learned.primal_
print(f"{zeros:.0%} of the weights are 0; the loss is at most {gap:.1%} above its least value")

# %%
# A circle is a patch, the more opaque the larger its weight; dots have a weight of 0.
figure, panels = plt.subplots(
    1, len(classes), figsize=(3.2 * len(classes), 3), layout="constrained"
)
for number, axes in enumerate(panels):
    j = int(np.flatnonzero(y == number)[0])
    pixels = np.asarray(Image.open(paths[j]).convert("RGB"))
    draw_patch_weights(axes, pixels, learned.exemplars_[j], learned.weights_[j], KIND)
plt.show()
