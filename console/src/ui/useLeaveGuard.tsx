/** Keeps a page that has text which is not saved: it is saved before one leaves, and if it cannot be, a person is asked. */
import { Text } from "@mantine/core";
import { useBlocker } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

import { ui } from "../texts/ui";
import { useConfirm } from "./confirm";

/** `hasUnsaved` is asked when one leaves, and so must look at the latest state; `save` tells whether nothing is left to save. */
export function useLeaveGuard(hasUnsaved: () => boolean, save: () => Promise<boolean>): void {
  const confirm = useConfirm();
  const latest = useRef({ hasUnsaved, save });
  useEffect(() => { latest.current = { hasUnsaved, save }; });
  useBlocker({
    shouldBlockFn: async ({ current, next }) => {
      // Tabs and filters of a page are addresses too.
      if (current.pathname === next.pathname || !latest.current.hasUnsaved()) return false;
      if (await latest.current.save()) return false;
      return !(await confirm({ title: ui.leaveTitle, body: <Text size="sm">{ui.leaveBody}</Text>, confirm: ui.leave, isDangerous: true }));
    },
    enableBeforeUnload: () => latest.current.hasUnsaved(),
  });
}
