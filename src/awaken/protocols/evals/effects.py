"""Evals whose tools may have effects: who may start one, and what the audit keeps of it."""

import msgspec

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.evals.eval_runs import EvalSpec
from awaken.evals.preparing import prepare_eval
from awaken.evals.runner import EvalRunner
from awaken.transport.routes import Access, RouteCall


async def check_effects(call: RouteCall, runner: EvalRunner, spec: EvalSpec) -> EvalSpec:
    """Refuse effects of a caller who may not start runs, and record that they may happen.

    Returns what to create: it names the revision that was looked at, so that no newer one is
    executed, and has the terms of its gate.

    Raises:
        HttpError: The caller lacks the scope `invoke`.
        EvalError: The eval cannot be prepared.
    """
    prepared = await prepare_eval(runner.parts, spec, by=call.actor)
    # The terms of its gate may let tools have effects, too.
    spec = prepared.spec
    policies = [it.case.tools or spec.tools_or_recorded for it in prepared.cases.values()]
    checked = msgspec.structs.replace(spec, revision=prepared.revision.revision)
    if not any(it.allow_effects for it in policies):
        return checked
    call.require(Access.INVOKE)
    await call.audit(
        AuditAction.REPLAY,
        f"datasets/{spec.dataset_id}",
        mode=str(spec.mode_or_live),
        eval=spec.id or "",
    )
    return checked
