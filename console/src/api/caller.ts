/** Who the caller is, and what it may do. */
import { useQuery } from "@tanstack/react-query";

import { callerQuery, systemInfoQuery } from "./queries";

export type Scope = "read" | "invoke" | "decide" | "config" | "publish" | "operate" | "eval" | "admin";

/** Tells whether the caller has a scope; nothing is allowed until the server has answered. */
export function useMay(): (scope: Scope) => boolean {
  const { data } = useQuery(callerQuery);
  return (scope) => data?.scopes.includes(scope) ?? false;
}

/** Whether the server has managed configuration; true as long as nothing says that it has not. */
export function useIsManaged(): boolean {
  const may = useMay();
  const { data } = useQuery({ ...systemInfoQuery, enabled: may("read") });
  return data?.config_store_enabled ?? true;
}
