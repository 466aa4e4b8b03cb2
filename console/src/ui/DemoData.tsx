/** Adds demo data to the server, or removes it whole; for callers with the scope `admin`. */
import { Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";

import { useMay } from "../api/caller";
import { api, need } from "../api/client";
import { queryClient } from "../api/queries";
import { demo as texts } from "../texts/demo";
import { noteDone, noteError } from "./notices";
import { Panel } from "./Panel";

export function DemoData() {
  const may = useMay();
  const { data } = useQuery({ queryKey: ["system", "demo"], queryFn: ({ signal }) => need(api.GET("/v1/system/demo-data", { signal })), enabled: may("admin") });
  const change = useMutation({
    mutationFn: (isThere: boolean) => need(isThere ? api.DELETE("/v1/system/demo-data") : api.POST("/v1/system/demo-data")),
    onSuccess: (_, wasThere) => {
      noteDone(wasThere ? texts.removed : texts.made);
      return queryClient.invalidateQueries();
    },
    onError: noteError,
  });
  if (data === undefined) return null;
  return (
    <Panel title={texts.title} description={texts.help}>
      <Button loading={change.isPending} onClick={() => change.mutate(data.is_there)}>{data.is_there ? texts.remove : texts.make}</Button>
    </Panel>
  );
}
