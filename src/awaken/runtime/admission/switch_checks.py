"""Whether an operator's switches let a run begin or go on."""

from awaken.runtime.inference.switched_routes import enabled_routes
from awaken.runtime.run import Run


def check_switches(run: Run) -> None:
    """Refuse a run of a paused agent, and a direct one whose models are all disabled.

    A run that is about to be cancelled passes: it takes no step. A queued run whose models are
    disabled passes too, and fails when it asks one, so that its record says why.

    Raises:
        AgentPaused: The agent is paused; a dispatch for it stays queued.
        ModelDisabled: No model of the agent may be asked.
    """
    if run.token.cause is not None:
        return
    switched, agent = run.services.switches.current, run.agent
    switched.check_agent(agent.spec.id)
    if agent.is_local and not run.is_continued and not run.is_delivered:
        enabled_routes(run, agent.models, switched)
