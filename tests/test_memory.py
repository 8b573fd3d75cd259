"""How much memory a process may still take: real limits in processes of their own, and groups."""

import subprocess
import sys

import pytest

from oasis_bench.system import require_memory
from oasis_bench.system.machine import available_bytes, group_limits_left

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")

GIB = 2**30
LIMITED = """
import re, resource, sys
from oasis_bench.system.machine import available_bytes, require_memory

kind, field = sys.argv[1:3]
used = int(re.search(rf"{field}:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
limit = used + int(sys.argv[3]) * 2**20
resource.setrlimit(getattr(resource, kind), (limit, limit))
print(f"{available_bytes() / 2**20:.0f}")
for mebibytes in (64, 65):
    try:
        require_memory(mebibytes * 2**20, "W", "think again")
        print("taken")
    except MemoryError as error:
        print(error)
"""


def limited(*arguments):
    process = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    free, *told = process.stdout.splitlines()
    return int(free), told


@pytest.mark.parametrize(("kind", "field"), [("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")])
def test_a_limit_of_the_process_is_what_it_may_take(kind, field):
    free, told = limited(kind, field, 400)
    assert 380 < free <= 400
    assert told == ["taken", "taken"]


def test_what_is_small_is_never_refused_and_more_is_with_the_need_and_the_room():
    free, (small, more) = limited("RLIMIT_AS", "VmSize", 40)
    assert 20 < free <= 40
    assert small == "taken"
    assert more.startswith("W needs 65 MiB, but ")
    assert more.endswith(f" {free} MiB are free: think again")


def test_the_machine_bounds_what_no_limit_bounds():
    with open("/proc/meminfo") as lines:
        machine = int(next(lines).split()[1]) * 1024
    assert 0 < available_bytes() < machine
    with pytest.raises(MemoryError, match=r"W needs 2,048\.0 GiB, but .* are free: think again"):
        require_memory(2048 * GIB, "W", "think again")


def write(folder, **texts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"memory.{name}").write_text(f"{text}\n")


def test_version_2_groups_leave_their_maximum_less_what_is_no_file_cache(tmp_path):
    stat = f"anon {GIB}\nactive_file {GIB}\ninactive_file {2 * GIB}"
    write(tmp_path / "a" / "b", max="max", current=4 * GIB, stat=stat)
    write(tmp_path / "a", max=10 * GIB, current=5 * GIB, stat=stat)
    assert group_limits_left("0::/a/b\n", tmp_path) == [8 * GIB]
    assert group_limits_left("0::/\n", tmp_path) == []


def test_a_container_whose_group_is_out_of_sight_has_the_limit_at_the_top(tmp_path):
    write(tmp_path, max=GIB, current=0, stat="anon 0")
    assert group_limits_left("0::/host/name/of/it\n", tmp_path) == [GIB]
