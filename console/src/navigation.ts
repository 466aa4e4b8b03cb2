/** The pages of the rail: where they are, what they need, which key leads there. */
import {
  IconActivity, IconArrowsShuffle, IconBook2, IconBrain, IconCheckbox, IconCoin, IconGavel, IconGitPullRequest, IconHistory, IconHome,
  IconMessage, IconMessages, IconPlug, IconRobot, IconServer2, IconSettings, IconStack2, IconTool, type TablerIcon,
} from "@tabler/icons-react";

import type { Scope } from "./api/caller";
import type { KeyName } from "./keys";
import { shell } from "./texts/shell";

export type PageName = keyof typeof shell.pages;
export type NavigationPage = { name: PageName; path: string; icon: TablerIcon; scope: Scope; key?: KeyName };
export type NavigationGroup = { name: keyof typeof shell.groups; pages: readonly NavigationPage[] };

export const NAVIGATION = [
  {
    name: "work",
    pages: [
      { name: "home", path: "/", icon: IconHome, scope: "read", key: "goHome" },
      { name: "chat", path: "/chat", icon: IconMessage, scope: "invoke", key: "goChat" },
      { name: "approvals", path: "/approvals", icon: IconCheckbox, scope: "read", key: "goApprovals" },
    ],
  },
  {
    name: "observe",
    pages: [
      { name: "runs", path: "/runs", icon: IconActivity, scope: "read", key: "goRuns" },
      { name: "threads", path: "/threads", icon: IconMessages, scope: "read", key: "goThreads" },
      { name: "queue", path: "/queue", icon: IconStack2, scope: "read", key: "goQueue" },
    ],
  },
  {
    name: "build",
    pages: [
      { name: "agents", path: "/agents", icon: IconRobot, scope: "read", key: "goAgents" },
      { name: "tools", path: "/tools", icon: IconTool, scope: "config" },
      { name: "mcp", path: "/mcp", icon: IconPlug, scope: "config" },
      { name: "skills", path: "/skills", icon: IconBook2, scope: "config" },
      { name: "a2a", path: "/a2a", icon: IconArrowsShuffle, scope: "config" },
      { name: "models", path: "/models", icon: IconBrain, scope: "read", key: "goModels" },
    ],
  },
  {
    name: "govern",
    pages: [
      { name: "policy", path: "/policy", icon: IconGavel, scope: "config" },
      { name: "cost", path: "/cost", icon: IconCoin, scope: "read" },
      { name: "changes", path: "/changes", icon: IconGitPullRequest, scope: "config", key: "goChanges" },
      { name: "audit", path: "/audit", icon: IconHistory, scope: "admin" },
    ],
  },
  {
    name: "system",
    pages: [
      { name: "workers", path: "/workers", icon: IconServer2, scope: "read" },
      { name: "settings", path: "/settings", icon: IconSettings, scope: "read", key: "goSettings" },
    ],
  },
] as const satisfies readonly NavigationGroup[];

export const PAGES: readonly NavigationPage[] = NAVIGATION.flatMap((group): readonly NavigationPage[] => group.pages);
