/** Plans an eval: what is tried with which dataset, how often, and what it may cost; an estimate comes before anything is spent. */
import { Button, Checkbox, Fieldset, Group, NumberInput, Select, Stack, TagsInput, Text, Textarea, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { capabilitiesQuery } from "../../api/config";
import { useMay } from "../../api/caller";
import { describeError } from "../../api/errors";
import { datasetsQuery, estimateEval, evalQuery, startEval, type EvalSpec } from "../../api/evals";
import { agentsQuery } from "../../api/queries";
import { evals as texts } from "../../texts/evals";
import { ui } from "../../texts/ui";
import { FormDrawer } from "../../ui/FormDialogs";
import { OlderEvals, useEvalChoice, useEvalName } from "../../ui/evals/EvalChoice";
import { describeSpent, formatUsd } from "../../ui/evals/words";
import { isEvalId } from "../../ui/evals/ids";
import { LIVE } from "../../ui/evals/sources";
import { useSources } from "../../ui/evals/useSources";
import { formatTokens } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone } from "../../ui/notices";
import { Refusal } from "../../ui/Problems";
import { Failure, Loading } from "../../ui/states";
import { makeForm, makeVariant, readSpec, writeSpec, type EvalForm, type VariantForm } from "./spec";

/** What the address says instead of the id of an eval to run again. */
export const NEW = "+";
const TYPING_MS = 500;
const { start } = texts;

type Props = { isOpen: boolean; from: string | undefined; dataset: string | undefined; draft: string | undefined; onClose: () => void };

export function StartDrawer(props: Props) {
  const { isOpen, from, dataset, draft, onClose } = props;
  const isAgain = from !== undefined && from !== NEW;
  const before = useQuery({ ...evalQuery(from ?? ""), enabled: isAgain });
  const form = useMemo(() => (!isAgain ? makeForm(dataset ?? null, draft ?? null) : before.data === undefined ? undefined : readSpec(before.data.spec)), [isAgain, dataset, draft, before.data]);
  return (
    <FormDrawer opened={isOpen} onClose={onClose} title={start.title} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      {!isOpen ? null : before.isError ? <Failure error={before.error} /> : form === undefined ? <Loading /> : <StartForm key={from} given={form} onClose={onClose} />}
    </FormDrawer>
  );
}

type VariantProps = { form: VariantForm; no: number; agents: readonly string[]; models: readonly string[]; onChange: (next: VariantForm) => void; onRemove: (() => void) | null };

function VariantFields({ form, no, agents, models, onChange, onRemove }: VariantProps) {
  const sources = useSources(form.source);
  return (
    <Fieldset legend={start.variant(no)} p="sm">
      <Stack gap="xs">
        <Group grow gap="xs" align="flex-start" preventGrowOverflow={false}>
          <TextInput label={start.name} required miw={120} value={form.name} error={isEvalId(form.name) ? undefined : ui.none} onChange={(event) => onChange({ ...form, name: event.currentTarget.value })} />
          <Select label={start.source} miw={140} data={sources} allowDeselect={false} value={form.source} onChange={(value) => onChange({ ...form, source: value ?? LIVE })} />
          <Select label={start.agent} miw={140} data={[...agents]} searchable clearable placeholder={ui.none} title={start.agentHelp} value={form.agent} onChange={(value) => onChange({ ...form, agent: value })} />
          <Select label={start.model} miw={140} data={[...models]} searchable clearable placeholder={ui.none} value={form.model} onChange={(value) => onChange({ ...form, model: value })} />
        </Group>
        <Textarea label={start.instructions} description={start.instructionsHelp} value={form.instructions} autosize minRows={1} maxRows={8} onChange={(event) => onChange({ ...form, instructions: event.currentTarget.value })} />
        {onRemove === null ? null : <Group justify="flex-end"><Button variant="subtle" onClick={onRemove}>{start.removeVariant}</Button></Group>}
      </Stack>
    </Fieldset>
  );
}

function Estimate({ spec }: { spec: EvalSpec | null }) {
  const [asked] = useDebouncedValue(spec, TYPING_MS);
  const { data, error, isFetching } = useQuery({ queryKey: ["eval", "estimate", asked], queryFn: ({ signal }) => estimateEval(asked ?? { dataset_id: "" }, signal), enabled: asked !== null, retry: false, refetchInterval: false });
  if (asked === null) return <Text size="sm" c="dimmed">{start.needsDataset}</Text>;
  if (error !== null) return <Text size="sm" role="status">{describeError(error)}</Text>;
  if (data === undefined || isFetching) return <Text size="sm" c="dimmed" role="status" aria-busy="true">{start.estimating}</Text>;
  const range = (amount: { low: number; expected: number; high: number } | null | undefined, show: (value: number) => string) => (amount == null ? null : start.estimateRange(show(amount.low), show(amount.expected), show(amount.high)));
  const parts = [range(data.cost_usd, formatUsd), range(data.tokens, (it) => `${formatTokens(Math.round(it))} tokens`)].filter((it) => it !== null);
  const unknown = data.cases - data.known_cases;
  return (
    <Text size="sm" role="status">
      {start.estimate(data.samples, data.cases)} · {parts.length === 0 ? texts.notKnown : parts.join(" · ")} · {start.estimateFrom[data.source] ?? start.estimateEval(data.source)}
      {unknown > 0 ? ` · ${start.unknownCases(unknown)}` : ""}
    </Text>
  );
}

