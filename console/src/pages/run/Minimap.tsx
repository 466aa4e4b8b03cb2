/** The whole run in one strip, and where the part in view lies. */
import { useMemo, useRef, type KeyboardEvent, type PointerEvent } from "react";

import { run as texts } from "../../texts/run";
import { buildMinimap, joinMarks, type Axis, type SpanRow } from "./waterfall";
import classes from "./waterfall.module.css";

const PLACES = 240;
const HEIGHTS = { problem: 20, tool: 16, model: 12, step: 5, wait: 5 } as const;

type Props = { /** Where the time of the chart begins and ends beside it. */ from: number; to: number; /** The id of the chart that it moves. */ chartId: string; rows: readonly SpanRow[]; axis: Axis; left: number; shown: number; onMove: (left: number) => void };

export function Minimap({ from, to, chartId, rows, axis, left, shown, onMove }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const marks = useMemo(() => joinMarks(buildMinimap(rows, axis, PLACES)), [rows, axis]);
  const part = Math.min(1, shown / axis.width);
  const at = Math.min(1 - part, left / axis.width);
  const moveTo = (event: PointerEvent) => {
    const bounds = box.current?.getBoundingClientRect();
    if (bounds === undefined || bounds.width === 0) return;
    onMove(((event.clientX - bounds.left) / bounds.width) * axis.width - shown / 2);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -0.5, ArrowRight: 0.5, PageUp: -1, PageDown: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    onMove(left + by * shown);
  };
  return (
    <div
      ref={box} className={classes.map} style={{ marginLeft: from, marginRight: to }} role="scrollbar" aria-label={texts.waterfall.minimap} aria-orientation="horizontal" aria-controls={chartId} aria-valuemin={0} aria-valuemax={100}
      aria-valuenow={Math.round(part >= 1 ? 0 : (at / (1 - part)) * 100)} tabIndex={0} onKeyDown={onKeyDown}
      onPointerDown={(event) => { event.currentTarget.setPointerCapture(event.pointerId); moveTo(event); }} onPointerMove={(event) => { if (event.buttons === 1) moveTo(event); }}
    >
      <svg viewBox={`0 0 ${PLACES} 27`} preserveAspectRatio="none" aria-hidden>
        {marks.map((it) => <rect key={it.at} data-mark={it.mark} x={it.at} y={24 - HEIGHTS[it.mark]} width={it.length} height={HEIGHTS[it.mark]} />)}
      </svg>
      {part >= 1 ? null : <div className={classes.window} style={{ left: `${at * 100}%`, width: `${part * 100}%` }} />}
    </div>
  );
}
