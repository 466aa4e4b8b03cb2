/** The table of keys, as `keys.ts` binds them. */
import { Kbd, Modal, Table, Title } from "@mantine/core";

import { KEYS, type KeyGroup } from "../keys";
import { shell } from "../texts/shell";
import { ui } from "../texts/ui";

const GROUPS: Record<KeyGroup, string> = { everywhere: "Everywhere", go: "Go to", lists: "Lists", approvals: "Approvals", chat: "Chat", run: "A run", calibration: "Calibration" };

export function KeyHelp({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  return (
    <Modal opened={isOpen} onClose={onClose} title={shell.keysTitle} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
      {Object.entries(GROUPS).map(([group, title]) => (
        <section key={group}>
          <Title order={3} mt="sm" mb={4}>{title}</Title>
          <Table withRowBorders={false} verticalSpacing={3}>
            <Table.Tbody>
              {Object.values(KEYS).filter((it) => it.group === group).map((it) => (
                <Table.Tr key={it.keys}>
                  <Table.Td>{it.does}</Table.Td>
                  <Table.Td ta="right">{it.keys.replace("mod+", "Ctrl or ⌘ ").split(" ").map((key, index) => (/^(or)$/.test(key) ? ` ${key} ` : <Kbd key={index} size="xs" ml={4}>{key}</Kbd>))}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </section>
      ))}
    </Modal>
  );
}
