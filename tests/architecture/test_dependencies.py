"""The lists that `make` and the image install from: complete, and parts of the longest one."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.requirements import package_name, with_all_they_need

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
BUILD = PROJECT["build-system"]["requires"]
BASE = PROJECT["project"]["dependencies"]
SERVING = [*BUILD, *BASE, *EXTRAS["mcp"], *EXTRAS["acp"]]
LISTS = {
    "constraints-serve.txt": SERVING,
    "constraints.txt": [*SERVING, *EXTRAS["dev"]],
    "deploy/requirements.txt": [*SERVING, *EXTRAS["postgres"], *EXTRAS["nats"]],
}

_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def pinned(name: str) -> dict[str, tuple[Requirement, frozenset[str]]]:
    """What a list pins: for each package its line and its hashes."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        hashes = frozenset(_HASH.findall(line))
        requirement = Requirement(_HASH.sub("", line).strip())
        found[package_name(requirement)] = (requirement, hashes)
    return found


@pytest.mark.parametrize("name", ["constraints-pip.txt", *LISTS])
def test_every_package_is_pinned_to_a_version_and_its_hashes(name: str) -> None:
    for package, (requirement, hashes) in pinned(name).items():
        (version,) = requirement.specifier
        assert (version.operator, requirement.url) == ("==", None), package
        assert hashes, package


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_all_that_the_project_asks_for_and_what_that_needs(name: str) -> None:
    pins = pinned(name)
    needs = list(with_all_they_need(LISTS[name]))
    assert len(needs) > len(BASE)
    for need in needs:
        requirement, _ = pins[package_name(need)]
        (version,) = requirement.specifier
        assert need.specifier.contains(version.version, prereleases=True), need


@pytest.mark.parametrize("name", ["constraints-serve.txt", "deploy/requirements.txt"])
def test_what_serving_installs_is_a_part_of_what_contributors_install(name: str) -> None:
    serving, full = pinned(name), pinned("constraints.txt")
    assert serving.keys() <= full.keys()
    for package, (requirement, hashes) in serving.items():
        wider, same = full[package]
        assert (wider.specifier, same) == (requirement.specifier, hashes), package
        # Contributors may need it on platforms where serving does not.
        assert wider.marker in (None, requirement.marker), package
    assert len(serving) < len(full) / 2
