"""A Chromium without a window for tests of pages, and what they ask of it."""

import json
import shutil
from importlib import resources

import pytest

RULES = ["wcag2a", "wcag2aa"]
"""What axe-core checks: levels A and AA of WCAG 2, contrast among them."""


def start():
    """Start Debian's Chromium by its driver; skip where one of them, or Selenium, is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if missing := [name for name, path in programs.items() if path is None]:
        pytest.skip(f"needs {' and '.join(missing)}: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options, service.Service(programs["chromedriver"]))
    driver.set_script_timeout(120)
    return driver


def show(driver, page, width=1280, scheme="light", media="screen"):
    """Open a file in a window of a width, light or dark, or as it is printed."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [feature]})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page.as_uri())


def unfold(driver):
    """Open all that is folded up, but for the filters."""
    driver.execute_script(
        "document.querySelectorAll('details:not(.filters details)').forEach((it) => it.open = true)"
    )


def accept(driver):
    """Answer yes to the dialog that a click opens, which a busy machine may show a little later."""
    from selenium.webdriver.support.expected_conditions import alert_is_present
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(driver, 10).until(alert_is_present()).accept()


def requests(driver):
    """Return the addresses that were asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [it["params"] for it in messages if it["method"] == "Network.requestWillBeSent"]
    return [it["request"]["url"] for it in sent]


def violations(driver):
    """Return what axe-core finds against `RULES`: the rule, and the first elements."""
    axe = resources.files("axe_core_python") / "axe.min.js"
    driver.execute_script(axe.read_text("utf-8"))
    found = driver.execute_async_script(
        "axe.run(document, {runOnly: arguments[0], resultTypes: ['violations']})"
        ".then(arguments[arguments.length - 1])",
        RULES,
    )
    return [
        (rule["id"], [f"{node['html'][:200]}: {node['failureSummary'][:300]}"])
        for rule in found["violations"]
        for node in rule["nodes"][:3]
    ]
