"""What a machine and an installation say of themselves."""

import sys
from importlib.metadata import packages_distributions, version

from oasis_bench.system import describe_machine
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
