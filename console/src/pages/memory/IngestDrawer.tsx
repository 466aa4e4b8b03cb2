/** Adds a document to a collection: typed, or from a file. */
import { Autocomplete, Button, FileInput, Group, SegmentedControl, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";

import { api, need } from "../../api/client";
import { refreshKinds } from "../../api/queries";
import { memory as texts } from "../../texts/memory";
import { ui } from "../../texts/ui";
import { FormDrawer } from "../../ui/FormDialogs";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone } from "../../ui/notices";
import { Refusal } from "../../ui/Problems";
import { encodeBytes, guessFormat } from "./owner";

type Format = "text" | "markdown" | "pdf";
type Props = { isOpen: boolean; collection: string | undefined; collections: readonly string[]; onClose: (collection?: string) => void };

export function IngestDrawer(props: Props) {
  return (
    <FormDrawer opened={props.isOpen} onClose={() => props.onClose()} title={texts.ingest} closeButtonProps={{ "aria-label": ui.close }}>
      {props.isOpen ? <IngestForm {...props} /> : null}
    </FormDrawer>
  );
}

function IngestForm({ collection, collections, onClose }: Props) {
  const [name, setName] = useState(collection ?? "");
  const [format, setFormat] = useState<Format>("markdown");
  const [text, setText] = useState("");
  const [file, setFile] = useState<File | null>(null);
  const [title, setTitle] = useState("");
  const [source, setSource] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const takeFile = (next: File | null) => {
    setFile(next);
    if (next === null) return;
    setFormat(guessFormat(next.name));
    if (title === "") setTitle(next.name);
    if (source === "") setSource(next.name);
  };
  const reason = name.trim() === "" ? texts.needsCollection : file === null && (format === "pdf" || text.trim() === "") ? texts.needsDocument : undefined;
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      const content = file === null ? { text, data: null } : { text: null, data: encodeBytes(new Uint8Array(await file.arrayBuffer())) };
      const path = { collection: name.trim() };
      const made = await need(api.POST("/v1/knowledge/{collection}/documents", { params: { path }, body: { ...content, format, id: null, title, source } }));
      noteDone(texts.ingested(made.title || made.id, made.chunks));
      await refreshKinds("memory", "audit");
      onClose(path.collection);
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Stack gap="sm">
      <Text size="sm" c="dimmed">{texts.ingestHelp}</Text>
      <Autocomplete data-autofocus size="xs" label={texts.collection} description={texts.collectionHelp} required data={[...collections]} value={name} onChange={setName} />
      <SegmentedControl aria-label={texts.format} value={format} onChange={(next) => setFormat(next as Format)} data={Object.entries(texts.formats).map(([value, label]) => ({ value, label }))} />
      <FileInput size="xs" label={texts.file} placeholder={texts.filePlaceholder} clearable clearButtonProps={{ "aria-label": ui.clear }} value={file} onChange={takeFile} />
      {format === "pdf" || file !== null ? null : <Textarea label={texts.text} autosize minRows={6} maxRows={18} value={text} onChange={(event) => setText(event.currentTarget.value)} />}
      <TextInput label={texts.title} value={title} onChange={(event) => setTitle(event.currentTarget.value)} />
      <TextInput label={texts.source} description={texts.sourceHelp} value={source} onChange={(event) => setSource(event.currentTarget.value)} />
      <Refusal error={error} />
      <Group gap="xs" justify="flex-end">
        <Button onClick={() => onClose()}>{ui.cancel}</Button>
        <GatedButton scope="decide" variant="filled" loading={isBusy} reason={reason} onClick={() => void save()}>{texts.ingest}</GatedButton>
      </Group>
    </Stack>
  );
}
