"""Questions that tools and plugins ask a model by themselves: no recording has their answers."""

from awaken.contracts.evals.errors import ReplayDiverged
from awaken.contracts.lifecycle import Failed
from awaken.runtime.run import Run

SIDE_QUESTION = "a tool asked a model by itself, and neither a recording nor a script answers that"


def refuse_side_question(run: Run) -> None:
    """End a run whose model is asked for something else than the answer of its step.

    The recorded or scripted answer of the step would answer another question.

    Raises:
        ReplayDiverged: It is.
    """
    lock = run.side_call_lock
    if lock is None or not lock.locked():
        return
    problem = f"{SIDE_QUESTION}; give a stub of the tool"
    error = ReplayDiverged(problem, step=run.step.number, kind="call")
    run.end(Failed(message=str(error), code=error.code))
    raise error
