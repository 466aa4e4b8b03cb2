"""What every extension has to outlive: a wait, a restart, a change of agent, a call from above.

A test takes `new_store` and makes a runtime with `durable(new_store, …)`; a second runtime made of
the same `new_store` is the process that comes after the first.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, MailboxConfig
from awaken.stores import Store

NewStore = Callable[[], Store]
BOUND_S = 20
CONFIG = MailboxConfig(poll_ms=20, relay_ms=20, sweep_ms=200, lease_ms=20_000, renew_ms=300)

both_stores = pytest.mark.parametrize("new_store", ["sqlite", "postgres"], indirect=True)


def durable(new_store: NewStore, agents: Iterable[Agent], **options: Any) -> AgentRuntime:
    """A runtime on the store, as one process of several would have it."""
    return AgentRuntime(list(agents), store=new_store(), mailbox=CONFIG, **options)
