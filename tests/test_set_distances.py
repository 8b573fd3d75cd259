"""Distances from patches to sets of patches: against cdist in float64, and kept on disk."""

import os
import resource

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import local_patch_distances as module
from oasis_bench.algorithms.local_patch_distances import BLOCK, TILE, set_distances
from oasis_bench.data import Patches, PatchKind


def kind(sizes, width, seed=0, scale=1.0):
    """Unit-length descriptors (times `scale`) of pictures with these numbers of patches."""
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal((size, width)) for size in sizes]
    units = [scale * part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts]
    return PatchKind.joined(units, [np.zeros((size, 2)) for size in sizes])


def expected(exemplars, others):
    """d_ji,m as it is defined, in float64: for each exemplar (n_others, M_j)."""
    return [
        np.array(
            [
                np.concatenate(
                    [
                        cdist(np.float64(mine[name]), np.float64(item[name])).min(axis=1)
                        for name in mine
                    ]
                )
                for item in others
            ]
        )
        for mine in exemplars
    ]


def check(exemplars, others, rtol=1e-4, atol=0):
    found = set_distances(exemplars, others)
    wanted = expected(exemplars, others)
    assert len(found) == len(exemplars)
    for distances, right in zip(found, wanted, strict=True):
        assert distances.dtype == np.float32
        assert distances.flags.c_contiguous
        assert distances.shape == right.shape
        np.testing.assert_allclose(distances, right, rtol=rtol, atol=atol)


@pytest.mark.parametrize("scale", [1.0, 512.0, 1e-4])
def test_they_are_the_smallest_distances_to_any_patch_of_the_same_kind(scale):
    exemplars = Patches({"a": kind((5, 1, 30), 24, 0, scale), "b": kind((3, 4, 1), 7, 1, scale)})
    others = Patches({"a": kind((2, 40, 1, 9), 24, 2, scale), "b": kind((6, 1, 2, 8), 7, 3, scale)})
    check(exemplars, others)


def test_one_patch_against_one_patch_by_hand():
    one = Patches({"a": PatchKind.joined([[[3.0, 0.0]]], [[[0, 0]]])})
    other = Patches({"a": PatchKind.joined([[[0.0, 4.0]]], [[[0, 0]]])})
    assert set_distances(one, other)[0].tolist() == [[5.0]]


def test_many_patches_in_many_blocks():
    exemplars = Patches({"a": kind((BLOCK // 2, BLOCK + 3, 5), 8)})
    others = Patches({"a": kind((3, 2 * TILE // BLOCK), 8, 1)})
    check(exemplars, others)


def test_a_patch_that_the_other_picture_has_too_is_at_distance_0():
    # Patches of 3 that are whole numbers: products of them are exact.
    rng = np.random.default_rng(0)
    whole = [rng.integers(-9, 10, (20, 3)) for _ in range(4)]
    parts = Patches({"a": PatchKind.joined(whole, [np.zeros((20, 2))] * 4)})
    found = set_distances(parts, parts)
    for j, distances in enumerate(found):
        assert (distances[j] == 0).all()
    units = Patches({"a": kind((50, 60, 70), 204)})
    for j, distances in enumerate(set_distances(units, units)):
        assert (distances[j] == 0).all()
        assert (np.delete(distances, j, axis=0) > 0.5).all()


def test_short_distances_are_as_exact_as_long_ones():
    base = kind((300,), 204)
    noise = np.random.default_rng(1).standard_normal((300, 204)) / 204**0.5
    for size in (1e-6, 1e-4, 1e-2, 0.09, 0.11):
        near = PatchKind.joined([base.descriptors + size * noise], [base.positions])
        check(Patches({"a": base}), Patches({"a": near}), rtol=2e-4)


def test_the_result_is_the_same_on_any_number_of_cores():
    exemplars = Patches({"a": kind((900,) * 7, 40)})
    with threadpool_limits(1):
        alone = set_distances(exemplars, exemplars)
    with threadpool_limits(3):
        together = set_distances(exemplars, exemplars)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_kept_distances_are_read_again_and_damaged_ones_computed_again(tmp_path):
    exemplars, others = Patches({"a": kind((BLOCK, 6), 8)}), Patches({"a": kind((3, 4), 8, 1)})
    direct = set_distances(exemplars, others)
    set_distances(exemplars, others, tmp_path)
    (folder,) = tmp_path.iterdir()
    before = (folder / "0.npy").stat().st_mtime_ns
    (folder / "1.npy").write_bytes((folder / "1.npy").read_bytes()[:-4])
    kept = set_distances(exemplars, others, tmp_path)
    assert (folder / "0.npy").stat().st_mtime_ns == before
    for one, other in zip(kept, direct, strict=True):
        assert isinstance(one, np.memmap)
        np.testing.assert_array_equal(one, other)
    set_distances(exemplars[[1, 0]], others, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2  # other content, another folder


def test_kept_distances_of_many_pictures_need_few_open_files(tmp_path):
    pictures = Patches({"a": kind([2] * 60, 3)})
    direct, limits = set_distances(pictures, pictures), resource.getrlimit(resource.RLIMIT_NOFILE)
    n_open = max(map(int, os.listdir("/proc/self/fd" if os.path.exists("/proc") else "/dev/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (n_open + 20, limits[1]))
    try:
        kept = set_distances(pictures, pictures, tmp_path)
        for one, other in zip(kept, direct, strict=True):
            np.testing.assert_array_equal(one, other)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_distances_used_longest_ago_make_room(tmp_path, monkeypatch):
    sizes = (10, 20, 10, 20)
    pictures = [Patches({"a": kind((size,) * 4, 3, n)}) for n, size in enumerate(sizes)]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "0.npy").write_bytes(b"0" * 5000)
    monkeypatch.setattr(module, "KEPT_BYTES", 3600)  # 4 * 4 * 4 bytes a size, and heads of 128
    folders = []
    for number, one in enumerate(pictures[:3]):
        set_distances(one, one, tmp_path)
        here = (path for path in tmp_path.iterdir() if path.name != "mine")
        folders += [path for path in here if path not in folders]
        os.utime(folders[-1], (number, number))
    set_distances(pictures[0], pictures[0], tmp_path)  # used again
    set_distances(pictures[3], pictures[3], tmp_path)
    assert [path.exists() for path in folders] == [True, False, True]
    assert len(list(tmp_path.iterdir())) == 4
    assert (tmp_path / "mine" / "0.npy").exists()
