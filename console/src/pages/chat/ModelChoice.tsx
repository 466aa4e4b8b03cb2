/** The model that answers in this conversation, in place of the agent's own: only models of the same provider can. */
import { Select, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { useMay } from "../../api/caller";
import { chat as texts } from "../../texts/chat";
import { shell } from "../../texts/shell";
import { modelsQuery } from "./requests";

const OWN = "";
type Props = { agent: string; publication: number | undefined; model: string | undefined; onModel: (model: string | undefined) => void };

export function ModelChoice({ agent, publication, model, onModel }: Props) {
  const isAllowed = useMay()("config");
  const { data } = useQuery({ ...modelsQuery(agent, publication), enabled: isAllowed && agent !== "" });
  const others = (data?.items ?? []).filter((it) => !it.is_own);
  const isOffered = others.length > 0 || model !== undefined;
  const reason = isAllowed ? texts.noOtherModels : shell.needsScope("config");
  const own = data === undefined ? texts.ownModel : texts.ownModelNamed(data.model);
  const options = [{ value: OWN, label: own }, ...others.map((it) => ({ value: it.id, label: it.id }))];
  // A model that the address names and the server does not offer stays visible: the run says why it is refused.
  if (model !== undefined && !others.some((it) => it.id === model)) options.push({ value: model, label: model });
  return (
    <Tooltip label={isOffered ? texts.modelHelp : reason}>
      <Select
        aria-label={texts.model} data={options} value={model ?? OWN} allowDeselect={false} searchable={others.length > 8} w={170}
        disabled={!isAllowed || !isOffered} onChange={(value) => onModel(value === null || value === OWN ? undefined : value)}
      />
    </Tooltip>
  );
}
