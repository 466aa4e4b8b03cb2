/** Texts of the first page. */
export const home = {
  calm: "Nothing needs a person.",
  looking: "Looking for what needs a person…",
  attention: "Needs a person",
  facts: { tickets: "what waits for an answer", dead: "dead letters", models: "the state of models", workers: "the state of the processes", head: "what is live", day: "runs that failed" },
  healthy: "Healthy",
  degraded: "Degraded",
  unhealthy: "Not healthy",
  component: (name: string, state: string) => `${name}: ${state}`,
  needs: {
    approvals: (count: number) => `${count} ${count === 1 ? "question waits" : "questions wait"} for an answer`,
    oldest: (age: string) => (age === "now" ? "the oldest came just now" : `oldest ${age}`),
    dead: (count: string) => (count === "1" ? "1 dead letter" : `${count} dead letters`),
    outbox: (count: string) => (count === "1" ? "1 outbox command was given up" : `${count} outbox commands were given up`),
    breakers: (names: string) => `Breaker open: ${names}`,
    failed: (count: number) => `${count} ${count === 1 ? "run" : "runs"} failed in 24 hours`,
    unknown: (what: string) => `Not known: ${what}`,
    switches: (names: string) => `Switched off: ${names}`,
    worker: (id: string, problem: string) => `Worker ${id}: ${problem}`,
    degraded: (parts: string) => `The server works, but slower than it should: ${parts}`,
    unhealthy: (parts: string) => `The server is not healthy: ${parts}`,
  },
  now: "Runs now",
  running: "running",
  waiting: "waiting",
  queued: "queued",
  lastDay: "Last 24 hours",
  ended: "ended",
  failed: "failed",
  all: "started",
  spend: "Spend today",
  noPrice: "no price set",
  spendRuns: (count: string) => `${count} ${count === "1" ? "run" : "runs"}`,
  budgets: (count: number) => `${count} ${count === 1 ? "budget" : "budgets"}`,
  noBudgets: "no budget set",
  budgetUsed: (used: string, limit: string) => `${used} of ${limit}`,
  approvals: "Approvals",
  open: "open",
  deadLetters: "Dead letters",
  outboxCount: (count: string) => `outbox ${count}`,
  models: "Models",
  modelsHealthy: "no breaker open",
  modelsOpen: (names: string) => `open: ${names}`,
  workers: "Processes",
  slots: (running: number, slots: number) => `${running} of ${slots} slots`,
  head: "Live publication",
  code: "code only",
  live: "live",
  canary: "canary",
  publications: "Last publications",
  noPublications: "Nothing was published yet: agents run as the code has them.",
  recent: "Latest runs",
  firstTitle: "Three ways to begin",
  firstHelp: "This server is ready. Nothing has run here yet.",
  chatTitle: "Talk to an agent now",
  chatHelp: "Pick one of the agents that this server has. The demo needs no key and shows tools, consent, reasoning and interfaces.",
  chatAction: "Start a chat",
  chatAgents: "Or with one of them:",
  moreAgents: (count: number) => `${count} more`,
  connectTitle: "Connect a client",
  connectHelp: "The same agents over every protocol. Copy, run, and the answer streams.",
  makeTitle: "Make your own agent",
  makeHelp: "Save this as agent.py and serve it:",
  makeAction: "Or make one here",
  /** The port of this server is taken. */
  command: (port: number) => `awaken serve agent.py --port ${port}`,
  commandHelp: "In a checkout the command is .venv/bin/awaken.",
  hideFirst: "Hide these cards",
  agentFile: `from awaken import Agent, tool


@tool(effect="none")
async def get_weather(location: str) -> str:
    """Current weather in a place.

    Args:
        location: The place's name.
    """
    return f"sunny in {location}"


assistant = Agent("assistant", model="scripted", instructions="Be brief.", tools=[get_weather])`,
} as const;
