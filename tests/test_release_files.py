"""Files that a release needs agree with each other: metadata, the recipe, workflows, the paper."""

import json
import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import oasis_bench

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
NAMES_ON_CONDA_FORGE = {"matplotlib": "matplotlib-base", "seaborn": "seaborn-base"}
CITED = re.compile(r"@([a-z]+\d{4}\w*)")


def facts_of_zenodo():
    found = json.loads((ROOT / ".zenodo.json").read_text())
    return [
        *(found["title"], found["version"], found["license"], found["description"]),
        *([one["name"] for one in found["creators"]], found["keywords"]),
    ]


def facts_of_codemeta():
    found = json.loads((ROOT / "codemeta.json").read_text())
    licence = found["license"].removeprefix("https://spdx.org/licenses/")
    return [
        *(found["name"], found["version"], licence, found["description"]),
        *([one["name"] for one in found["author"]], found["keywords"]),
    ]


@pytest.mark.parametrize("facts", [facts_of_zenodo, facts_of_codemeta])
def test_metadata_are_those_of_the_citation(facts):
    authors = [one["name"] for one in CITATION["authors"]]
    names = ("title", "version", "license", "abstract")
    assert facts() == [*(CITATION[name] for name in names), authors, CITATION["keywords"]]


def test_the_citation_is_of_the_package():
    project = PROJECT["project"]
    assert project["version"] == CITATION["version"] == oasis_bench.__version__
    assert project["license"] == CITATION["license"]
    assert CITATION["title"].split(":")[0] == project["name"]
    codemeta = json.loads((ROOT / "codemeta.json").read_text())
    assert codemeta["identifier"] == project["name"]
    assert codemeta["runtimePlatform"] == f"Python {project['requires-python']}"
    owners = re.search(r"Copyright \(c\) \d{4}, (.*)", (ROOT / "LICENSE").read_text())[1]
    assert [owners] == [one["name"] for one in CITATION["authors"]]


def test_the_recipe_needs_what_the_package_needs():
    project, recipe = PROJECT["project"], yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
    assert recipe["context"]["version"] == project["version"]
    assert recipe["package"]["name"] == project["name"]
    assert recipe["about"]["license"] == project["license"]
    assert recipe["about"]["summary"] == project["description"]
    names = [re.match(r"[\w-]+", one)[0] for one in project["dependencies"]]
    needed = [
        f"{NAMES_ON_CONDA_FORGE.get(name, name)} {one.removeprefix(name)}"
        for name, one in zip(names, project["dependencies"], strict=True)
    ]
    run = [f"python {project['requires-python']}", *needed]
    assert recipe["requirements"]["run"] == run
    built_with = {one.replace(">", " >", 1).lower() for one in PROJECT["build-system"]["requires"]}
    assert built_with <= set(recipe["requirements"]["host"])
    (script,) = (test["script"] for test in recipe["tests"] if "script" in test)
    assert script == [PROJECT["tool"]["cibuildwheel"]["test-command"]]
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert dict([entry.split(" = ")]) == project["scripts"]


def test_workflows_run_what_ci_runs_and_build_each_kind_of_wheel():
    jobs = {
        name: yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())["jobs"]
        for name in ("ci", "wheels")
    }
    assert {"run": ".ci/run"} in jobs["ci"]["ci"]["steps"]
    assert os.access(ROOT / ".ci/run", os.X_OK)
    oldest, newest = jobs["ci"]["ci"]["strategy"]["matrix"]["python"]
    assert PROJECT["project"]["requires-python"].startswith(f">={oldest}.")
    settings = PROJECT["tool"]["cibuildwheel"]
    assert f"-{newest[-1]}]-" in settings["build"]
    built = [one["arch"] for one in jobs["wheels"]["wheels"]["strategy"]["matrix"]["include"]]
    assert built == settings["archs"]


def test_the_paper_is_short_and_cites_what_its_bibliography_has():
    _, header, text = (ROOT / "paper/paper.md").read_text().split("---\n", 2)
    about = yaml.safe_load(header)
    assert about["title"] == CITATION["title"]
    assert 750 <= len(text.split()) <= 1750  # the rule of JOSS
    bibliography = (ROOT / "paper" / about["bibliography"]).read_text()
    entries = re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE)
    assert sorted(set(CITED.findall(text))) == sorted(entries)
