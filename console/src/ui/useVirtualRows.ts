/** A long list of which only the rows in view are drawn, with a current row that keys move and open. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef, useState } from "react";

import { useKeys } from "../keys";

type Options<Row> = {
  rows: readonly Row[];
  rowPx: number;
  overscan: number;
  /** The height of what stands above the rows and stays while they scroll; rows that are positioned begin below it. */
  headPx?: number;
  onOpen?: (row: Row) => void;
  onSelect?: (row: Row) => void;
};

export function useVirtualRows<Row>({ rows, rowPx, overscan, headPx = 0, onOpen, onSelect }: Options<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState(-1);
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
    const next = Math.max(0, Math.min(rows.length - 1, current + by));
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
