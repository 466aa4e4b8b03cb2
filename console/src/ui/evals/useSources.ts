/** The configurations that a variant can run on. */
import { useQuery } from "@tanstack/react-query";

import { useIsManaged, useMay } from "../../api/caller";
import { recentPublicationsQuery } from "../../api/config";
import { draftsQuery } from "../../api/drafts";
import { evals } from "../../texts/evals";
import { LIVE } from "./sources";

const { start } = evals;

/** The choices, with the chosen one among them even if it is too old to be listed. */
export function useSources(chosen: string): { value: string; label: string }[] {
  const may = useMay();
  const isAsked = useIsManaged() && may("config");
  const { data: drafts = [] } = useQuery({ ...draftsQuery, enabled: isAsked });
  const { data: publications = [] } = useQuery({ ...recentPublicationsQuery, enabled: isAsked });
  const listed = [
    { value: LIVE, label: start.live },
    ...drafts.map((it) => ({ value: `draft:${it.id}`, label: start.draftOf(it.title || it.id) })),
    ...publications.map((it) => ({ value: `publication:${it.publication}`, label: start.publicationOf(it.publication, it.message ?? "") })),
  ];
  return listed.some((it) => it.value === chosen) ? listed : [...listed, { value: chosen, label: chosen.replace(":", " ") }];
}
