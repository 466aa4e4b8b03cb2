"""Tasks as their owners see them, from the records of their runs."""

from awaken.contracts.identity import RunIdentity
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.outbox import task_error, task_result
from awaken.contracts.tasks import SUB_AGENT, TaskInfo, TaskRecord, TaskStatus, task_status


def task_record(record: RunRecord) -> TaskRecord:
    """Return the task that a run executes."""
    task = record.task or TaskInfo()
    termination = record.termination
    status = TaskStatus.RUNNING if termination is None else task_status(termination)
    is_over = status.is_terminal
    return TaskRecord(
        task_id=record.run_id,
        owner_thread_id=record.parent_thread_id or "",
        status=status,
        name=task.name,
        description=task.description,
        task_type=task.task_type,
        fate=task.fate,
        agent_id=record.agent_id if task.task_type == SUB_AGENT else None,
        parent_run_id=record.parent_run_id,
        parent_call_id=record.parent_tool_call_id,
        parent_task_id=task.parent_task_id,
        result=task_result(record) if is_over else None,
        error=task_error(record, status) if is_over else None,
        created_at=record.created_at,
        completed_at=record.finished_at,
    )


def build_deleted_task(
    owner: RunIdentity, call_id: str, task_id: str, task: TaskInfo
) -> TaskRecord:
    """Return a task of which no record is left, because its thread was deleted."""
    return TaskRecord(
        task_id=task_id,
        owner_thread_id=owner.thread_id,
        status=TaskStatus.FAILED,
        name=task.name,
        description=task.description,
        task_type=task.task_type,
        fate=task.fate,
        parent_run_id=owner.run_id,
        parent_call_id=call_id,
        parent_task_id=task.parent_task_id,
        error="The thread of the task was deleted.",
    )
