/** A long list of which only the rows in view are drawn, with a current row that keys move and open. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useMemo, useRef, useState } from "react";

import { useKeys } from "../keys";

type Options<Row> = {
  rows: readonly Row[];
  /** What makes a row the same one after rows came or went; without it rows only come at the end. */
  rowKey?: (row: Row) => string;
  rowPx: number;
  overscan: number;
  /** The height of what stands above the rows and stays while they scroll; rows that are positioned begin below it. */
  headPx?: number;
  onOpen?: (row: Row) => void;
  onSelect?: (row: Row) => void;
};

type Chosen = { index: number; key: string | null };
const NONE: Chosen = { index: -1, key: null };

/** Where the chosen row is now; -1 if it is not among the rows any more, so that no key acts on another one. */
export function findChosen<Row>(rows: readonly Row[], { index, key }: Chosen, rowKey: ((row: Row) => string) | undefined): number {
  if (rowKey === undefined || key === null) return index;
  const there = rows[index];
  return there !== undefined && rowKey(there) === key ? index : rows.findIndex((it) => rowKey(it) === key);
}

export function useVirtualRows<Row>({ rows, rowKey, rowPx, overscan, headPx = 0, onOpen, onSelect }: Options<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState<Chosen>(NONE);
  const current = useMemo(() => findChosen(rows, chosen, rowKey), [rows, chosen, rowKey]);
  const setCurrent = useCallback((next: number | ((now: number) => number)) => {
    setChosen((now) => {
      const index = typeof next === "function" ? next(findChosen(rows, now, rowKey)) : next;
      const row = rows[index];
      return { index, key: row === undefined ? null : (rowKey?.(row) ?? null) };
    });
  }, [rows, rowKey]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowPx,
    overscan,
    // Rows that come late by a frame cost less than a scroll that waits for React.
    useFlushSync: false,
    scrollMargin: headPx,
    scrollPaddingStart: headPx,
  });
  const move = (by: number) => {
    // A row that went away leaves its place to go on from.
    const from = current === -1 && chosen.index !== -1 ? chosen.index - (by > 0 ? 1 : 0) : current;
    const next = Math.max(0, Math.min(rows.length - 1, from + by));
    setCurrent(next);
    virtual.scrollToIndex(next);
  };
  const act = (does: ((row: Row) => void) | undefined) => {
    const row = rows[current];
    if (row !== undefined) does?.(row);
  };
  useKeys({ down: () => move(1), up: () => move(-1), open: () => act(onOpen), select: () => act(onSelect) });
  return { scroller, virtual, current, setCurrent };
}
