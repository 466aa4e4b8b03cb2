/** Small parts of schedules and triggers. */
import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { demo } from "../../texts/demo";
import { ui } from "../../texts/ui";
import { Age, ShortId, Status } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Tag } from "../../ui/Tag";
import classes from "./schedules.module.css";
import { describeReason, type Firing, type HookDelivery } from "./words";

/** What became of a due time or a delivery, and since when it is so. */
export function Outcome({ last, at }: { last: Firing | HookDelivery | null; at: number | undefined }) {
  if (last === null) return <Text span c="dimmed">{ui.none}</Text>;
  return <span className={classes.outcome} title={describeReason(last) || undefined}><Status value={last.outcome} /><Text span size="xs" c="dimmed"><Age at={at} /></Text></span>;
}

export function RunLink({ runId }: { runId: string | null }) {
  if (runId === null) return <>{ui.none}</>;
  return <Link to="/runs/$runId" params={{ runId }}><ShortId id={runId} /></Link>;
}

export function Facts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }) {
  return <dl className={classes.facts}>{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

/** An id with what its owner says of it. */
export function Named({ id, description, is_demo: isDemo }: { id: string; description: string; is_demo: boolean }) {
  return (
    <div className={classes.named}>
      <Text size="sm" ff="monospace" truncate title={id}><ShownText text={id} />{isDemo ? <> <Tag>{demo.tag}</Tag></> : null}</Text>
      {description === "" ? null : <Text size="xs" c="dimmed" truncate title={description}><ShownText text={description} /></Text>}
    </div>
  );
}
