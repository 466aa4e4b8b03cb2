"""What holds for every test."""

import gc
import sys
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from tests.sampling import IS_EVERYTHING

# The same examples every time, and however slow the machine is: what is found decides, not when.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to each lane what is its own (see `tests/sampling.py`)."""
    kept, left_out = [], []
    for item in items:
        is_long = item.get_closest_marker("long") is not None
        is_sampled = item.get_closest_marker("sampled") is not None
        is_kept = is_long or is_sampled if IS_EVERYTHING else not is_long
        (kept if is_kept else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_collection_finish() -> None:
    """Let the garbage collector look at what tests make, not at the tests themselves."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup() -> None:
    """Let no test wait for what an earlier one has left on the server of this process."""
    servers = sys.modules.get("tests.postgres.server")
    if servers is not None:
        servers.begin_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Let the collector look at what one file makes: tests that collect pay for all there is."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep reports encodable: they travel between processes, and some tests log lone surrogates."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report
