"""The rating page in Chromium: keys, progress, the saved file, and what the page does not tell."""

import json
import re
import time
from pathlib import Path

import browser
import pytest
from rated_runs import small_run

from oasis_bench.command_line import main
from oasis_bench.reports import write_rating_page
from oasis_bench.reports.ratings import questions, read_ratings

RIGHT, LEFT = "\ue014", "\ue012"


@pytest.fixture
def run(tmp_path):
    return small_run(tmp_path / "run")


@pytest.fixture
def page(run, tmp_path):
    return write_rating_page(tmp_path / "run", 25, 20)[0]


def press(driver, *keys):
    """Send keys to whatever has the focus."""
    for key in keys:
        driver.switch_to.active_element.send_keys(key)


def place(driver):
    return driver.find_element("id", "place").text


def labels(driver):
    found = driver.find_elements("css selector", ".candidates button")
    return [button.get_attribute("aria-label") for button in found]


def saved(driver, folder):
    """Save the file and return its path."""
    where = {"behavior": "allow", "downloadPath": str(folder)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    driver.find_element("id", "save").click()
    name = driver.find_element("id", "saved").text.partition(":")[0]
    for _ in range(100):
        if (folder / name).exists():
            return folder / name
        time.sleep(0.05)
    raise AssertionError(f"{name} was not saved")


def test_rating_by_keys_is_kept_and_its_file_is_collected(driver, run, page, tmp_path, capsys):
    asked = questions(run, 25, 20)
    expected = [(query, row) for query, candidates in asked for row in candidates]
    n_pairs = len(expected)
    browser.show(driver, page)
    driver.execute_script("localStorage.clear()")
    browser.show(driver, page)
    assert place(driver) == f"Query 1 of 3. 0 of {n_pairs} rated."
    press(driver, "1", "2", RIGHT, "3", LEFT, LEFT, "2")
    marks = ["relevant", "not relevant", "not relevant", "cannot tell"]
    assert [label.partition(": ")[2] for label in labels(driver)][:4] == marks
    driver.find_element("id", "rater").send_keys("=1+1 <b>")
    browser.show(driver, page)
    assert place(driver) == f"Query 1 of 3. 4 of {n_pairs} rated."
    assert [label.partition(": ")[2] for label in labels(driver)][:4] == marks
    press(driver, *["1"] * (n_pairs - 4))
    assert f"{n_pairs} of {n_pairs} rated. That is all" in place(driver)
    file = saved(driver, tmp_path)
    content = json.loads(file.read_text())
    assert [(query, row) for query, row, _ in content["ratings"]] == expected
    assert main(["judge", str(tmp_path / "run"), "--collect", str(file)]) == 0
    assert f"collected: {n_pairs} marks of 1 rater" in capsys.readouterr().out
    ratings = read_ratings(tmp_path / "run")
    assert ratings["mark"].tolist() == marks + ["relevant"] * (n_pairs - 4)
    assert set(ratings["rater"]) == {"'=1+1 <b>"}
    assert (tmp_path / "run/report.html").exists()


def test_the_verb_writes_the_page_that_it_is_asked_for(run, tmp_path, capsys):
    words = ["judge", str(tmp_path / "run"), "--queries", "2", "--candidates", "3"]
    assert main(words) == 0
    (said,) = re.findall(r"^page: (.*)", capsys.readouterr().out, re.MULTILINE)
    expected = write_rating_page(tmp_path / "run", 2, 3)[0]
    assert Path(said) == expected
    assert expected.read_text().count("data:image/jpeg") > 2


def test_buttons_rate_and_go_from_query_to_query(driver, run, page):
    browser.show(driver, page)
    driver.execute_script("localStorage.clear()")
    browser.show(driver, page)
    first = driver.find_element("id", "query").get_attribute("src")
    driver.find_elements("css selector", ".candidates button")[2].click()
    driver.find_element("css selector", ".bar [data-mark='not relevant']").click()
    assert labels(driver)[2].endswith("not relevant")
    driver.find_element("id", "next").click()
    assert place(driver).startswith("Query 2 of 3. 1 of ")
    assert driver.find_element("id", "query").get_attribute("src") != first
    driver.find_element("id", "previous").click()
    assert labels(driver)[2].endswith("not relevant")
    driver.find_element("id", "another").click()
    browser.accept(driver)
    assert place(driver).startswith("Query 1 of 3. 0 of ")


def test_the_page_tells_no_learner_no_class_and_asks_for_nothing(driver, page):
    text = re.sub(r"data:image/jpeg;base64,[^\"]+", "", page.read_text())
    assert "Learner" not in text
    assert "class 0" not in text
    browser.requests(driver)
    browser.show(driver, page)
    press(driver, "1", RIGHT)
    asked = browser.requests(driver)
    assert page.as_uri() in asked
    assert [url for url in asked if url != page.as_uri() and not url.startswith("data:")] == []
    assert [it for it in driver.get_log("browser") if it["level"] == "SEVERE"] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_its_window_and_can_be_read(driver, page, width, scheme):
    browser.show(driver, page, width, scheme)
    press(driver, "1", "2", "3")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.violations(driver) == []
