/** The menu of saved views: use, save, remove, export, import. */
import { ActionIcon, Button, Group, Menu, Modal, Stack, TextInput } from "@mantine/core";
import { IconBookmark, IconDownload, IconPlus, IconTrash, IconUpload } from "@tabler/icons-react";
import { useRef, useState } from "react";

import { runs as texts } from "../../texts/runs";
import { ui } from "../../texts/ui";
import { noteDone, noteError } from "../../ui/notices";
import { FILTERS, type RunsSearch } from "./search";
import { parseViews, useViews, writeViews } from "./views";

function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}

const NOTHING: RunsSearch = Object.fromEntries([...FILTERS, "sort", "columns"].map((it) => [it, undefined]));

export function SavedViews({ search, onUse }: { search: RunsSearch; onUse: (search: RunsSearch) => void }) {
  const { views, add, remove } = useViews();
  const [isNaming, setIsNaming] = useState(false);
  const [name, setName] = useState("");
  const file = useRef<HTMLInputElement>(null);
  const save = () => {
    const given = name.trim();
    if (given === "") return;
    add([{ name: given, search }]);
    setIsNaming(false);
    setName("");
    noteDone(texts.views.saved(given));
  };
  const importFile = async (chosen: File | undefined) => {
    if (chosen === undefined) return;
    try {
      const added = parseViews(await chosen.text());
      add(added);
      noteDone(texts.views.imported(added.length));
    } catch (error) {
      noteError(error);
    }
  };
  return (
    <>
      <Menu position="bottom-end" width={260}>
        <Menu.Target><Button leftSection={<IconBookmark size={14} />}>{texts.views.menu}</Button></Menu.Target>
        <Menu.Dropdown>
          {views.length === 0 ? <Menu.Label>{texts.views.none}</Menu.Label> : null}
          {views.map((it) => (
            <Group key={it.name} gap={2} wrap="nowrap">
              <Menu.Item onClick={() => onUse({ ...NOTHING, ...it.search })}>{it.name}</Menu.Item>
              <ActionIcon aria-label={texts.views.remove(it.name)} onClick={() => remove(it.name)}><IconTrash size={14} /></ActionIcon>
            </Group>
          ))}
          <Menu.Divider />
          <Menu.Item leftSection={<IconPlus size={14} />} onClick={() => setIsNaming(true)}>{texts.views.save}</Menu.Item>
          <Menu.Item leftSection={<IconDownload size={14} />} disabled={views.length === 0} onClick={() => download("awaken-run-views.json", writeViews(views))}>{texts.views.export}</Menu.Item>
          <Menu.Item leftSection={<IconUpload size={14} />} onClick={() => file.current?.click()}>{texts.views.import}</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <input ref={file} type="file" accept="application/json,.json" hidden aria-label={texts.views.import} onChange={(event) => { void importFile(event.currentTarget.files?.[0]); event.currentTarget.value = ""; }} />
      <Modal opened={isNaming} onClose={() => setIsNaming(false)} title={texts.views.save} closeButtonProps={{ "aria-label": ui.close }}>
        <Stack component="form" gap="md" onSubmit={(event: React.FormEvent) => { event.preventDefault(); save(); }}>
          <TextInput label={texts.views.name} value={name} onChange={(event) => setName(event.currentTarget.value)} data-autofocus maxLength={60} />
          <Group justify="flex-end" gap="xs"><Button onClick={() => setIsNaming(false)}>{ui.cancel}</Button><Button type="submit" variant="filled" disabled={name.trim() === ""}>{texts.views.saveIt}</Button></Group>
        </Stack>
      </Modal>
    </>
  );
}
