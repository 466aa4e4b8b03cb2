/** The turns of a conversation: only those in view are drawn; the end stays in view while the person is there. */
import { Button } from "@mantine/core";
import { IconArrowDown } from "@tabler/icons-react";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";

import { chat as texts } from "../../texts/chat";
import classes from "./Chat.module.css";
import type { Conversation as Shown, PendingTurn, Turn } from "./fold";
import { collectInterfaces } from "./generated/interfaces";
import { TurnView, type TurnActions } from "./TurnView";
import type { Ticket } from "./types";

type Props = { conversation: Shown; tickets: readonly Ticket[]; edits: ReadonlyMap<string, unknown>; actions: TurnActions; label: string; hasEarlier: boolean; onEarlier: () => void; empty: ReactNode };
type Item = { turn: Turn | PendingTurn; isOpen: boolean };

/** What is shown, in order. The open step is skipped while the store's copy of it is there. */
function listItems({ turns, open, pending }: Shown): Item[] {
  const items: Item[] = turns.map((turn) => ({ turn, isOpen: false }));
  if (open !== null && !turns.some((it) => it.id === open.id)) items.push({ turn: open, isOpen: true });
  return [...items, ...pending.map((turn) => ({ turn, isOpen: false }))];
}

const NEAR_PX = 60;

export function Conversation({ conversation, tickets, edits, actions, label, hasEarlier, onEarlier, empty }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const [isAway, setIsAway] = useState(false);
  const items = listItems(conversation);
  const { turns, open } = conversation;
  const interfaces = useMemo(() => collectInterfaces(open === null || open.calls.length === 0 ? turns : [...turns, open]), [turns, open]);
  const list = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 90,
    getItemKey: (index) => items[index]?.turn.id ?? index,
    overscan: 6,
  });
  const height = list.getTotalSize();
  const toEnd = () => {
    const box = scroller.current;
    if (box !== null) box.scrollTop = box.scrollHeight;
  };
  useLayoutEffect(() => {
    if (isAtEnd.current) toEnd();
  }, [height, items.length]);
  useEffect(() => {
    // A message of one's own brings the end into view.
    if (conversation.pending.length > 0) toEnd();
  }, [conversation.pending.length]);
  const first = items[0]?.turn.id;
  const firstBefore = useRef(first);
  useLayoutEffect(() => {
    // Earlier messages come above what the person reads, which stays where it is.
    const place = firstBefore.current === undefined || firstBefore.current === first ? 0 : items.findIndex((it) => it.turn.id === firstBefore.current);
    firstBefore.current = first;
    if (place > 0) list.scrollToIndex(place, { align: "start" });
  });
  const onScroll = () => {
    const box = scroller.current;
    if (box === null) return;
    isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    setIsAway(!isAtEnd.current);
  };
  return (
    <div className={classes.middle}>
      <div ref={scroller} className={classes.scroll} onScroll={onScroll} tabIndex={0} role="log" aria-live="off" aria-label={label}>
        {hasEarlier ? <div style={{ textAlign: "center", padding: 8 }}><Button onClick={onEarlier}>{texts.earlier}</Button></div> : null}
        {items.length === 0 ? empty : (
          <div className={classes.list} style={{ height }}>
            {list.getVirtualItems().map((row) => {
              const item = items[row.index];
              return item === undefined ? null : (
                <div key={row.key} data-index={row.index} ref={list.measureElement} className={classes.item} style={{ transform: `translateY(${row.start}px)` }}>
                  <TurnView turn={item.turn} isOpen={item.isOpen} tickets={tickets} edits={edits} interfaces={interfaces} actions={actions} />
                </div>
              );
            })}
          </div>
        )}
      </div>
      {isAway ? <Button className={classes.toEnd} leftSection={<IconArrowDown size={14} />} onClick={toEnd}>{texts.toEnd}</Button> : null}
    </div>
  );
}
