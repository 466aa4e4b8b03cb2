"""The agent's own checks of its final answer."""

import logging
from collections.abc import Sequence

from awaken.authoring.functions import is_interruption
from awaken.authoring.validators import BoundValidator, OutputRejected, ValidatorFailed
from awaken.contracts.lifecycle import Failed
from awaken.redaction import make_loggable
from awaken.runtime.run import Run

from .instructions import build_run_context

logger = logging.getLogger(__name__)


async def validate_output(
    run: Run, validators: Sequence[BoundValidator]
) -> OutputRejected | Failed | None:
    """Ask every validator; return why the first one refuses the output or has failed, else None."""
    # Validators are foreign code: the answer is durable before they run.
    await run.flush()
    agent, limit = run.agent, run.services.limits.hook_ms / 1000
    output, run.output = run.output, None
    context = build_run_context(run, agent)
    for validator in validators:
        try:
            await validator.check(context, output, limit)
        except OutputRejected as refusal:
            return refusal
        except BaseException as error:
            if is_interruption(error):
                raise
            logger.warning("Validator %r failed.", validator.name, exc_info=make_loggable(error))
            # Clients read it: what the validator said of the host is in the log only.
            problem, agent_id = f"it raised {type(error).__name__}", agent.spec.id
            failed = ValidatorFailed(name=validator.name, agent_id=agent_id, problem=problem)
            return Failed(message=str(failed), code=failed.code)
    run.output = output
    return None
