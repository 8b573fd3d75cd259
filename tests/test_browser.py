"""Pages in Chromium: sorting, filters, widths, contrast, hostile names, and nothing is loaded."""

from dataclasses import replace

import browser
import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trial, make_run, write_run

from oasis_bench.reports import write_ranks, write_report
from oasis_bench.reports.report_files import render
from oasis_bench.reports.table import Cell, Column, Table

LEARNERS = {"A": 0.5, "B": 0.7, "C": 0.6}
HOSTILE = [
    "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">",
    "\u202eright to left\u202c </table></script><!-- {{ 7 * 7 }} --> ' \" &amp;",
    "long" * 2500,
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report of two tasks and two subsets, with curves and hyper-parameters."""
    folder = tmp_path_factory.mktemp("page") / "run"
    trials = [
        fake_trial(
            *(learner, n_classes, partition, mAP + 0.01 * partition),
            n_steps=1000 if learner == "A" else None,
            params={"C": partition},
            tasks=("retrieval", "classification"),
            fit_seconds=0.1 + mAP,
        )
        for learner, mAP in LEARNERS.items()
        for n_classes in (5, 10)
        for partition in range(3)
    ]
    points = np.random.default_rng(0).normal(size=(10, 4)).tolist()
    names = ("row", "label", "x", "y", "x_before", "y_before")
    placed = [dict(zip(names, (row, row, *it), strict=True)) for row, it in enumerate(points)]
    trials = [
        replace(it, projections=placed) if it.columns["trial_id"].endswith("10, 0") else it
        for it in trials
    ]
    make_run(
        *(folder, trials, list(LEARNERS), 3, (5, 10)),
        tasks=["retrieval", "classification"],
    )
    (folder / "output.log").write_text("a learner printed <b>this</b>\x1b[2J\n")
    return write_report(folder)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A report of learners, classes and reasons that want to be code, or to fill the page."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    trials = [
        fake_trial(name, 10, partition, 0.5 + 0.1 * number, params={HOSTILE[0]: HOSTILE[1]})
        for number, name in enumerate(HOSTILE)
        for partition in range(2)
    ]
    trials[-1] = fake_trial(HOSTILE[2], 10, 1, status="failed", reason=HOSTILE[0] + HOSTILE[2])
    make_run(folder, trials, HOSTILE, 2, info={"classes": {"10": (HOSTILE * 4)[:10]}})
    return write_report(folder)


def column(driver, table, number):
    """Return the texts of a column of a table of the page, of the rows that are shown."""
    return driver.execute_script(
        "return [...document.querySelectorAll('figure.table')[arguments[0]].tBodies ?? "
        "document.querySelectorAll('figure.table')[arguments[0]].querySelectorAll('tbody')]"
        ".flatMap((body) => [...body.rows]).filter((row) => row.checkVisibility())"
        ".map((row) => row.cells[arguments[1]].textContent)",
        *(table, number),
    )


def tick(driver, facet, value):
    """Tick a value in the filter of a facet, as the keyboard does."""
    picker = driver.find_element("xpath", f"//form//summary[starts-with(., '{facet}')]/..")
    picker.find_element("tag name", "summary").send_keys("\n")
    picker.find_element("xpath", f".//label[bdi='{value}']/input").send_keys(" ")
    picker.find_element("tag name", "summary").send_keys("\ue00c")  # Escape
    assert picker.get_attribute("open") is None


def test_no_request_leaves_a_page(driver, page, hostile):
    for one in (page, hostile):
        browser.show(driver, one)
        browser.unfold(driver)
        driver.execute_script("document.querySelectorAll('th button').forEach((it) => it.click())")
        asked = browser.requests(driver)
        assert one.as_uri() in asked
        assert [url for url in asked if url != one.as_uri() and not url.startswith("data:")] == []
        refused = [it for it in driver.get_log("browser") if it["level"] == "SEVERE"]
        assert refused == []


def test_a_click_sorts_by_value_and_a_third_restores_the_order(driver, page):
    browser.show(driver, page)
    button = driver.find_elements("css selector", "figure.table")[0].find_elements(
        "css selector", "thead button"
    )[1]
    header = button.find_element("xpath", "..")
    assert button.text.startswith("mAP")
    orders = [column(driver, 0, 0)]
    sorts = []
    for key in (" ", "\n", " "):  # by keyboard
        button.send_keys(key)
        orders.append(column(driver, 0, 0))
        sorts.append(header.get_attribute("aria-sort"))
    assert orders == [
        *(["A", "B", "C", "chance"], ["B", "C", "A", "chance"]),
        *(["chance", "A", "C", "B"], ["A", "B", "C", "chance"]),
    ]
    assert sorts == ["descending", "ascending", None]


def test_filters_show_only_what_is_ticked_in_all_tables(driver, page):
    browser.show(driver, page)
    browser.unfold(driver)
    titles = "return [...document.querySelectorAll('figure.table')]"
    titles += ".filter((it) => it.checkVisibility()).map((it) => it.innerText.split('\\n')[0])"
    before = driver.execute_script(titles)
    tick(driver, "Learner", "B")
    assert column(driver, 0, 0) == ["B"]
    tick(driver, "Learner", "C")
    assert column(driver, 0, 0) == ["B", "C"]
    shown, of = map(int, driver.find_element("css selector", ".filters output").text.split()[:3:2])
    assert 0 < shown < of
    tick(driver, "Task", "Classification")
    tick(driver, "Classes", "10")
    after = driver.execute_script(titles)
    assert "Classification, 10 classes: mean ± standard deviation over 3 partitions" in after
    assert not [title for title in after if "Retrieval" in title or ", 5 classes" in title]
    driver.find_element("xpath", "//form/button[.='Show all']").click()
    assert driver.execute_script(titles) == before
    assert column(driver, 0, 0) == ["A", "B", "C", "chance"]


@pytest.mark.parametrize(("width", "media"), [(400, "screen"), (1280, "screen"), (718, "print")])
def test_a_page_never_scrolls_sideways(driver, page, hostile, width, media):
    for one in (page, hostile):
        browser.show(driver, one, width, media=media)
        browser.unfold(driver)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_and_names_are_those_that_wcag_asks_for(driver, page, scheme):
    browser.show(driver, page, scheme=scheme)
    browser.unfold(driver)
    assert browser.violations(driver) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_of_figures_stand_out_from_the_page(driver, page, scheme):
    browser.show(driver, page, scheme=scheme)
    colours = driver.execute_script(
        "return [...document.querySelectorAll('svg text')].map((it) => getComputedStyle(it).fill)"
    )
    paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    texts = {tuple(map(int, colour[4:-1].split(","))) for colour in colours}
    assert len(colours) > 50
    for colour in texts - {(254, 254, 254), (51, 51, 51)}:  # in cells of a matrix, on blue
        assert _contrast(colour, tuple(map(int, paper[4:-1].split(",")))) >= 4.5


def _contrast(one, other):
    """Return the ratio of contrast of two colours, by WCAG 2."""
    lights = []
    for colour in (one, other):
        s = np.array(colour) / 255
        linear = np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)
        lights.append(linear @ [0.2126, 0.7152, 0.0722])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


@pytest.mark.parametrize("width", [1280, 400])
def test_the_learned_spaces_are_seen_whole(driver, page, width):
    browser.show(driver, page, width)
    box = "document.querySelector('#space ~ figure .panels')"
    assert "before learning" in driver.execute_script(f"return {box}.textContent")
    assert driver.execute_script(f"return {box}.scrollHeight <= {box}.clientHeight + 1")


def test_hostile_names_stay_text(driver, hostile):
    browser.show(driver, hostile)
    browser.unfold(driver)
    assert driver.title == "A made-up comparison – oasis-bench"
    for selector, count in {"script": 1, "img": 0, "b": 0}.items():
        assert len(driver.find_elements("css selector", selector)) == count
    text = driver.execute_script("return document.body.textContent")
    assert HOSTILE[0] in text
    assert "{{ 7 * 7 }}" in text
    assert "\u202e" not in text  # else what follows it would read from right to left
    boxes = driver.execute_script(
        "return [...document.querySelectorAll('.filters bdi')].map((it) => it.textContent)"
    )
    assert HOSTILE[2] in boxes


def test_six_thousand_trials_open_in_two_seconds(driver, tmp_path):
    rows = [
        [f"Learner {learner}", "10", str(trial), Cell("C=0.5, margin=2"), *["0.123 ± 0.004"] * 6]
        for learner in range(30)
        for trial in range(200)
    ]
    header = ("Learner", "Classes", "Partition", "Chosen", *(f"Measure {n}" for n in range(6)))
    columns = [
        Column(name, values, align=side)
        for name, side, values in zip(header, "lrrlrrrrrr", zip(*rows, strict=True), strict=True)
    ]
    table = Table("trials", "Trials", columns, pd.DataFrame())
    path = tmp_path / "many.html"
    made = render("leaderboard.html.j2", title="x", parts={}, beside=table, start={})
    made = made.replace("<figure", "<details><summary>Trials</summary><figure")  # as in a report
    path.write_text(made.replace("</figure>", "</figure></details>"))
    assert path.stat().st_size < 5 * 2**20
    driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    browser.show(driver, path)
    metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    spent = {it["name"]: it["value"] for it in metrics}["TaskDuration"]
    browser.unfold(driver)
    assert len(column(driver, 0, 0)) == 6000
    assert spent < 2  # seconds of the page's thread: other programs do not count


def test_a_leaderboard_begins_with_one_task_and_its_links_lead_to_numbers(driver, tmp_path):
    tasks = ("retrieval", "classification")
    for name in "xy":
        trials = [
            fake_trial(learner, partition=p, mAP=mAP, tasks=tasks)
            for learner, mAP in (("Euclidean", 0.5), ("A", 0.6))
            for p in range(2)
        ]
        write_run(tmp_path / name, trials, {"dataset": name, "tasks": list(tasks)})
    page, *_ = write_ranks([tmp_path / "x", tmp_path / "y"], tmp_path / "out")
    for width in (1280, 400):
        browser.show(driver, page, width)
        assert driver.execute_script("return document.body.scrollWidth") <= width
        titles = "return [...document.querySelectorAll('figure.table figcaption')]"
        titles += ".filter((it) => it.checkVisibility()).map((it) => it.textContent)"
        seen = driver.execute_script(titles)
        assert seen[0] == "Retrieval, mAP: learners over 2 data sets"
        assert not [it for it in seen if it.startswith("Classification")]
        assert column(driver, 0, 2) == ["+20", "0"]
        driver.find_element("css selector", "figure.table a").click()
        assert driver.execute_script("return document.querySelector(':target').textContent") == "A"
        driver.find_element("xpath", "//form/button[.='Show all']").click()
        assert [it for it in driver.execute_script(titles) if it.startswith("Classification")]
