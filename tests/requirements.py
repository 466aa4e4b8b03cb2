"""What a requirement brings with it, read from what is installed."""

from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def with_all_they_need(wanted: Iterable[str]) -> Iterator[Requirement]:
    """The requirements that count on this machine, and those of their packages in turn."""
    seen = set()
    todo = [it for it in map(Requirement, wanted) if _counts(it, ())]
    while todo:
        requirement = todo.pop()
        extras = tuple(sorted(requirement.extras))
        yield requirement
        if (requirement.name, extras) in seen:
            continue
        seen.add((requirement.name, extras))
        try:
            needs = distribution(requirement.name).requires or []
        except PackageNotFoundError:
            continue
        todo += [it for it in map(Requirement, needs) if _counts(it, extras)]


def package_name(requirement: Requirement) -> str:
    """The package's name in its one spelling."""
    return canonicalize_name(requirement.name)


def _counts(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": it}) for it in ("", *extras))