function StartForm({ given, onClose }: { given: EvalForm; onClose: () => void }) {
  const navigate = useNavigate();
  const [form, setForm] = useState(given);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const may = useMay();
  const { data: datasets = [] } = useQuery(datasetsQuery);
  const { data: agents = [] } = useQuery(agentsQuery);
  const { data: capabilities } = useQuery({ ...capabilitiesQuery, enabled: may("config"), retry: false });
  const nameEval = useEvalName();
  const earlier = useEvalChoice({ dataset: form.dataset ?? undefined, chosen: [form.baseline ?? undefined], isEnabled: form.dataset !== null });
  const models = (capabilities?.models ?? []).map((it) => String((it as { id?: unknown }).id ?? ""));
  const spec = useMemo(() => writeSpec(form), [form]);
  const change = (part: Partial<EvalForm>) => setForm((now) => ({ ...now, ...part }));
  const changeVariant = (at: number, next: VariantForm) => change({ variants: form.variants.map((it, index) => (index === at ? next : it)) });
  const begin = async () => {
    if (spec === null || isBusy) return;
    setBusy(true);
    setError(null);
    try {
      const record = await startEval(spec);
      noteDone(start.started);
      await navigate({ to: "/evals/$evalId", params: { evalId: record.eval_id } });
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => { event.preventDefault(); void begin(); }}>
      <Stack gap="sm">
        <Select data-autofocus label={start.dataset} description={start.datasetHelp} required withAsterisk data={datasets.map((it) => it.id)} value={form.dataset} onChange={(value) => change({ dataset: value })} />
        <Group grow gap="xs" align="flex-start">
          <Select label={start.mode} data={Object.entries(start.modes).map(([value, label]) => ({ value, label }))} allowDeselect={false} value={form.mode} onChange={(value) => change({ mode: (value ?? "live") as EvalForm["mode"] })} />
          <NumberInput label={start.repeats} description={start.repeatsHelp} min={1} max={50} maw={140} inputWrapperOrder={["label", "input", "description", "error"]} value={form.repeats} onChange={(value) => change({ repeats: String(value) })} />
        </Group>
        <Text size="sm" fw={550} component="h2">{start.variants}</Text>
        <Text size="xs" c="dimmed">{start.variantsHelp}</Text>
        {form.variants.map((it, index) => <VariantFields key={index} form={it} no={index + 1} agents={agents.map((agent) => agent.id)} models={models} onChange={(next) => changeVariant(index, next)} onRemove={form.variants.length === 1 ? null : () => change({ variants: form.variants.filter((_, at) => at !== index) })} />)}
        <Group><Button onClick={() => change({ variants: [...form.variants, makeVariant(`variant-${form.variants.length + 1}`)] })}>{start.addVariant}</Button></Group>
        <Fieldset legend={start.options} p="sm">
          <Stack gap="xs">
            <Select label={start.onMiss} description={start.onMissHelp} data={Object.entries(start.misses).map(([value, label]) => ({ value, label }))} allowDeselect={false} value={form.onMiss} onChange={(value) => change({ onMiss: value ?? "diverge" })} />
            <Select label={start.baseline} description={start.baselineHelp} placeholder={start.none} clearable searchable nothingFoundMessage={texts.choice.nothing} data={earlier.ended.filter((it) => it.status === "done" || it.status === "incomplete").map((it) => ({ value: it.eval_id, label: `${nameEval(it)} · ${describeSpent(it.spent) ?? it.status}` }))} value={form.baseline} onChange={(value) => change({ baseline: value })} />
            <OlderEvals choice={earlier} />
            <Group grow gap="xs" align="flex-start">
              <NumberInput label={start.costUsd} min={0} decimalScale={4} value={form.costUsd} onChange={(value) => change({ costUsd: String(value) })} />
              <NumberInput label={start.tokens} min={0} value={form.tokens} onChange={(value) => change({ tokens: String(value) })} />
              <NumberInput label={start.minutes} min={0} value={form.minutes} onChange={(value) => change({ minutes: String(value) })} />
            </Group>
            <TagsInput label={start.tags} value={[...form.tags]} onChange={(tags) => change({ tags })} />
            <Select label={start.judge} description={start.judgeHelp} placeholder={start.none} clearable searchable data={models} value={form.judge} onChange={(value) => change({ judge: value })} />
            <Checkbox label={start.hasDrafts} checked={form.hasDrafts} onChange={(event) => change({ hasDrafts: event.currentTarget.checked })} />
            <Checkbox label={start.stopEarly} checked={form.stopEarly} onChange={(event) => change({ stopEarly: event.currentTarget.checked })} />
          </Stack>
        </Fieldset>
        <Refusal error={error} />
        <Group justify="space-between" gap="xs">
          <Estimate spec={spec} />
          <Group gap="xs"><Button onClick={onClose}>{ui.cancel}</Button><GatedButton scope="eval" variant="filled" type="submit" loading={isBusy} reason={spec === null ? start.needsDataset : undefined} onClick={() => void begin()}>{start.begin}</GatedButton></Group>
        </Group>
      </Stack>
    </form>
  );
}
