/** Changes a part of the address of the page that is on the screen, without a new entry in the history. */
import { useNavigate } from "@tanstack/react-router";
import { useCallback } from "react";

type Change = Readonly<Record<string, string | undefined>>;

export function useChangeSearch(): (change: Change) => void {
  const navigate = useNavigate();
  return useCallback(
    (change) => void navigate({ to: ".", search: (now: Record<string, unknown>) => ({ ...now, ...change }), replace: true } as never),
    [navigate],
  );
}
