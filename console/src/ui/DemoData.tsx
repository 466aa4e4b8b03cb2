/** Adds demo data to the server, or removes it whole; for callers with the scope `admin`. */
import { Button, Group, Text } from "@mantine/core";
import { queryOptions, useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { useMay } from "../api/caller";
import { api, need } from "../api/client";
import { queryClient } from "../api/queries";
import { demo as texts } from "../texts/demo";
import { shell } from "../texts/shell";
import { noteDone, noteError } from "./notices";
import { Panel } from "./Panel";

const demoQuery = queryOptions({ queryKey: ["system", "demo"], queryFn: ({ signal }) => need(api.GET("/v1/system/demo-data", { signal })) });

function useChangeDemo() {
  return useMutation({
    mutationFn: (isThere: boolean) => need(isThere ? api.DELETE("/v1/system/demo-data") : api.POST("/v1/system/demo-data")),
    onSuccess: (_, wasThere) => {
      noteDone(wasThere ? texts.removed : texts.made);
      return queryClient.invalidateQueries();
    },
    onError: noteError,
  });
}

/** Where it is shown: lists leave it out unless their address asks for it. */
const PLACES = [
  { name: "runs", to: "/runs", search: { kind: "demo" } },
  { name: "workflows", to: "/workflows", search: { kind: "demo" } },
  { name: "threads", to: "/threads", search: { demo: "true" } },
  { name: "schedules", to: "/schedules", search: { demo: "true" } },
  { name: "memory", to: "/memory", search: { whose: "project", name: "demo-data-orders" } },
  { name: "datasets", to: "/datasets", search: { demo: "true" } },
  { name: "evals", to: "/evals", search: { demo: "true" } },
] as const;

function Places() {
  const may = useMay();
  return (
    <Group gap={6} mb="sm" component="nav" aria-label={texts.places}>
      <Text size="sm">{texts.places}:</Text>
      {PLACES.filter(({ name }) => may("config") || (name !== "datasets" && name !== "evals")).map(({ name, to, search }) => (
        <Button key={name} size="compact-sm" h={26} renderRoot={(props) => <Link to={to} search={search as never} {...props} />}>{shell.pages[name]}</Button>
      ))}
    </Group>
  );
}

export function DemoData() {
  const may = useMay();
  const { data } = useQuery({ ...demoQuery, enabled: may("admin") });
  const change = useChangeDemo();
  if (data === undefined) return null;
  return (
    <Panel title={texts.title} description={texts.help}>
      {data.is_there ? <Places /> : null}
      <Button loading={change.isPending} onClick={() => change.mutate(data.is_there)}>{data.is_there ? texts.remove : texts.make}</Button>
    </Panel>
  );
}

/** The way to the demo data from a page that has nothing else to show: it is made first if it is not there. */
export function ShowDemo({ onShow }: { onShow: () => void }) {
  const may = useMay();
  const { data } = useQuery({ ...demoQuery, enabled: may("read") });
  const change = useChangeDemo();
  if (data === undefined || (!data.is_there && !may("admin"))) return null;
  const show = () => (data.is_there ? onShow() : change.mutate(false, { onSuccess: onShow }));
  return <Button variant="default" loading={change.isPending} onClick={show}>{data.is_there ? texts.show : texts.make}</Button>;
}
