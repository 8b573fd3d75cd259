"""The page of `data describe --output`: columns, histograms, copies and pictures, by hand."""

import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from oasis_bench.command_line import main


@pytest.fixture
def describe(tmp_path, capsys):
    def described(path, *options):
        page = tmp_path / "page.html"
        assert main(["data", "describe", str(path), *options, "--output", str(page)]) == 0
        assert capsys.readouterr().out.endswith(f"page: {page}\n")
        return page.read_text(encoding="utf-8")

    return described


@pytest.fixture
def table(tmp_path):
    rows = zip([*range(11), 12, ""], "uuuuuuvv<<<<<", "xyxyxyxyxyxyx", strict=True)
    lines = ["a,b,kind", *(",".join(map(str, row)) for row in rows)]
    lines += ["0,u,x", "1,u,y", "2,u,y"]  # copies; the third had the label x
    (tmp_path / "t.csv").write_text("\n".join(lines))
    return tmp_path / "t.csv"


def bars(page, name):
    """Return the heights and the words of the bars of a column."""
    row = re.search(rf"<tr><th scope=\"row\">&#39;{name}&#39;</th>(.*?)</tr>", page)[1]
    found = re.findall(r'height="([\d.]+)"><title>(.*?)</title>', row)
    return [(float(height), unescape(words)) for height, words in found]


def test_a_bar_is_a_twelfth_of_the_range_or_a_text(describe, table):
    page = describe(table, "--label", "kind")
    numbers = [0, 0, 1, 1, 2, 2, *range(3, 11), 12]  # 12 parts of 0 to 12; the last has 11 and 12
    each = np.bincount(np.minimum(numbers, 11), minlength=12)
    assert [height for height, _ in bars(page, "a")] == pytest.approx(each / 2)
    assert bars(page, "a")[0][1] == "0 to 1: 2 rows"
    assert bars(page, "b") == [(1, "u: 9 rows"), (5 / 9, "<: 5 rows"), (2 / 9, "v: 2 rows")]
    assert "<: 5" not in page  # it is escaped
    assert "1 missing" in page


def test_numbers_too_near_for_parts_have_a_bar_each(describe, tmp_path):
    cells = pd.DataFrame({"a": [0.3, 0.1 * 3] * 4, "kind": [*"xxyy"] * 2})
    cells.to_csv(tmp_path / "near.csv", index=False)
    page = describe(tmp_path / "near.csv", "--label", "kind")
    assert [height for height, _ in bars(page, "a")] == [1, 1]


def test_copies_and_columns_that_are_nearly_constant_are_marked(describe, table):
    page = describe(table, "--label", "kind")
    assert "Equal to an earlier one: 3 rows." in page
    assert "Equal rows with different labels: 1 case." in page
    assert "nearly constant" not in page
    values = np.full(40, 7.25)
    values[3] = 1.5
    cells = pd.DataFrame({"a": np.arange(40) ** 2, "c": values, "kind": [*"xy"] * 20})
    cells.to_csv(table, index=False)
    page = describe(table, "--label", "kind")
    assert "nearly constant: 97.5% are 7.25" in page
    assert "Equal to an earlier one" not in page


def test_pictures_of_each_class_are_shown(describe, tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("cats", 8), ("dogs", 3)):
        (tmp_path / "p" / name).mkdir(parents=True)
        for k in range(n):
            pixels = rng.integers(0, 256, (120, 100, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "p" / name / f"{k}.png")
    page = describe(tmp_path / "p", "--features", "histograms")
    shown = re.findall(r'<img src="data:image/jpeg;base64,[^"]+" alt="(\w+)">', page)
    assert shown == ["cats"] * 6 + ["dogs"] * 3
    assert not re.search(r"(src|href)=.?(?!data:|#)\w", page)  # it works offline


def test_a_table_that_cannot_be_used_yet_has_its_page(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,kind\n1,x\nk.A.,y\n3,x\n4,y\n")
    page = tmp_path / "page.html"
    words = ["data", "describe", str(tmp_path / "t.csv"), "--label", "kind", "--output", str(page)]
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out.endswith(f"page: {page}\n")
    reason = "1 column is not numeric: &#39;a&#39;: &#39;k.A.&#39;"
    assert reason in page.read_text()
    assert unescape(reason) in told.err
    assert bars(page.read_text(), "kind") == [(1, "x: 2 rows"), (1, "y: 2 rows")]
