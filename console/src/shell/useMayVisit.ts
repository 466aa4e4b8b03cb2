/** Which pages a caller can use; the others are not offered. */
import { useQuery } from "@tanstack/react-query";

import { useMay } from "../api/caller";
import { callerQuery } from "../api/queries";
import type { NavigationPage } from "../navigation";

export function useMayVisit(): (page: NavigationPage) => boolean {
  const may = useMay();
  const { data } = useQuery(callerQuery);
  return ({ scopes, isOfServer }) => scopes.every(may) && !(isOfServer === true && (data?.tenant_id ?? null) !== null);
}
