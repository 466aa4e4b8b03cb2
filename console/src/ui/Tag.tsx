/** A short word in a coloured field, with the contrast that WCAG 2.2 AA asks for in both schemes. */
import type { ReactNode } from "react";

import classes from "./Tag.module.css";

export type TagColor = "gray" | "green" | "blue" | "red" | "yellow";

export function Tag({ color = "gray", children, icon }: { color?: TagColor; children: ReactNode; icon?: ReactNode }) {
  return <span className={classes.tag} data-color={color}>{icon}{children}</span>;
}
