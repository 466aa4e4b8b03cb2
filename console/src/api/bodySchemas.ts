/** The JSON Schemas of what routes take, from the server's own OpenAPI document: forms are made from them. */
import { queryOptions } from "@tanstack/react-query";

import { root } from "./address";
import { send } from "./client";
import { cutSchema, type DocumentSchemas, type Extras } from "./cutSchema";
import { readRefusal } from "./errors";
import { queryClient } from "./queries";

type Document = { components: { schemas: DocumentSchemas } };

const documentQuery = queryOptions({
  queryKey: ["system", "openapi"],
  queryFn: async ({ signal }): Promise<Document> => {
    const response = await send(new Request(`${root}/openapi.json`, { signal }));
    if (!response.ok) throw await readRefusal(response);
    return (await response.json()) as Document;
  },
  staleTime: Infinity,
  // It is large, and only its parts are kept.
  gcTime: 60_000,
  structuralSharing: false,
});

export function bodySchemaQuery(name: string, extras: Extras) {
  return queryOptions({
    queryKey: ["system", "body-schema", name],
    queryFn: async () => cutSchema((await queryClient.fetchQuery(documentQuery)).components.schemas, name, extras),
    staleTime: Infinity,
    refetchInterval: false,
    structuralSharing: false,
  });
}
