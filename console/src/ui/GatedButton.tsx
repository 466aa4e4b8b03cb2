/** A button of an action that needs a scope: without it the button stays, cannot be pressed, and says why. */
import { Button, Tooltip, type ButtonProps } from "@mantine/core";
import type { ReactNode } from "react";

import { useIsManaged, useMay, type Scope } from "../api/caller";
import { shell } from "../texts/shell";

type Props = ButtonProps & { scope: Scope; onClick: () => void; children: ReactNode; reason?: string; title?: string; type?: "button" | "submit" };

/** `reason`: why the action is not possible now, whatever the caller may do. */
export function GatedButton({ scope, onClick, children, reason, ...rest }: Props) {
  const may = useMay();
  const isManaged = useIsManaged();
  const isOff = !isManaged && (scope === "config" || scope === "publish");
  const refusal = !may(scope) ? shell.needsScope(scope) : isOff ? shell.configOffReason : reason;
  if (refusal === undefined) return <Button {...rest} onClick={onClick}>{children}</Button>;
  return (
    <Tooltip label={refusal}>
      <Button {...rest} variant="default" data-disabled aria-disabled="true" title={refusal} onClick={(event) => event.preventDefault()}>{children}</Button>
    </Tooltip>
  );
}
