/** The steps of a run to choose from. */
import { NavLink } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";

import classes from "./run.module.css";

type Props = { label: string; steps: readonly number[]; chosen: number; name: (step: number) => string; onChoose: (step: number) => void };

export function StepList({ label, steps, chosen, name, onChoose }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: steps.length, getScrollElement: () => scroller.current, estimateSize: () => 30, overscan: 8 });
  const index = steps.indexOf(chosen);
  useEffect(() => {
    if (index >= 0) virtual.scrollToIndex(index, { align: "auto" });
  }, [index, virtual]);
  return (
    <div ref={scroller} className={classes.stepList} tabIndex={0} role="region" aria-label={label}>
      <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map((item) => {
          const step = steps[item.index];
          if (step === undefined) return null;
          return (
            <NavLink
              key={step} component="button" type="button" label={name(step)} active={step === chosen} aria-current={step === chosen ? "step" : undefined} variant="subtle" py={0} px={10}
              style={{ position: "absolute", top: 0, left: 0, width: "100%", height: 30, transform: `translateY(${item.start}px)` }} onClick={() => onChoose(step)}
            />
          );
        })}
      </div>
    </div>
  );
}
