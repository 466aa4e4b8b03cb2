"""Resets runs of workflows to an earlier step."""

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.record import StrictRecord
from awaken.mailbox.workflow_runs import plan_reset, reset_run
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall

from .context import OperatorContext


class ResetRun(StrictRecord, frozen=True, kw_only=True):
    """The step that a run is reset to."""

    step: str | None = None
    """Its path: it and every later step are taken again. Absent: the function is entered again."""
    is_dry: bool = False
    """Whether only to show what would be taken back."""


class ResetRoutes:
    """Lets workflows take steps again."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def reset(self, call: RouteCall) -> Reply:
        """Let a workflow that waits take a step and all later ones again; lists their effects."""
        asked: ResetRun = call.body
        control = self._context.services.control
        run = await call.view.stored_run(call.path["run_id"])
        plan = await plan_reset(control.mailbox.services, run, asked.step)
        if not asked.is_dry:
            await self._context.audit(
                call,
                AuditAction.RESET,
                f"runs/{run.run_id}",
                before={"steps": list(plan.steps)},
                after={"step": plan.step, "effects": list(plan.effects)},
            )
            await reset_run(control.mailbox.services, run, plan)
            control.start_queued()
        return as_json(plan, 200 if asked.is_dry else 202)
