"""Geometric blur: what it takes to describe the patches of one picture."""

import time

import numpy as np
from sklearn.datasets import load_sample_image

from oasis_bench.datasets.patches import edge_signals, geometric_blur

HEIGHT, WIDTH = 200, 300
"""Data sets scale the longer side of a picture to 300 pixels."""


class OnePicture:
    """A photograph of a temple, 300 x 200 pixels of it, with 400 points: the paper's two radii."""

    params = (42, 70)
    param_names = ("radius",)
    timer = time.process_time

    def setup(self, radius):
        picture = load_sample_image("china.jpg")[::2, ::2].astype(np.float32) / 255
        self.pixels = picture[:HEIGHT, :WIDTH]
        self.channels, crests = edge_signals(self.pixels)
        strongest = np.argsort(-crests, axis=None)[:400]
        y, x = np.unravel_index(strongest, crests.shape)
        self.points = np.stack([x, y], axis=1)
        geometric_blur(self.channels, self.points, radius)  # makes the matrices of this size

    def time_edge_signals(self, radius):
        edge_signals(self.pixels)

    def time_400_patches(self, radius):
        geometric_blur(self.channels, self.points, radius)
