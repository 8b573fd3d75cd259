"""The model behind the plan for many machines, against hand cases and known numbers."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from oasis_bench.web_scale import Checkpoint, Training, TrainingRecord

PLAN = Path(__file__).parent.parent / "docs" / "web_scale_plan.py"
spec = importlib.util.spec_from_file_location("web_scale_plan", PLAN)
plan = sys.modules["web_scale_plan"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plan)


def test_the_fit_finds_the_numbers_that_trainings_are_made_of():
    def record(n_images):
        def checkpoint(n_steps):
            updates = n_steps * np.exp(0.5 - 0.2 * np.log(n_steps) + 0.1 * np.log(n_images))
            seconds = 5e-6 * n_steps + 1e-5 * updates
            peak = 8e8 + 500 * n_images
            return Checkpoint(n_steps, updates, seconds, 0, 0, 0, {}, 0, peak, None)

        points = tuple(checkpoint(n_images * k) for k in (1, 10, 70))
        training = Training(n_images, 70 * n_images, 65_536, 0)
        return TrainingRecord({}, training, 2, points, {})

    model = plan.fitted(plan.checkpoints_of([record(n) for n in (10_000, 100_000)]))
    assert (model.step, model.update) == pytest.approx((5e-6, 1e-5))
    assert model.exponents == pytest.approx([0.5, -0.2, 0.1])
    assert (model.fixed_bytes, model.image_bytes) == pytest.approx((8e8, 500))
    asked = record(1_000_000).checkpoints[-1]
    assert model.seconds(1e6, 70e6) == pytest.approx(asked.learn_seconds)
    assert model.memory(1e6) == pytest.approx(asked.peak_bytes)


def test_what_machines_take_is_their_part_the_tree_and_the_way_back():
    model = plan.Model(1e-6, 0, np.zeros(3), 1e9, 500)
    matrix, network = 4e8, 1e8
    send, add = plan.LATENCY + matrix / network, matrix / plan.ADDED_BYTES
    seconds, memory, sent = plan.on_machines(model, 4e6, 4, network)
    assert seconds == pytest.approx(70 + 2 * (send + add) + send)
    assert memory == pytest.approx(1e9 + 500e6 + 2 * matrix)
    assert sent == 4 * matrix
    seconds, _, sent = plan.on_machines(model, 4e6, 4, network, rounds=2)
    assert seconds == pytest.approx(70 + 2 * (2 * (send + add) + send) + 3 * send)
    assert sent == (2 * 4 + 4) * matrix


def test_a_folder_without_trainings_of_three_sizes_is_told_in_one_line(tmp_path):
    words = [sys.executable, PLAN, tmp_path / "absent"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "three sizes" in done.stderr
    assert done.stderr.count("\n") == 1
