/** The chart of the waterfall: only the rows and ticks in view are drawn. */
import { ActionIcon } from "@mantine/core";
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { IconAlertTriangle, IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { memo, useEffect, useId, useMemo, useState } from "react";

import { run as texts } from "../../texts/run";
import { formatDuration, formatOffset } from "../../ui/format";
import { useVirtualRows } from "../../ui/useVirtualRows";
import { Minimap } from "./Minimap";
import { nameSpan } from "./spanText";
import { buildAxis, listTicks, placeBar, type Axis, type SpanRow } from "./waterfall";
import classes from "./waterfall.module.css";

const TICK_LABEL_PX = 40;
const ROW_PX = 26;
const HEAD_PX = 24;
const INDENT_PX = 14;
const END_PX = 12;

type Props = {
  /** Names the chart where a page has several. */
  label?: string;
  rows: readonly SpanRow[];
  isLive: boolean;
  end: number;
  zoom: number;
  step: string | undefined;
  chosen: string | undefined;
  shownChildren: readonly string[];
  onOpen: (row: SpanRow) => void;
  onToggleChild: (runId: string, isShown: boolean) => void;
};

type LineProps = {
  row: SpanRow;
  axis: Axis;
  top: number;
  labelWidth: number;
  isCurrent: boolean;
  isChosen: boolean;
  hasShownChild: boolean;
  onOpen: (row: SpanRow) => void;
  onToggleChild: (runId: string, isShown: boolean) => void;
};

const Line = memo(function Line({ row, axis, top, labelWidth, isCurrent, isChosen, hasShownChild, onOpen, onToggleChild }: LineProps) {
  const { span } = row;
  const bar = placeBar(axis, row);
  const took = row.isOpen ? texts.waterfall.goesOn : `${span.is_estimated === true ? "≈ " : ""}${formatDuration(row.end - row.start)}`;
  const child = span.child_run_id;
  const isProblemBar = row.isProblem && span.kind !== "wait" && span.kind !== "step";
  return (
    <li className={classes.row} style={{ transform: `translateY(${top}px)`, width: labelWidth + axis.width + END_PX }} data-kind={span.kind} data-problem={row.isProblem || undefined} data-current={isCurrent || undefined} data-chosen={isChosen || undefined}>
      <div className={classes.label} style={{ width: labelWidth, paddingLeft: row.depth * INDENT_PX }}>
        {child == null ? null : (
          <ActionIcon size={24} aria-label={hasShownChild ? texts.waterfall.hideChild : texts.waterfall.showChild} aria-expanded={hasShownChild} onClick={() => onToggleChild(child, !hasShownChild)}>
            {hasShownChild ? <IconChevronDown size={13} /> : <IconChevronRight size={13} />}
          </ActionIcon>
        )}
        <button type="button" className={classes.open} aria-pressed={isChosen} title={nameSpan(span)} onClick={() => onOpen(row)}>
          {row.isProblem && span.kind !== "wait" ? <IconAlertTriangle size={13} aria-hidden style={{ flex: "none" }} /> : <i className={classes.shape} data-kind={span.kind} />}
          <span className={classes.name}>{nameSpan(span)}</span>
          {row.isProblem ? <span className="unseen">{texts.waterfall.problem}</span> : null}
          <span className={classes.took}>{took}</span>
        </button>
      </div>
      <div className={classes.track} style={{ width: axis.width + END_PX }} onClick={() => onOpen(row)} aria-hidden>
        <div className={classes.bar} data-kind={span.kind} data-problem={isProblemBar || undefined} data-open={row.isOpen || undefined} data-estimated={span.is_estimated || undefined} style={{ left: bar.x, width: bar.width }} title={`${nameSpan(span)}, ${took}`}>
          {bar.mark === null || bar.mark < 1 ? null : <div className={classes.mark} style={{ width: bar.mark }} />}
        </div>
      </div>
    </li>
  );
});

function Legend() {
  return (
    <div className={classes.legend} aria-label={texts.waterfall.legend} role="group">
      {["model", "tool", "wait"].map((it) => <span key={it}><i className={`${classes.bar} ${classes.swatch}`} data-kind={it} />{texts.waterfall.kinds[it]}</span>)}
      <span><i className={`${classes.bar} ${classes.swatch}`} data-kind="tool" data-problem />{texts.waterfall.legendProblem}</span>
    </div>
  );
}

export function WaterfallChart({ label, rows, isLive, end, zoom, step, chosen, shownChildren, onOpen, onToggleChild }: Props) {
  const id = useId();
  const { scroller, virtual, current, setCurrent } = useVirtualRows({ rows, rowPx: ROW_PX, overscan: 6, headPx: HEAD_PX, onOpen });
  const { ref: sizeRef, width: boxWidth, height: boxHeight } = useElementSize<HTMLDivElement>();
  const ref = useMergedRef(scroller, sizeRef);
  const [left, setLeft] = useState(0);
  const labelWidth = boxWidth > 0 && boxWidth < 560 ? 150 : 260;
  const room = Math.max(120, boxWidth - labelWidth - END_PX - 4);
  const axis = useMemo(() => buildAxis(rows, { width: room, zoom, isLive, end }), [rows, room, zoom, isLive, end]);
  const ticks = useMemo(() => {
    const end = axis.segments.at(-1);
    // A label at the very end would be cut off.
    return listTicks(axis, left - 200, left + room + 200).filter((it) => end === undefined || it.x <= end.x + end.width - TICK_LABEL_PX);
  }, [axis, left, room]);
  useEffect(() => {
    if (step === undefined) return;
    const index = rows.findIndex((it) => it.childOf === null && it.span.kind === "step" && String(it.span.n) === step);
    if (index < 0) return;
    setCurrent((now) => (rows[now]?.step === Number(step) ? now : index));
    virtual.scrollToIndex(index, { align: "auto" });
    // Rows that are added below do not move the view.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [step]);

  const height = Math.min(Math.max(rows.length, 3) * ROW_PX + HEAD_PX + 14, 720);
  return (
    <div>
      <div className={classes.frame}>
        <div className={classes.mapRow}><Minimap from={labelWidth - 1} to={END_PX + 4} chartId={id} rows={rows} axis={axis} left={left} shown={room} onMove={(to) => scroller.current?.scrollTo({ left: to })} /></div>
        <div ref={ref} id={id} className={classes.scroller} style={{ height: `min(${height}px, calc(100vh - 300px))`, minHeight: Math.min(height, 220) }} tabIndex={0} role="region" aria-label={label ?? texts.waterfall.chart} onScroll={(event) => setLeft(event.currentTarget.scrollLeft)}>
          <div className={classes.canvas} style={{ width: labelWidth + axis.width + END_PX, height: rows.length * ROW_PX + HEAD_PX }}>
            <div className={classes.ruler} aria-hidden>
              <div className={classes.corner} style={{ width: labelWidth }} />
              {ticks.map((it) => <span key={it.ms} className={classes.tick} style={{ left: labelWidth + it.x }}>{formatOffset(it.ms)}</span>)}
            </div>
            {axis.segments.filter((it) => it.isFold && it.x + it.width >= left - 50 && it.x <= left + room + 50).map((it) => (
              <div key={it.from} className={classes.fold} style={{ left: labelWidth + it.x, width: it.width }} title={texts.waterfall.folded(formatDuration(it.to - it.from))}>
                <span className={classes.foldLabel}>{formatDuration(it.to - it.from)}</span>
              </div>
            ))}
            <ol style={{ margin: 0, padding: 0, listStyle: "none" }} aria-label={texts.waterfall.chart}>
              {virtual.getVirtualItems().map((item) => {
                const row = rows[item.index];
                if (row === undefined) return null;
                return (
                  <Line
                    key={row.key} row={row} axis={axis} top={item.start - HEAD_PX} labelWidth={labelWidth} isCurrent={item.index === current} isChosen={row.key === chosen}
                    hasShownChild={row.span.child_run_id != null && shownChildren.includes(row.span.child_run_id)} onOpen={onOpen} onToggleChild={onToggleChild}
                  />
                );
              })}
            </ol>
          </div>
        </div>
      </div>
      <div style={{ marginTop: 6, minHeight: boxHeight === 0 ? 0 : undefined }}><Legend /></div>
    </div>
  );
}
