"""What holds for every test."""

import gc
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# The same examples every time, and however slow the machine is: what is found decides, not when.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


def pytest_collection_finish() -> None:
    """Let the garbage collector look at what tests make, not at fifteen thousand tests."""
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
