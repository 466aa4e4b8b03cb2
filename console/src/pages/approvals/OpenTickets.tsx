/** The open tickets: list, card, keys, and decisions on several at once. */
import { Alert, Box, Button, Group, Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { useMay } from "../../api/caller";
import { useKeys } from "../../keys";
import { approvals as texts } from "../../texts/approvals";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DANGER_TEXT } from "../../ui/danger";
import { Filters } from "../../ui/Filters";
import { useNow } from "../../ui/parts";
import { noteDecision } from "../../ui/settling";
import { Empty, Failure, Loading } from "../../ui/states";
import { editTicket } from "../../ui/tickets/work";
import classes from "./Approvals.module.css";
import { DecideDialog, type DialogAction } from "./DecideDialog";
import { groupTickets, isGroupBy, matchesFilter, pickNext, takesYes, type InboxTicket } from "./inbox";
import { openTicketsQuery, waitingAgentsQuery } from "./queries";
import { TicketCard } from "./TicketCard";
import { TicketList } from "./TicketList";

const route = getRouteApi("/approvals");
const GROUPS = Object.entries(texts.groups).map(([value, label]) => ({ value, label }));

function useInbox() {
  const list = useQuery(openTicketsQuery);
  const { data: agents } = useQuery(waitingAgentsQuery);
  const tickets = useMemo(
    () => (list.data?.tickets ?? []).map((it): InboxTicket => ({ ...it, agentId: agents?.get(it.run_id) ?? null })),
    [list.data, agents],
  );
  return { list, tickets };
}

function NoTickets({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title={texts.emptyFiltered} />;
  const action = <Button variant="filled" renderRoot={(props) => <Link to="/chat/{-$threadId}" {...props} />}>{texts.tryIt}</Button>;
  return <Empty title={texts.empty} action={action} command={texts.command}>{texts.emptyHelp}</Empty>;
}

function SelectionBar({ tickets, onAsk, onClear }: { tickets: readonly InboxTicket[]; onAsk: (action: DialogAction["action"]) => void; onClear: () => void }) {
  const may = useMay();
  const yes = tickets.filter(takesYes).length;
  return (
    <>
      <Text size="sm" fw={500} role="status">{texts.selected(tickets.length)}</Text>
      <Tooltip label={texts.needsDecide} disabled={may("decide")}>
        <Group gap="xs">
          <Button variant="filled" disabled={!may("decide") || yes === 0} onClick={() => onAsk("resume")}>{texts.approveSelected(yes)}</Button>
          <Button c={DANGER_TEXT} disabled={!may("decide")} onClick={() => onAsk("cancel")}>{texts.denySelected(tickets.length)}</Button>
        </Group>
      </Tooltip>
      <Button variant="subtle" onClick={onClear}>{ui.unselect}</Button>
    </>
  );
}

export function OpenTickets() {
  const { ticket: opened, group, agent, tool, q } = route.useSearch();
  const change = useChangeSearch();
  const may = useMay();
  const now = useNow(60_000);
  const { list, tickets } = useInbox();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [asked, setAsked] = useState<DialogAction | null>(null);
  const [cameByItself, setCameByItself] = useState<string | undefined>(undefined);
  const navigate = useNavigate();

  const groups = useMemo(
    () => groupTickets(tickets.filter((it) => matchesFilter(it, { agent, tool, q })), isGroupBy(group) ? group : "none", now),
    [tickets, agent, tool, q, group, now],
  );
  const shown = useMemo(() => groups.flatMap((it) => it.tickets), [groups]);
  const current = tickets.find((it) => it.ticket_id === opened);
  const chosen = shown.filter((it) => selected.has(it.ticket_id));

  const open = (ticketId: string | undefined) => {
    // The first card is a step in the history, so that going back leads to the list; the next ones replace it.
    if (opened === undefined && ticketId !== undefined) void navigate({ to: "/approvals", search: (now) => ({ ...now, ticket: ticketId }) });
    else change({ ticket: ticketId });
  };
  const select = (ids: readonly string[], is: boolean) => setSelected((before) => {
    const next = new Set(before);
    for (const id of ids) if (is) next.add(id); else next.delete(id);
    return next;
  });
  const move = (by: number) => {
    const at = shown.findIndex((it) => it.ticket_id === opened);
    open(shown[at === -1 ? 0 : Math.max(0, Math.min(shown.length - 1, at + by))]?.ticket_id);
  };
  const ask = (action: DialogAction["action"]) => {
    const about = chosen.length > 0 ? chosen : current === undefined ? [] : [current];
    if (may("decide") && about.length > 0 && (action === "cancel" || about.some(takesYes))) setAsked({ action, tickets: about });
  };
  const goOn = (decided: ReadonlySet<string>) => {
    select([...decided], false);
    if (opened === undefined || !decided.has(opened)) return;
    const next = pickNext(shown, decided, opened);
    noteDecision();
    setCameByItself(next);
    open(next);
  };
  useKeys({
    down: () => move(1),
    up: () => move(-1),
    select: () => { if (opened !== undefined) select([opened], !selected.has(opened)); },
    approve: () => ask("resume"),
    deny: () => ask("cancel"),
    edit: () => { if (current !== undefined && takesYes(current)) editTicket(current); },
  });

  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading />;
  const choices = [
    { name: "group", label: texts.group, options: GROUPS, width: 120 },
    { name: "agent", label: texts.agent, options: [...new Set(tickets.flatMap((it) => it.agentId ?? []))].sort() },
    { name: "tool", label: texts.tool, options: [...new Set(tickets.map((it) => it.tool_name))].sort() },
  ];
  return (
    <Box>
      <Group gap="xs" mb="xs" mih={30} className={classes.filters} data-open={(opened !== undefined && chosen.length === 0) || undefined}>
        {chosen.length > 0 ? <SelectionBar tickets={chosen} onAsk={ask} onClear={() => setSelected(new Set())} /> : tickets.length === 0 ? null : (
          <Filters values={{ group, agent, tool, q }} onChange={change} choices={choices} text={{ name: "q", placeholder: texts.search }} />
        )}
      </Group>
      {list.data.hasMore ? <Alert color="blue" mb="xs" title={texts.moreThanShown} /> : null}
      {shown.length === 0 && opened === undefined ? <NoTickets isFiltered={tickets.length > 0} /> : (
        <div className={classes.panes} data-open={opened !== undefined || undefined}>
          <div className={classes.side}><TicketList groups={groups} current={opened} selected={selected} onOpen={open} onSelect={select} /></div>
          <div className={classes.detail}>
            {opened === undefined ? <Box className={classes.card}><Text c="dimmed" size="sm">{texts.pick}</Text></Box> : current === undefined ? <Gone onBack={() => open(undefined)} onDecided={() => change({ ticket: undefined, view: "decided" })} /> : (
              <TicketCard key={current.ticket_id} ticket={current} isFocused={cameByItself === current.ticket_id} onBack={() => open(undefined)} onDecided={(id) => goOn(new Set([id]))} />
            )}
          </div>
        </div>
      )}
      <DecideDialog asked={asked} onClose={() => setAsked(null)} onDecided={goOn} />
    </Box>
  );
}

function Gone({ onBack, onDecided }: { onBack: () => void; onDecided: () => void }) {
  return (
    <Box className={classes.card}>
      <Text size="sm">{texts.gone}</Text>
      <Group gap="xs" mt="sm"><Button onClick={onBack}>{texts.back}</Button><Button variant="subtle" onClick={onDecided}>{texts.seeDecided}</Button></Group>
    </Box>
  );
}
