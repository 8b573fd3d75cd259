"""Small files of judged triplets with their pictures, for tests; not a test itself."""

import numpy as np
from PIL import Image


def judged_by_colour(data):
    """Write pictures of colours and grains, and my.csv: ten triplets that are judged by colour."""
    rng = np.random.default_rng(0)
    lines = ["text_query,query,positive,negative"]
    for group in range(10):
        shades = ((255, 40, 40), (255, 60, 40), (40, 60, 255))
        for name, shade, coarse in zip("qpn", shades, (4, 32, 4), strict=True):
            grain = rng.integers(0, 40, (coarse, coarse, 1)).repeat(128 // coarse, 0)
            pixels = np.clip(np.array(shade) - grain.repeat(128 // coarse, 1), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(data / f"{group}{name}.png")
        lines.append(f"{group},{group}q.png,{group}p.png,{group}n.png")
    (data / "my.csv").write_text("\n".join(lines))


def judged_at_random(folder, n_pictures=12, n_triplets=36):
    """Write pictures of random squares, and my.csv: random triplets of them, without groups.

    Returns
    -------
    names : list of str
        The pictures, in the order of their paths.
    triplets : list of tuple
        Query, positive and negative, numbers of pictures.
    """
    rng = np.random.default_rng(5)
    folder.mkdir()
    names = [f"{number:02}.png" for number in range(n_pictures)]
    for name in names:
        squares = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(squares.repeat(16, 0).repeat(16, 1)).save(folder / name)
    triplets = [tuple(rng.choice(n_pictures, 3, replace=False)) for _ in range(n_triplets)]
    lines = [",".join(names[number] for number in triplet) for triplet in triplets]
    (folder / "my.csv").write_text("\n".join(["query,positive,negative", *lines]))
    return names, triplets
