/** The pages of the rail: where they are, what they need, which key leads there. */
import {
  IconActivity, IconArrowsShuffle, IconBook2, IconBrain, IconCalendarClock, IconCheckbox, IconCoin, IconDatabase, IconFlask2, IconGavel, IconGitPullRequest, IconHistory, IconHome, IconNotebook,
  IconMessage, IconMessages, IconPlug, IconReportAnalytics, IconRobot, IconServer2, IconSettings, IconStack2, IconTool, IconTopologyStar3, type TablerIcon,
} from "@tabler/icons-react";

import type { Scope } from "./api/caller";
import type { KeyName } from "./keys";
import { shell } from "./texts/shell";

export type PageName = keyof typeof shell.pages;
export type NavigationPage = { name: PageName; path: string; icon: TablerIcon; scopes: readonly Scope[]; key?: KeyName; /** It shows what all tenants share, and so not to one of them. */ isOfServer?: boolean; /** Pages that the rail does not have, and that are reached from this one. */ also?: readonly string[] };
export type NavigationGroup = { name: keyof typeof shell.groups; pages: readonly NavigationPage[] };

export const NAVIGATION = [
  {
    name: "work",
    pages: [
      { name: "home", path: "/", icon: IconHome, scopes: ["read"], key: "goHome" },
      { name: "chat", path: "/chat", icon: IconMessage, scopes: ["read", "invoke"], key: "goChat" },
      { name: "approvals", path: "/approvals", icon: IconCheckbox, scopes: ["read"], key: "goApprovals" },
      { name: "schedules", path: "/schedules", icon: IconCalendarClock, scopes: ["read"], key: "goSchedules" },
    ],
  },
  {
    name: "observe",
    pages: [
      { name: "runs", path: "/runs", icon: IconActivity, scopes: ["read"], key: "goRuns" },
      { name: "workflows", path: "/workflows", icon: IconTopologyStar3, scopes: ["read"], key: "goWorkflows" },
      { name: "threads", path: "/threads", icon: IconMessages, scopes: ["read"], key: "goThreads" },
      { name: "queue", path: "/queue", icon: IconStack2, scopes: ["read"], key: "goQueue" },
    ],
  },
  {
    name: "build",
    pages: [
      { name: "agents", path: "/agents", icon: IconRobot, scopes: ["read"], key: "goAgents" },
      { name: "tools", path: "/tools", icon: IconTool, scopes: ["config"] },
      { name: "mcp", path: "/mcp", icon: IconPlug, scopes: ["config"] },
      { name: "skills", path: "/skills", icon: IconBook2, scopes: ["config"] },
      { name: "a2a", path: "/a2a", icon: IconArrowsShuffle, scopes: ["config"] },
      { name: "memory", path: "/memory", icon: IconNotebook, scopes: ["read"], key: "goMemory" },
      { name: "models", path: "/models", icon: IconBrain, scopes: ["read"], isOfServer: true, key: "goModels" },
    ],
  },
  {
    name: "evaluate",
    pages: [
      { name: "datasets", path: "/datasets", icon: IconDatabase, scopes: ["config"], key: "goDatasets" },
      { name: "evals", path: "/evals", icon: IconReportAnalytics, scopes: ["config"], key: "goEvals", also: ["/compare", "/calibration"] },
      { name: "lab", path: "/lab", icon: IconFlask2, scopes: ["config", "eval"], key: "goLab" },
    ],
  },
  {
    name: "govern",
    pages: [
      { name: "policy", path: "/policy", icon: IconGavel, scopes: ["config"] },
      { name: "cost", path: "/cost", icon: IconCoin, scopes: ["read"] },
      { name: "changes", path: "/changes", icon: IconGitPullRequest, scopes: ["config"], key: "goChanges" },
      { name: "audit", path: "/audit", icon: IconHistory, scopes: ["admin"] },
    ],
  },
  {
    name: "system",
    pages: [
      { name: "cluster", path: "/cluster", icon: IconServer2, scopes: ["read"], isOfServer: true },
      { name: "settings", path: "/settings", icon: IconSettings, scopes: [], key: "goSettings" },
    ],
  },
] as const satisfies readonly NavigationGroup[];

export const PAGES: readonly NavigationPage[] = NAVIGATION.flatMap((group): readonly NavigationPage[] => group.pages);
