/** A page that was open while the server was updated asks for parts that are gone: it says so, and offers to load the new version. */
import { Alert, Button, Group, Text } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useEffect, useState } from "react";

import { shell } from "../texts/shell";
import { PART_GONE } from "../ui/loadPart";

/** Stands above the page, so that it says so also for parts that a page loads later than itself. */
export function NewerVersionBanner() {
  const [isMissing, setIsMissing] = useState(false);
  useEffect(() => {
    const note = () => setIsMissing(true);
    window.addEventListener(PART_GONE, note);
    return () => window.removeEventListener(PART_GONE, note);
  }, []);
  if (!isMissing) return null;
  return (
    <Alert color="yellow" radius={0} icon={<IconRefresh size={18} />} title={shell.newerTitle} role="alert">
      <Group justify="space-between" gap="sm">
        <Text size="sm">{shell.newerHelp}</Text>
        <Button variant="filled" onClick={() => window.location.reload()}>{shell.reload}</Button>
      </Group>
    </Alert>
  );
}
