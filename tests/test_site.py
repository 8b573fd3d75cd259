"""What can be checked of the site and the project's papers without a build: links and versions."""

import importlib.util
import re
from pathlib import Path

import pytest

import oasis_bench

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FOLDERS = (".", "guide", "tables", "results")
PAGES = [
    *ROOT.glob("*.md"),
    *(page for name in FOLDERS for page in sorted(DOCS.glob(f"{name}/*.md"))),
]
spec = importlib.util.spec_from_file_location("check_site", DOCS / "check_site.py")
check_site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_site)

LINK = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)")


def leads_nowhere(page, link):
    """Whether a page's link has no file behind it; those of the gallery are made of examples."""
    if re.match(r"https?:", link):
        return False
    gallery = re.fullmatch(r"(?:\.\./)?gallery/(\w+)\.rst", link)
    if gallery and gallery[1] != "index":
        return not (DOCS / "examples" / f"{gallery[1]}.py").is_file()
    return not gallery and not (page.parent / link).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files(page):
    links = LINK.findall(page.read_text())
    assert [link for link in links if leads_nowhere(page, link)] == []


def test_link_to_nothing_is_found():
    assert leads_nowhere(DOCS / "guide.md", "no_such_page.md")
    assert leads_nowhere(DOCS / "guide.md", "gallery/plot_no_such_example.rst")


def test_faults_of_a_built_site_are_found(tmp_path):
    (tmp_path / "other.html").write_text('<h2 id="here">Here</h2>')
    (tmp_path / "index.html").write_text(
        '<a href="other.html#here">right</a> <a href="#">top</a> <a href="https://x.org/">out</a>'
        '<a href="other.html#gone">no place</a> <a href="gone.html">no file</a>'
        '<script src="https://cdn.org/a.js"></script> <img src="data:image/png;base64,">'
    )
    assert check_site.faults(tmp_path) == [
        "index.html: no file gone.html",
        "index.html: loads https://cdn.org/a.js",
        "index.html: no place other.html#gone",
    ]


def test_folder_without_pages_is_no_site(tmp_path):
    assert len(check_site.faults(tmp_path)) == 1


def test_citation_and_changes_are_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [oasis_bench.__version__]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[1] == oasis_bench.__version__
