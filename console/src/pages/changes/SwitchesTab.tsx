/** Kill switches: what is stopped now, by whom and why. */
import { Alert, Autocomplete, Button, Checkbox, Group, Modal, Select, Stack, Text, Textarea } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { useMay } from "../../api/caller";
import { api, need } from "../../api/client";
import { recordsQuery, releaseSwitch, setSwitch, SWITCH_KINDS, type Switch, type SwitchKind } from "../../api/config";
import { isConflict } from "../../api/errors";
import { agentsQuery, refreshKinds } from "../../api/queries";
import { changes as texts } from "../../texts/changes";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Age, Status } from "../../ui/parts";
import { Empty } from "../../ui/states";

const route = getRouteApi("/changes");

/** The ids that a kind of switch can name; undefined until they are known. Others are taken too, and hold once they exist. */
function useTargets(kind: SwitchKind): string[] | undefined {
  const may = useMay();
  const agents = useQuery({ ...agentsQuery, enabled: kind === "agent" });
  const models = useQuery({ queryKey: ["model", "health"], queryFn: ({ signal }) => need(api.GET("/v1/system/models", { signal })), enabled: kind === "model" });
  const namespace = kind === "provider" ? "providers" : kind === "mcp-server" ? "mcp-servers" : "tools";
  const records = useQuery({ ...recordsQuery(namespace), enabled: may("config") && ["provider", "mcp-server", "tool"].includes(kind) });
  if (kind === "agent") return agents.data?.map((it) => it.id);
  if (kind === "model") return models.data?.items.map((it) => it.model_id);
  return kind === "all" ? [] : records.data?.map((it) => it.id);
}

type DialogProps = { switches: readonly Switch[]; isOpen: boolean; onClose: () => void };

/** It stands beside the list: what others switch, which makes the list empty or fills it, closes no dialog and loses no text. */
function SetSwitch({ switches, isOpen, onClose }: DialogProps) {
  const [kind, setKind] = useState<SwitchKind>("agent");
  const [target, setTarget] = useState("");
  const [reason, setReason] = useState("");
  const targets = useTargets(kind);
  const [isMeant, setIsMeant] = useState(false);
  const id = kind === "all" ? "*" : target.trim();
  // A switch on a misspelt id stops nothing, though it says that it does.
  const isUnknown = kind !== "all" && id !== "" && targets !== undefined && !targets.includes(id);
  // A switch that is set already has a reason, which a second one replaces: it is read first.
  const seen = switches.find((it) => it.kind === kind && it.id === id);
  const isReady = id !== "" && reason.trim() !== "" && (!isUnknown || isMeant);
  const pick = (next: string) => {
    setTarget(next);
    setIsMeant(false);
  };
  const set = async () => {
    try {
      await setSwitch(kind, id, reason.trim(), seen);
      noteDone(isUnknown ? texts.switchedOffUnknown(`${kind}/${id}`) : texts.switchedOff(`${kind}/${id}`));
      onClose();
      pick("");
      setReason("");
      await refreshKinds("config", "switch", "audit", "agent");
    } catch (error) {
      noteError(error);
      if (isConflict(error)) await refreshKinds("config", "switch");
    }
  };
  return (
    <Modal opened={isOpen} onClose={onClose} title={texts.setTitle} closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); if (isReady) void set(); }}>
        <Stack gap="sm">
          <Text size="sm" c="dimmed">{texts.setHelp}</Text>
          <Select label={texts.kind} data={[...SWITCH_KINDS]} value={kind} allowDeselect={false} onChange={(value) => { setKind((value ?? "agent") as SwitchKind); pick(""); }} />
          {kind === "all" ? null : <Autocomplete label={texts.target} size="xs" data={targets ?? []} value={target} onChange={pick} error={isUnknown ? texts.unknownTarget(kind) : undefined} required data-autofocus limit={50} />}
          {isUnknown ? <Checkbox label={texts.meant} checked={isMeant} onChange={(event) => setIsMeant(event.currentTarget.checked)} /> : null}
          <Textarea label={texts.reason} description={texts.reasonHelp} value={reason} maxLength={500} autosize minRows={2} required onChange={(event) => setReason(event.currentTarget.value)} />
          {seen === undefined ? null : <Alert color="yellow" role="status" title={texts.alreadyOff(seen.by)}><Text size="sm" style={{ overflowWrap: "anywhere" }}>{seen.reason}</Text></Alert>}
          <Alert color="red">{texts.effects[kind]}</Alert>
          <Group justify="flex-end" gap="xs">
            <Button onClick={onClose}>{ui.cancel}</Button>
            <Button type="submit" variant="filled" color="red.9" disabled={!isReady}>{texts.switchOff}</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

function ReleaseButton({ it }: { it: Switch }) {
  const confirm = useConfirm();
  const name = `${it.kind}/${it.id}`;
  const release = async () => {
    if (!(await confirm({ title: texts.releaseTitle(name), body: <Text size="sm">{texts.releaseBody}</Text>, confirm: texts.release }))) return;
    try {
      await releaseSwitch(it);
      noteDone(texts.released(name));
    } catch (error) {
      noteError(error);
    }
    await refreshKinds("config", "switch", "audit", "agent");
  };
  return <GatedButton scope="operate" onClick={() => void release()}>{texts.release}</GatedButton>;
}

const COLUMNS: readonly DataColumn<Switch>[] = [
  { id: "what", header: texts.switchColumns.what, cell: (it) => <Text span size="sm" fw={550}>{it.kind}/{it.id}</Text>, sortValue: (it) => `${it.kind}/${it.id}` },
  { id: "state", header: texts.switchColumns.state, cell: (it) => <Status value={it.state === "paused" ? "paused" : "stopped"} label={it.state} />, sortValue: (it) => it.state },
  { id: "reason", header: texts.switchColumns.reason, cell: (it) => <span title={it.reason}>{it.reason}</span> },
  { id: "by", header: texts.switchColumns.by, cell: (it) => it.by, sortValue: (it) => it.by },
  { id: "at", header: texts.switchColumns.at, cell: (it) => <Age at={it.at} />, sortValue: (it) => it.at },
  { id: "release", header: texts.switchColumns.action, cell: (it) => <ReleaseButton it={it} />, isRight: true },
];

export function SwitchesTab({ switches }: { switches: readonly Switch[] }) {
  const search = route.useSearch();
  const change = useChangeSearch();
  const [isOpen, dialog] = useDisclosure(false);
  const set = <GatedButton scope="operate" variant="filled" color="red.9" onClick={dialog.open}>{texts.set}</GatedButton>;
  return (
    <>
      <DataTable
        label={texts.tabs.switches}
        rows={switches}
        columns={COLUMNS}
        rowId={(it) => `${it.kind}/${it.id}`}
        address={{ sort: search.sort, columns: search.columns }}
        onAddress={change}
        toolbar={switches.length === 0 ? undefined : set}
        empty={<Empty title={texts.emptySwitches} action={set} command={texts.switchesCommand}>{texts.emptySwitchesHelp}</Empty>}
      />
      <SetSwitch switches={switches} isOpen={isOpen} onClose={dialog.close} />
    </>
  );
}
