/** Who the caller is, and what it may do. */
import { useQuery } from "@tanstack/react-query";

import { callerQuery } from "./queries";

export type Scope = "read" | "invoke" | "decide" | "config" | "publish" | "operate" | "eval" | "admin";

/** Tells whether the caller has a scope; nothing is allowed until the server has answered. */
export function useMay(): (scope: Scope) => boolean {
  const { data } = useQuery(callerQuery);
  return (scope) => data?.scopes.includes(scope) ?? false;
}
