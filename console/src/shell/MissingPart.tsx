/** A part of the console that cannot come into this document: the banner says why, and offers to load the page anew. */
import { Alert, Button, Group, Text } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useEffect, useState } from "react";

import { shell } from "../texts/shell";
import { PART_MISSING, type MissingPart } from "../ui/loadPart";

/** Stands above the page, so that it says so also for parts that a page loads later than itself. */
export function MissingPartBanner() {
  const [reason, setReason] = useState<MissingPart | null>(null);
  useEffect(() => {
    const note = (event: Event) => setReason((event as CustomEvent<MissingPart>).detail);
    window.addEventListener(PART_MISSING, note);
    return () => window.removeEventListener(PART_MISSING, note);
  }, []);
  if (reason === null) return null;
  const { title, help } = shell.missingPart[reason];
  return (
    <Alert color="yellow" radius={0} icon={<IconRefresh size={18} />} title={title} role="alert">
      <Group justify="space-between" gap="sm">
        <Text size="sm">{help}</Text>
        <Button variant="filled" onClick={() => window.location.reload()}>{shell.reload}</Button>
      </Group>
    </Alert>
  );
}
