/** The left side of the inbox: open tickets in groups, with ticks for a batch. */
import { Checkbox, Group, Text, UnstyledButton } from "@mantine/core";
import { IconHelpCircle, IconTool } from "@tabler/icons-react";
import { useEffect, useRef } from "react";

import { writeExact } from "../../api/exactJson";
import { approvals as texts } from "../../texts/approvals";
import { Age } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import classes from "./Approvals.module.css";
import { takesYes, type InboxTicket, type TicketGroup } from "./inbox";

type Props = {
  groups: readonly TicketGroup[];
  current: string | undefined;
  selected: ReadonlySet<string>;
  onOpen: (ticketId: string) => void;
  onSelect: (ticketIds: readonly string[], is: boolean) => void;
};

const PREVIEW_CHARS = 160;

/** One line about a ticket; the whole of it is on the right. */
function previewTicket(ticket: InboxTicket): string {
  const given = writeExact(ticket.arguments ?? null) ?? "";
  const text = takesYes(ticket) ? given : ticket.suspension.message || given;
  return text.length > PREVIEW_CHARS ? `${text.slice(0, PREVIEW_CHARS)} …` : text;
}

function TicketItem({ ticket, isCurrent, isSelected, onOpen, onSelect }: { ticket: InboxTicket; isCurrent: boolean; isSelected: boolean; onOpen: () => void; onSelect: () => void }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isCurrent) place.current?.scrollIntoView({ block: "nearest" });
  }, [isCurrent]);
  const Icon = takesYes(ticket) ? IconTool : IconHelpCircle;
  return (
    <div ref={place} role="listitem" className={classes.item} data-current={isCurrent || undefined} data-selected={isSelected || undefined} data-ticket={ticket.ticket_id}>
      <Checkbox mt={3} aria-label={texts.selectTicket(ticket.tool_name, ticket.ticket_id)} checked={isSelected} onChange={onSelect} />
      <UnstyledButton className={classes.open} onClick={onOpen} aria-current={isCurrent || undefined}>
        <Group gap={6} wrap="nowrap">
          <Icon size={14} aria-hidden style={{ flex: "none" }} />
          <Text span size="sm" fw={600} truncate><ShownText text={ticket.tool_name} /></Text>
          <Text span size="xs" c="dimmed" ml="auto" style={{ flex: "none" }}><Age at={ticket.created_at} /></Text>
        </Group>
        <span className={classes.preview}><ShownText text={previewTicket(ticket)} /></span>
        <Text span size="xs" c="dimmed" truncate display="block">{ticket.agentId ?? ""}</Text>
      </UnstyledButton>
    </div>
  );
}

export function TicketList({ groups, current, selected, onOpen, onSelect }: Props) {
  return (
    <div className={classes.list} role="region" aria-label={texts.list} tabIndex={0}>
      {groups.map((group) => {
        const ids = group.tickets.map((it) => it.ticket_id);
        const chosen = ids.filter((it) => selected.has(it)).length;
        return (
          <div key={group.name}>
            {group.name === "" ? null : (
              <div className={classes.group}>
                <Checkbox aria-label={texts.selectGroup(group.name)} checked={chosen === ids.length} indeterminate={chosen > 0 && chosen < ids.length} onChange={() => onSelect(ids, chosen < ids.length)} />
                <span>{group.name}</span><span>{ids.length}</span>
              </div>
            )}
            <div role="list">
              {group.tickets.map((it) => (
                <TicketItem
                  key={it.ticket_id}
                  ticket={it}
                  isCurrent={it.ticket_id === current}
                  isSelected={selected.has(it.ticket_id)}
                  onOpen={() => onOpen(it.ticket_id)}
                  onSelect={() => onSelect([it.ticket_id], !selected.has(it.ticket_id))}
                />
              ))}
            </div>
          </div>
        );
      })}
    </div>
  );
}
