"""
Which parts of a picture tell its class?
========================================

A local distance function (Frome et al., ICCV 2007) gives each patch of each training picture a
weight of its own.  Where are the patches that count, and how many of them?

Four classes of Caltech101, eight pictures of each, 60 patches a picture: half a minute.  The
pictures are read from ``$OASIS_BENCH_DATA/caltech101``.
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from oasis_bench.algorithms import LocalPatchDistances
from oasis_bench.datasets.features.patch_figures import (
    RADII,
    draw_geometric_blur,
    draw_patch_weights,
)
from oasis_bench.datasets.features.patches import patch_options, patches_of
from oasis_bench.datasets.features.picture_files import Workers, hashed_pictures
from oasis_bench.system.progress import no_progress

CLASSES = ("Leopards", "Motorbikes", "panda", "rooster")
KIND = "gb42"

data = os.environ.get("OASIS_BENCH_DATA")
folder = Path(data or ".", "caltech101", "101_ObjectCategories")
if not folder.is_dir():
    print(
        f"no pictures of Caltech101 in {folder}: set OASIS_BENCH_DATA to the folder that has them"
    )
    sys.exit()

# %%
# Patches are centred at edges.  Geometric blur describes each: four channels of edges, the more
# blurred the farther from the centre.
paths = [path for name in CLASSES for path in sorted((folder / name).glob("*.jpg"))[:8]]
y = np.repeat(np.arange(len(CLASSES)), 8)
workers = Workers(no_progress)
patches, kept, _ = patches_of(hashed_pictures(paths, workers), patch_options(KIND, 60), workers)
paths, y = [paths[number] for number in kept], y[kept]

figure, panels = plt.subplots(1, 4, figsize=(11, 3), sharex=True, sharey=True)
draw_geometric_blur(panels, patches.kinds[KIND].descriptors[0], RADII[KIND])
figure.suptitle(f"What the first patch of {paths[0].parent.name} sees")

# %%
# All weights are learned together, so that distances from different pictures can be compared.
learned = LocalPatchDistances(random_state=0).fit(patches, y)
zeros = np.mean(np.concatenate(learned.weights_) == 0)
gap = learned.gap_ / learned.primal_
print(f"{zeros:.0%} of the weights are 0; the loss is at most {gap:.1%} above its least value")

# %%
# A circle is a patch, the more opaque the larger its weight; dots have a weight of 0.
figure, panels = plt.subplots(1, len(CLASSES), figsize=(13, 3), layout="constrained")
for number, axes in enumerate(panels):
    j = int(np.flatnonzero(y == number)[0])
    pixels = np.asarray(Image.open(paths[j]).convert("RGB"))
    draw_patch_weights(axes, pixels, learned.exemplars_[j], learned.weights_[j], KIND)
plt.show()
