/** Every address of the console. A page is loaded when it is first visited. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, parseSearchWith, stringifySearchWith } from "@tanstack/react-router";

import { root } from "./api/address";
import { readSearch as home } from "./pages/home/search";
import { readSearch as chat } from "./pages/chat/search";
import { readSearch as cluster } from "./pages/cluster/search";
import { readSearch as approvals } from "./pages/approvals/search";
import { readSearch as schedules } from "./pages/schedules/search";
import { readSearch as runs } from "./pages/runs/search";
import { readSearch as workflows } from "./pages/workflows/search";
import { readSearch as run } from "./pages/run/search";
import { readSearch as threads } from "./pages/threads/search";
import { readSearch as thread } from "./pages/thread/search";
import { readSearch as queue } from "./pages/queue/search";
import { readSearch as agents } from "./pages/agents/search";
import { readSearch as agent } from "./pages/agent/search";
import { readSearch as tools } from "./pages/tools/search";
import { readSearch as mcp } from "./pages/mcp/search";
import { readSearch as mcpLogin } from "./pages/mcp_login/search";
import { readSearch as skills } from "./pages/skills/search";
import { readSearch as a2a } from "./pages/a2a/search";
import { readSearch as memory } from "./pages/memory/search";
import { readSearch as models } from "./pages/models/search";
import { readSearch as datasets } from "./pages/datasets/search";
import { readSearch as dataset } from "./pages/dataset/search";
import { readSearch as evals } from "./pages/evals/search";
import { readSearch as evalOne } from "./pages/eval/search";
import { readSearch as compare } from "./pages/compare/search";
import { readSearch as lab } from "./pages/lab/search";
import { readSearch as calibration } from "./pages/calibration/search";
import { readSearch as policy } from "./pages/policy/search";
import { readSearch as cost } from "./pages/cost/search";
import { readSearch as changes } from "./pages/changes/search";
import { readSearch as audit } from "./pages/audit/search";
import { readSearch as settings } from "./pages/settings/search";
import { Frame } from "./shell/Frame";
import { NotFound } from "./shell/NotFound";
import { PageError, PagePending } from "./shell/PageError";
import { loadPart } from "./ui/loadPart";

const frame = createRootRoute({ component: Frame, notFoundComponent: NotFound, errorComponent: PageError });

const getParentRoute = () => frame;
const homeRoute = createRoute({
  getParentRoute,
  path: "/",
  validateSearch: home,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/home/HomePage")), "HomePage"),
});
const chatRoute = createRoute({
  getParentRoute,
  path: "/chat/{-$threadId}",
  validateSearch: chat,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/chat/ChatPage")), "ChatPage"),
});
const approvalsRoute = createRoute({
  getParentRoute,
  path: "/approvals",
  validateSearch: approvals,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/approvals/ApprovalsPage")), "ApprovalsPage"),
});
const schedulesRoute = createRoute({
  getParentRoute,
  path: "/schedules",
  validateSearch: schedules,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/schedules/SchedulesPage")), "SchedulesPage"),
});
const runsRoute = createRoute({
  getParentRoute,
  path: "/runs",
  validateSearch: runs,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/runs/RunsPage")), "RunsPage"),
});
const workflowsRoute = createRoute({
  getParentRoute,
  path: "/workflows",
  validateSearch: workflows,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/workflows/WorkflowsPage")), "WorkflowsPage"),
});
const runRoute = createRoute({
  getParentRoute,
  path: "/runs/$runId",
  validateSearch: run,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/run/RunPage")), "RunPage"),
});
const threadsRoute = createRoute({
  getParentRoute,
  path: "/threads",
  validateSearch: threads,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/threads/ThreadsPage")), "ThreadsPage"),
});
const threadRoute = createRoute({
  getParentRoute,
  path: "/threads/$threadId",
  validateSearch: thread,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/thread/ThreadPage")), "ThreadPage"),
});
const queueRoute = createRoute({
  getParentRoute,
  path: "/queue",
  validateSearch: queue,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/queue/QueuePage")), "QueuePage"),
});
const agentsRoute = createRoute({
  getParentRoute,
  path: "/agents",
  validateSearch: agents,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/agents/AgentsPage")), "AgentsPage"),
});
const agentRoute = createRoute({
  getParentRoute,
  path: "/agents/$agentId",
  validateSearch: agent,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/agent/AgentPage")), "AgentPage"),
});
const toolsRoute = createRoute({
  getParentRoute,
  path: "/tools",
  validateSearch: tools,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/tools/ToolsPage")), "ToolsPage"),
});
const mcpRoute = createRoute({
  getParentRoute,
  path: "/mcp",
  validateSearch: mcp,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/mcp/McpPage")), "McpPage"),
});
const mcpLoginRoute = createRoute({
  getParentRoute,
  path: "/mcp-login",
  validateSearch: mcpLogin,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/mcp_login/McpLoginPage")), "McpLoginPage"),
});
const skillsRoute = createRoute({
  getParentRoute,
  path: "/skills",
  validateSearch: skills,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/skills/SkillsPage")), "SkillsPage"),
});
const a2aRoute = createRoute({
  getParentRoute,
  path: "/a2a",
  validateSearch: a2a,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/a2a/A2aPage")), "A2aPage"),
});
const memoryRoute = createRoute({
  getParentRoute,
  path: "/memory",
  validateSearch: memory,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/memory/MemoryPage")), "MemoryPage"),
});
const modelsRoute = createRoute({
  getParentRoute,
  path: "/models",
  validateSearch: models,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/models/ModelsPage")), "ModelsPage"),
});
const datasetsRoute = createRoute({
  getParentRoute,
  path: "/datasets",
  validateSearch: datasets,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/datasets/DatasetsPage")), "DatasetsPage"),
});
const datasetRoute = createRoute({
  getParentRoute,
  path: "/datasets/$datasetId",
  validateSearch: dataset,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/dataset/DatasetPage")), "DatasetPage"),
});
const evalsRoute = createRoute({
  getParentRoute,
  path: "/evals",
  validateSearch: evals,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/evals/EvalsPage")), "EvalsPage"),
});
const evalRoute = createRoute({
  getParentRoute,
  path: "/evals/$evalId",
  validateSearch: evalOne,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/eval/EvalPage")), "EvalPage"),
});
const compareRoute = createRoute({
  getParentRoute,
  path: "/compare",
  validateSearch: compare,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/compare/ComparePage")), "ComparePage"),
});
const labRoute = createRoute({
  getParentRoute,
  path: "/lab",
  validateSearch: lab,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/lab/LabPage")), "LabPage"),
});
const calibrationRoute = createRoute({
  getParentRoute,
  path: "/calibration",
  validateSearch: calibration,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/calibration/CalibrationPage")), "CalibrationPage"),
});
const policyRoute = createRoute({
  getParentRoute,
  path: "/policy",
  validateSearch: policy,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/policy/PolicyPage")), "PolicyPage"),
});
const costRoute = createRoute({
  getParentRoute,
  path: "/cost",
  validateSearch: cost,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/cost/CostPage")), "CostPage"),
});
const changesRoute = createRoute({
  getParentRoute,
  path: "/changes",
  validateSearch: changes,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/changes/ChangesPage")), "ChangesPage"),
});
const auditRoute = createRoute({
  getParentRoute,
  path: "/audit",
  validateSearch: audit,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/audit/AuditPage")), "AuditPage"),
});
const clusterRoute = createRoute({
  getParentRoute,
  path: "/cluster",
  validateSearch: cluster,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/cluster/ClusterPage")), "ClusterPage"),
});
const settingsRoute = createRoute({
  getParentRoute,
  path: "/settings",
  validateSearch: settings,
  component: lazyRouteComponent(() => loadPart(() => import("./pages/settings/SettingsPage")), "SettingsPage"),
});

const routeTree = frame.addChildren([
  homeRoute, chatRoute, approvalsRoute, schedulesRoute, runsRoute, workflowsRoute, runRoute, threadsRoute, threadRoute, queueRoute, agentsRoute, agentRoute, toolsRoute, mcpRoute, mcpLoginRoute, skillsRoute, a2aRoute, memoryRoute, modelsRoute, datasetsRoute, datasetRoute, evalsRoute, evalRoute, compareRoute, labRoute, calibrationRoute, policyRoute, costRoute, changesRoute, auditRoute, clusterRoute, settingsRoute,
]);

export const router = createRouter({
  routeTree,
  basepath: `${root}/console`,
  defaultPreload: "intent",
  // A page that fails or does not come leaves the rail and the banners where they are.
  defaultErrorComponent: PageError,
  defaultPendingComponent: PagePending,
  scrollRestoration: true,
  // Every value in an address is a text, so that none is quoted: `?publication=5`.
  parseSearch: parseSearchWith((it) => it),
  stringifySearch: stringifySearchWith(String),
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
