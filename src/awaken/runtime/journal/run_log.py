"""One log line for each run that failed, was recovered here, or was taken over.

The fields of a line are in its `extra`, so that JSON logs have them as separate fields.
"""

import logging

from awaken.contracts.lifecycle import Failed
from awaken.contracts.messages.content import escape_unprintable
from awaken.contracts.runs.records import RunRecord

logger = logging.getLogger("awaken.runs")
# A program that configures no logging learns of failures from its results: print nothing.
logger.addHandler(logging.NullHandler())

_REASON_CHARS = 500


def log_failure(record: RunRecord, termination: Failed) -> None:
    """Log that a run failed, and why; other ends are not logged."""
    logger.warning(
        "Run '%s' of agent '%s' on thread '%s' failed: %s: %s",
        record.run_id,
        record.agent_id,
        record.thread_id,
        termination.code,
        escape_unprintable(termination.message[:_REASON_CHARS]),
        extra={**_fields(record), "event": "run_failed", "code": termination.code},
    )


def log_recovery(record: RunRecord) -> None:
    """Log that this process continues a run that another process started."""
    logger.info(
        "Run '%s' of agent '%s' on thread '%s' goes on here after step %d: its process is gone.",
        record.run_id,
        record.agent_id,
        record.thread_id,
        record.steps,
        extra={**_fields(record), "event": "run_recovered", "steps": record.steps},
    )


def log_takeover(record: RunRecord, reason: str) -> None:
    """Log that another process has taken over a run that executed here."""
    logger.warning(
        "Run '%s' of agent '%s' on thread '%s' was taken over by another process: %s",
        record.run_id,
        record.agent_id,
        record.thread_id,
        escape_unprintable(reason),
        extra={**_fields(record), "event": "run_taken_over"},
    )


def _fields(record: RunRecord) -> dict[str, str]:
    return {
        "run_id": record.run_id,
        "thread_id": record.thread_id,
        "agent_id": record.agent_id,
    }
