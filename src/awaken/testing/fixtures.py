"""Fixtures for pytest; write `pytest_plugins = ["awaken.testing.fixtures"]` in your conftest.py.

The only module of the test kit that needs pytest.
"""

from collections.abc import Callable

import pytest

from .agent_reports import AgentReport
from .agent_simulation import simulate_agent as simulate


@pytest.fixture
def simulate_agent() -> Callable[..., AgentReport]:
    """Runs agents under many schedules and through every crash; fails where a promise breaks."""
    return simulate
