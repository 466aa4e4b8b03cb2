/** Every key of the console: this table binds them and makes the help. */
import { useLayoutEffect } from "react";

export type KeyGroup = "everywhere" | "go" | "lists" | "approvals" | "chat" | "run" | "calibration";
export type KeyName =
  | "palette" | "filter" | "help" | "close" | "stop" | "previousStep" | "nextStep" | "down" | "up" | "open" | "select" | "approve" | "deny" | "edit"
  | "goHome" | "goChat" | "goApprovals" | "goRuns" | "goThreads" | "goQueue" | "goAgents" | "goModels" | "goSchedules" | "goWorkflows" | "goMemory" | "goDatasets" | "goEvals" | "goLab" | "labelPass" | "labelFail" | "goChanges" | "goSettings";

type Binding = { group: KeyGroup; keys: string; does: string };

/** `mod` is Ctrl, and ⌘ on a Mac. Two keys with a space between are pressed one after the other. */
export const KEYS: Record<KeyName, Binding> = {
  palette: { group: "everywhere", keys: "mod+k", does: "Search and jump" },
  filter: { group: "everywhere", keys: "/", does: "Go to the filter of the page" },
  help: { group: "everywhere", keys: "?", does: "Show the keys" },
  close: { group: "everywhere", keys: "Escape", does: "Close what is open" },
  goHome: { group: "go", keys: "g h", does: "Home" },
  goChat: { group: "go", keys: "g c", does: "Chat" },
  goApprovals: { group: "go", keys: "g a", does: "Approvals" },
  goSchedules: { group: "go", keys: "g d", does: "Schedules and triggers" },
  goRuns: { group: "go", keys: "g r", does: "Runs" },
  goWorkflows: { group: "go", keys: "g w", does: "Workflows" },
  goThreads: { group: "go", keys: "g t", does: "Threads" },
  goQueue: { group: "go", keys: "g q", does: "Queue" },
  goAgents: { group: "go", keys: "g e", does: "Agents" },
  goMemory: { group: "go", keys: "g y", does: "Memory and knowledge" },
  goModels: { group: "go", keys: "g m", does: "Models" },
  goDatasets: { group: "go", keys: "g b", does: "Datasets" },
  goEvals: { group: "go", keys: "g v", does: "Evals" },
  goLab: { group: "go", keys: "g l", does: "Lab" },
  goChanges: { group: "go", keys: "g p", does: "Changes" },
  goSettings: { group: "go", keys: "g s", does: "Settings" },
  down: { group: "lists", keys: "j", does: "Next row" },
  up: { group: "lists", keys: "k", does: "Previous row" },
  open: { group: "lists", keys: "Enter", does: "Open the row" },
  select: { group: "lists", keys: "x", does: "Select the row" },
  approve: { group: "approvals", keys: "a", does: "Approve what is selected; asks once" },
  deny: { group: "approvals", keys: "d", does: "Deny what is selected; asks once" },
  edit: { group: "approvals", keys: "e", does: "Edit the arguments" },
  stop: { group: "chat", keys: ".", does: "Stop the run" },
  previousStep: { group: "run", keys: "[", does: "Previous step" },
  nextStep: { group: "run", keys: "]", does: "Next step" },
  labelPass: { group: "calibration", keys: "p", does: "Label the answer as passed" },
  labelFail: { group: "calibration", keys: "f", does: "Label the answer as failed" },
};

const SEQUENCE_MS = 1_000;
type Press = { key: string; at: number };
let latest: Press | null = null;
let before: Press | null = null;

/** Inputs that take no letters: a box that was just ticked leaves the keys to the page. */
const NO_TEXT = /^(checkbox|radio|button|submit|reset|range|color|file|image)$/;

function isTyping(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return !NO_TEXT.test(target.type);
  return target instanceof HTMLElement && (target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName));
}

/** A dialog has the keys for itself: what is behind it must not change while a person answers it. */
function isBehindDialog(): boolean {
  return document.querySelector('[role="dialog"][aria-modal="true"]') !== null;
}

/** Enter belongs to a button or a link that has the focus. */
function isOwnEnter(event: KeyboardEvent): boolean {
  return event.key === "Enter" && event.target instanceof Element && event.target.closest("button,a,summary,[role=menuitem],[role=option],[role=tab]") !== null;
}

/** Whether a press, after the one before, is a binding. Pure. */
export function matchesKey(keys: string, press: { key: string; ctrlKey: boolean; metaKey: boolean; altKey: boolean }, before: string | null): boolean {
  if (keys.startsWith("mod+")) return (press.ctrlKey || press.metaKey) && !press.altKey && press.key.toLowerCase() === keys.slice(4);
  if (press.ctrlKey || press.metaKey || press.altKey) return false;
  const [first, second] = keys.split(" ");
  return second === undefined ? before !== "g" && press.key === first : before === first && press.key === second;
}

/** Binds keys while a component is on the screen, from the moment it is drawn; typing into a field is left alone, and so is a dialog. */
export function useKeys(handlers: Partial<Record<KeyName, (event: KeyboardEvent) => void>>): void {
  useLayoutEffect(() => {
    const onPress = (event: KeyboardEvent) => {
      if (event.defaultPrevented || isBehindDialog() || isOwnEnter(event) || (isTyping(event.target) && !(event.ctrlKey || event.metaKey))) return;
      const first = before !== null && event.timeStamp - before.at < SEQUENCE_MS ? before.key : null;
      for (const [name, handle] of Object.entries(handlers)) {
        if (!matchesKey(KEYS[name as KeyName].keys, event, first)) continue;
        // Enter on a button or a link is the button's own.
        if (event.key === "Enter" && event.target instanceof Element && event.target.closest("button,a,summary") !== null) continue;
        event.preventDefault();
        handle(event);
        return;
      }
    };
    window.addEventListener("keydown", onPress);
    return () => window.removeEventListener("keydown", onPress);
  }, [handlers]);
}

/** Remembers the press before the current one, for bindings of two keys. Called once; it sees a press before every handler. */
export function trackPresses(): void {
  window.addEventListener(
    "keydown",
    (event) => {
      before = latest;
      latest = isTyping(event.target) ? null : { key: event.key, at: event.timeStamp };
    },
    true,
  );
}
