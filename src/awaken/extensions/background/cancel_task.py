"""`cancel_task`: an agent cancels its own run or one of its tasks, with all descendants."""

from typing import Any

from awaken.contracts.errors import UsageError
from awaken.contracts.tasks import TaskNotFound, TaskNotOwned
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import SubRuns
from awaken.contracts.tools.tool import ExecutionFailed, ToolDescriptor, ToolEffect, ToolOutput

from .config import check_offered
from .targets import Child, Target, relation_schema, target_of

_RELATIONS = ("self", "child")


class CancelTaskTool:
    """Cancels the calling run, or one task of its thread, and all their descendants.

    The result is a receipt: `{status, root_task_id, cancelled_count, error?}`.
    """

    def __init__(self) -> None:
        self.descriptor = ToolDescriptor(
            id="cancel_task",
            name="cancel_task",
            description=(
                "Cancel the current background task, the current run outside background tasks, "
                "or one child task. Descendant tasks are cancelled together."
            ),
            parameters=_PARAMETERS,
            effect=ToolEffect.IDEMPOTENT,
        )

    def validate(self, arguments: Any) -> Target:
        """Return what to cancel.

        Raises:
            InvalidArguments: The target is missing, incomplete or unknown.
        """
        return target_of(arguments, "target", _RELATIONS)

    async def execute(self, arguments: Target, context: ToolContext) -> ToolOutput:
        """Cancel the target and return the receipt.

        Raises:
            ExecutionFailed: The call belongs to no run, so there is nothing to cancel.
        """
        check_offered("cancel_task", context)
        try:
            sub_runs = context.sub_runs
        except UsageError as error:
            raise ExecutionFailed("current_task_unavailable") from error
        if isinstance(arguments, Child):
            receipt = await _cancel_child(sub_runs, arguments.name)
        else:
            receipt = _receipt(context.run.run_id, await sub_runs.cancel_self())
        return ToolOutput(result=ToolResult.success(self.descriptor.id, receipt))


async def _cancel_child(sub_runs: SubRuns, name: str) -> dict[str, Any]:
    task = await sub_runs.find_task(name)
    if task is None or task.status.is_terminal:
        return _receipt(name, 0)
    try:
        return _receipt(task.task_id, await sub_runs.cancel_task(task.task_id))
    except (TaskNotFound, TaskNotOwned):
        return _receipt(task.task_id, 0)


def _receipt(root_task_id: str, count: int) -> dict[str, Any]:
    receipt = {"root_task_id": root_task_id, "cancelled_count": count}
    if count:
        return {"status": "accepted", **receipt}
    return {"status": "failed", **receipt, "error": "task_not_found"}


_NAME = {"type": "string", "description": "Direct child task name or task_id"}
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "target": {"oneOf": [relation_schema("self"), relation_schema("child", name=_NAME)]}
    },
    "required": ["target"],
}
