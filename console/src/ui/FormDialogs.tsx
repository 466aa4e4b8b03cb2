/** Drawers and dialogs with fields: Escape, a click beside them and their cross ask before typed text is lost. Their own buttons close them without a question. */
import { Drawer, Modal, Text, type DrawerProps, type ModalProps } from "@mantine/core";
import { useEffect, useRef } from "react";

import { ui } from "../texts/ui";
import { useConfirm } from "./confirm";

/** `note` hears of everything that is typed; `close` asks if something was, and its fields are still there: a form that was saved is gone. */
function useTypedGuard(isOpen: boolean, onClose: () => void) {
  const confirm = useConfirm();
  const isTyped = useRef(false);
  const isAsking = useRef(false);
  const inside = useRef<HTMLDivElement>(null);
  useEffect(() => { if (isOpen) isTyped.current = false; }, [isOpen]);
  const close = async () => {
    if (!isTyped.current || inside.current?.querySelector("input, textarea, [contenteditable=true]") == null) return onClose();
    // Escape reaches the question and what is behind it.
    if (isAsking.current) return;
    isAsking.current = true;
    const isLeft = await confirm({ title: ui.leaveTitle, body: <Text size="sm">{ui.leaveTyped}</Text>, confirm: ui.leave, isDangerous: true });
    setTimeout(() => { isAsking.current = false; });
    if (isLeft) onClose();
  };
  return { inside, note: () => { isTyped.current = true; }, close: () => void close() };
}

export function FormDrawer({ children, onClose, ...props }: DrawerProps) {
  const { inside, note, close } = useTypedGuard(props.opened, onClose);
  return <Drawer {...props} onClose={close}><div ref={inside} style={{ display: "contents" }} onInput={note}>{children}</div></Drawer>;
}

export function FormModal({ children, onClose, ...props }: ModalProps) {
  const { inside, note, close } = useTypedGuard(props.opened, onClose);
  return <Modal {...props} onClose={close}><div ref={inside} style={{ display: "contents" }} onInput={note}>{children}</div></Modal>;
}
