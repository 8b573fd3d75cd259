"""What a machine and an installation say of themselves."""

import platform
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions, version

import pytest

from oasis_bench.system import describe_machine, processor_name
from oasis_bench.system.machine import DISTRIBUTIONS


def test_the_provenance_has_the_version_of_every_distribution_that_a_loaded_module_is_of():
    loaded = {name.partition(".")[0] for name in list(sys.modules)}
    found = {
        distribution: version(distribution)
        for module, distributions in packages_distributions().items()
        if module in loaded
        for distribution in distributions
    }
    assert {"pytest", "numpy"} <= found.keys()
    versions = describe_machine()["versions"]
    assert {name: versions.get(name) for name in found} == found
    assert versions.keys() - found.keys() <= set(DISTRIBUTIONS)


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="there is no lscpu")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have no family")
def test_a_processor_has_the_name_the_family_and_the_number_of_lscpu():
    answer = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
    pairs = [line.split(":", 1) for line in answer.splitlines() if ":" in line]
    of = {key.strip(): value.strip() for key, value in pairs}
    found = f"{of['Model name']} (family {of['CPU family']}, model {of['Model']})"
    assert processor_name() == found
