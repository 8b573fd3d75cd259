"""The example queries of a report and the images that learners retrieve for them."""

import base64
import re
from html.parser import HTMLParser

from fake_runs import fake_trial, make_run
from rated_runs import jpeg, with_retrievals

from oasis_bench.reports import write_report


def picture_run(folder, queries=1):
    trials = [
        with_retrievals(
            fake_trial(learner),
            {query: [(row, int(row % 2 == 0)) for row in found] for query in range(queries)},
        )
        for learner, found in (("A", [12, 13, 14, 15, 16]), ("B", [13, 12, 15, 17, 99]))
    ]
    captions = {**{row: f"<s>{row}" for row in range(queries)}, 12: "bear", 13: 'dog" x="'}
    pictures = [
        {
            "row": row,
            "caption": captions.get(row, "owl"),
            "thumbnail": None if row == 14 else jpeg((row, 10, 10)),
        }
        for row in (*range(queries), *range(12, 18))
    ]
    make_run(folder, trials, ["A", "B", "C"], partitions=1, pictures=pictures)
    return write_report(folder).read_text()


class _Images(HTMLParser):
    """The named images of a page, in their order: (label, classes)."""

    def __init__(self):
        super().__init__()
        self.images = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if values.get("role") == "img" and tag == "span":
            self.images.append((values["aria-label"], values["class"].split()[1:]))


def images_of(page):
    parser = _Images()
    parser.feed(page)
    return parser.images


def test_a_query_is_followed_by_what_each_learner_brings_up_best_first(tmp_path):
    page = picture_run(tmp_path / "run")
    assert images_of(page) == [
        ("Query: <s>0", ["p0"]),
        ("bear, hit", ["hit", "p12"]),
        ('dog" x=", miss', ["miss", "p13"]),
        ("owl, hit", ["hit", "none"]),
        ("owl, miss", ["miss", "p15"]),
        ("owl, hit", ["hit", "p16"]),
        ('dog" x=", miss', ["miss", "p13"]),
        ("bear, hit", ["hit", "p12"]),
        ("owl, miss", ["miss", "p15"]),
        ("owl, miss", ["miss", "p17"]),
        ("row 99, miss", ["miss", "none"]),  # the run was cut off before it was kept
    ]
    section = page[page.index('<h2 id="retrieved">') : page.index('<h2 id="costs">')]
    assert "<s>" not in section
    assert section.count(">✓</span>") == 4 + 1  # the legend's own
    assert section.count(">✗</span>") == 6 + 1
    assert re.findall(r'scope="row">(\w+) <small>(\d of \d)', section) == [
        ("A", "3 of 5"),
        ("B", "1 of 5"),
    ]


def test_each_thumbnail_is_in_the_page_once_and_whole(tmp_path):
    page = picture_run(tmp_path / "run")
    pictures = dict(re.findall(r"\.(p\d+) \{ background-image: url\((data:[^)]+)\)", page))
    assert set(pictures) == {"p0", "p12", "p13", "p15", "p16", "p17"}
    assert page.count("data:image/jpeg;base64,") == len(pictures)
    content = pictures["p12"].partition(",")[2]
    assert base64.b64decode(content) == jpeg((12, 10, 10))
