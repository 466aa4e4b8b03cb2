/** Says that the server cannot be reached; a banner, because it is a state and not an event. */
import { Alert } from "@mantine/core";
import { IconPlugConnectedX } from "@tabler/icons-react";
import { useEffect } from "react";

import { useIsReachable } from "../api/connection";
import { queryClient } from "../api/queries";
import { shell } from "../texts/shell";

const ASK_AGAIN_MS = 2_000;

export function OfflineBanner() {
  const isReachable = useIsReachable();
  useEffect(() => {
    if (isReachable) return;
    const timer = setInterval(() => void queryClient.invalidateQueries(), ASK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [isReachable]);
  if (isReachable) return null;
  return <Alert color="red" variant="filled" radius={0} icon={<IconPlugConnectedX size={18} />} role="alert">{shell.unreachable}</Alert>;
}
