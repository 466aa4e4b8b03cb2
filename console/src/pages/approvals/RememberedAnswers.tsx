/** Answers that hold for later calls, and taking them back. */
import { Button, Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import type { Schemas } from "../../api/client";
import { useMay } from "../../api/caller";
import { approvals as texts } from "../../texts/approvals";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { noteDone, noteError } from "../../ui/notices";
import { Age, ShortId, Status } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading } from "../../ui/states";
import { forgetAnswer, rememberedQuery } from "./queries";

type Answer = Schemas["AnswerView"];
const route = getRouteApi("/approvals");

function useForget(threadId: string | undefined): (answer: Answer) => Promise<void> {
  const confirm = useConfirm();
  return async (answer) => {
    if (!(await confirm({ title: texts.forgetTitle, body: <Text size="sm">{texts.forgetBody(answer.tool)}</Text>, confirm: texts.forget, isDangerous: true }))) return;
    try {
      await forgetAnswer(answer.id, threadId);
      noteDone(texts.forgotten);
    } catch (error) {
      noteError(error);
    }
  };
}

export function RememberedAnswers() {
  const { thread, sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const may = useMay();
  const list = useQuery(rememberedQuery(thread));
  const forget = useForget(thread);
  const isAllowed = may("decide");
  const shownColumns = useMemo((): readonly DataColumn<Answer>[] => [
    { id: "behavior", header: texts.columns.behavior, cell: (it) => <Status value={it.behavior === "allow" ? "ok" : "failed"} label={texts.behaviors[it.behavior]} />, sortValue: (it) => it.behavior },
    { id: "tool", header: texts.columns.tool, cell: (it) => <Text span size="sm" ff="monospace"><ShownText text={it.tool} /></Text>, sortValue: (it) => it.tool },
    { id: "pattern", header: texts.columns.pattern, cell: (it) => <Text span size="sm" ff="monospace"><ShownText text={it.pattern} /></Text> },
    { id: "scope", header: texts.columns.scope, cell: (it) => texts.scopes[it.scope] ?? it.scope, sortValue: (it) => it.scope },
    { id: "by", header: texts.columns.by, cell: (it) => it.decided_by ?? ui.none, sortValue: (it) => it.decided_by },
    { id: "when", header: texts.columns.when, cell: (it) => <Age at={it.decided_at} />, sortValue: (it) => it.decided_at },
    { id: "run", header: texts.columns.run, cell: (it) => <Link to="/runs/$runId" params={{ runId: it.run_id }}><ShortId id={it.run_id} /></Link> },
    { id: "forget", header: texts.forget, cell: (it) => <Tooltip label={texts.needsDecide} disabled={isAllowed}><Button disabled={!isAllowed} onClick={() => void forget(it)}>{texts.forget}</Button></Tooltip> },
  ], [isAllowed, forget]);
  if (list.isPending) return <Loading />;
  const toolbar = <Filters values={{ thread }} onChange={change} text={{ name: "thread", placeholder: texts.threadFilter }} />;
  if (list.isError) return <>{toolbar}<Failure error={list.error} onRetry={() => void list.refetch()} /></>;
  return (
    <DataTable
      label={texts.views.remembered}
      rows={list.data}
      columns={shownColumns}
      rowId={(it) => it.id}
      address={{ sort, columns }}
      onAddress={change}
      toolbar={toolbar}
      empty={<Empty title={texts.rememberedEmpty} command={texts.rememberedCommand}>{texts.rememberedHelp}</Empty>}
    />
  );
}
