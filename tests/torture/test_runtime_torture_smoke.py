"""The runtime stages work and pass at a tiny size, and their planted bugs still fit."""

import inspect

import pytest
from tests.sampling import long

from awaken.contracts.storage.store import Store

from .doomed import WRITES
from .runtime_mutants import planted
from .runtime_scenarios import SCENARIOS
from .smoke import check_planted, check_stage

# Many processes: on a busy machine they take their time.
pytestmark = pytest.mark.timeout(180)

STAGES = (
    "runtime_sweep --limit 24 --again 0.2",
    "worker_kills --cycles 2 --clients 6",
)


@long
@pytest.mark.parametrize("stage", STAGES)
def test_a_runtime_stage_passes_and_says_what_it_did(stage: str) -> None:
    assert check_stage(stage)


def test_there_are_scenarios_for_everything_a_client_can_ask_for() -> None:
    assert len(SCENARIOS) >= 12


def test_every_bug_planted_in_the_runtime_still_applies_to_the_source() -> None:
    check_planted(planted(), least=10)


READS = frozenset(
    {
        "checkout", "count_open_runs", "count_queued",
        "count_queued_by_tenant", "count_usage", "fill_run_columns",
        "find_checkpoint", "find_claim_holder", "find_commit",
        "find_dispatch",
        "find_dispatch_of_run", "find_next_deadline", "find_outbox", "find_ticket", "fold_state",
        "list_dead_outbox",
        "list_dispatches", "list_events",
        "list_expired_tickets", "list_inputs", "list_messages", "list_pinned_publications",
        "list_run_tickets", "list_runs", "list_state_changes",
        "list_threads", "list_ticket_page", "list_tickets", "list_tool_records",
        "list_usage", "load_run", "load_thread", "now_ms",
    }
)  # fmt: skip
"""What leaves nothing behind that a run needs, so that no process has to die before or after it.

The columns and sums of ended runs are proven by tests of their own.
"""


def test_a_process_can_die_before_and_after_every_write_that_a_store_knows() -> None:
    methods = {name for name in dir(Store) if inspect.iscoroutinefunction(getattr(Store, name))}
    assert methods - {"open", "close"} == READS | WRITES
