/** Questions before an action that cannot be taken back: they say what will happen, and wait for a person. */
import { Button, Group, Modal, Stack } from "@mantine/core";
import { createContext, use, useCallback, useMemo, useState, type ReactNode } from "react";

import { ui } from "../texts/ui";

type Question = { title: string; body: ReactNode; confirm?: string; isDangerous?: boolean };
type Ask = (question: Question) => Promise<boolean>;

const ConfirmContext = createContext<Ask>(() => Promise.resolve(false));

export function useConfirm(): Ask {
  return use(ConfirmContext);
}

export function ConfirmProvider({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState<(Question & { answer: (is: boolean) => void }) | null>(null);
  const ask = useCallback<Ask>((question) => new Promise((answer) => setOpen({ ...question, answer })), []);
  const close = (is: boolean) => {
    open?.answer(is);
    setOpen(null);
  };
  return (
    <ConfirmContext value={useMemo(() => ask, [ask])}>
      {children}
      <Modal opened={open !== null} onClose={() => close(false)} title={open?.title} zIndex={400} closeButtonProps={{ "aria-label": ui.close }}>
        <Stack gap="md">
          {open?.body}
          <Group justify="flex-end" gap="xs">
            <Button onClick={() => close(false)}>{ui.cancel}</Button>
            <Button variant="filled" color={open?.isDangerous === true ? "red.9" : undefined} data-autofocus onClick={() => close(true)}>
              {open?.confirm ?? ui.confirm}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </ConfirmContext>
  );
}
