/** Short notices about what an action did or why it was refused. */
import { notifications } from "@mantine/notifications";

import { ApiError, describeError } from "../api/errors";
import { shell } from "../texts/shell";
import { ui } from "../texts/ui";

const closeButtonProps = { "aria-label": ui.close };

export function noteDone(message: string): void {
  notifications.show({ message, color: "teal", closeButtonProps });
}

export function noteError(error: unknown): void {
  const id = error instanceof ApiError ? error.requestId : null;
  notifications.show({ title: describeError(error), message: id === null ? undefined : shell.requestId(id), color: "red", autoClose: 10_000, closeButtonProps });
}
