/** What a dataset says beside its cases: its description, scorers for every case, and its gate. */
import { Group, Stack, Switch, Text, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { formsQuery, replaceDataset, type Dataset, type ScorerSpec } from "../../api/evals";
import { datasets as texts } from "../../texts/datasets";
import { ui } from "../../texts/ui";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone } from "../../ui/notices";
import { Panel } from "../../ui/Panel";
import { Refusal } from "../../ui/Problems";
import { SchemaForm } from "../../ui/SchemaForm";
import { resolveSchema, type JsonObject, type JsonSchema } from "../../ui/schema/model";
import { Failure, Loading } from "../../ui/states";
import { useLeaveGuard } from "../../ui/useLeaveGuard";
import { listCaseScorers } from "./cases";

/** The list of scorers of a case's schema, as a form of its own. */
function cutScorers(schema: JsonSchema): JsonSchema {
  const whole = resolveSchema(schema, schema) as { properties?: Record<string, JsonSchema> };
  return { $defs: schema.$defs, type: "object", properties: { scorers: { ...whole.properties?.scorers, description: undefined } } };
}

export function SettingsTab({ dataset }: { dataset: Dataset }) {
  const forms = useQuery(formsQuery);
  const [description, setDescription] = useState(dataset.description);
  const [scorers, setScorers] = useState<JsonObject>({ scorers: dataset.scorers as unknown as JsonObject["scorers"] ?? [] });
  const [gate, setGate] = useState<JsonObject | null>(dataset.gate);
  const [isBad, setBad] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const isChanged = description !== dataset.description || JSON.stringify(gate) !== JSON.stringify(dataset.gate) || JSON.stringify(scorers.scorers ?? []) !== JSON.stringify(dataset.scorers);
  useLeaveGuard(() => isChanged, () => Promise.resolve(false));
  if (forms.isError) return <Failure error={forms.error} onRetry={() => void forms.refetch()} />;
  if (forms.data === undefined) return <Loading />;
  const known = listCaseScorers(dataset);
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      await replaceDataset(dataset.id, { description, scorers: (scorers.scorers ?? []) as unknown as readonly ScorerSpec[], gate, cases: dataset.cases }, dataset.revision);
      noteDone(texts.settings.saved);
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Stack gap="md" maw={860}>
      <Textarea label={texts.settings.about} value={description} autosize minRows={2} onChange={(event) => setDescription(event.currentTarget.value)} />
      <Panel title={texts.settings.gate} description={texts.settings.gateHelp}>
        <Stack gap="sm">
          <Switch label={texts.settings.hasGate} checked={gate !== null} onChange={(event) => setGate(event.currentTarget.checked ? { require: [{ scorer: known[0] ?? "", min_rate: 1 }] } : null)} />
          {gate === null ? null : (
            <>
              <Text size="xs" c="dimmed">{known.length === 0 ? texts.settings.noKnown : texts.settings.known(known.join(", "))}</Text>
              <SchemaForm label={texts.settings.gate} schema={forms.data.gate} value={gate} onChange={setGate} onBadText={setBad} suggestions={{ scorer: known }} />
            </>
          )}
        </Stack>
      </Panel>
      <Panel title={texts.settings.scorers} description={texts.settings.scorersHelp}>
        <SchemaForm label={texts.settings.scorers} schema={cutScorers(forms.data.case)} value={scorers} onChange={setScorers} onBadText={setBad} suggestions={{ scorer: Object.keys(forms.data.scorers) }} />
      </Panel>
      <Refusal error={error} />
      <Group justify="flex-end"><GatedButton scope="eval" variant="filled" loading={isBusy} reason={isBad ? ui.fixJson : undefined} onClick={() => void save()}>{texts.settings.save}</GatedButton></Group>
    </Stack>
  );
}
