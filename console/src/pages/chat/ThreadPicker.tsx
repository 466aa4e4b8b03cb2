/** Earlier conversations, most recent first. */
import { Button, Menu, ScrollArea, Text } from "@mantine/core";
import { IconMessages } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, need } from "../../api/client";
import { chat as texts } from "../../texts/chat";
import { Age, ShortId } from "../../ui/parts";
import { showHidden } from "../../ui/hostileText";

export function ThreadPicker({ onPick }: { onPick: (threadId: string) => void }) {
  const [isOpen, setIsOpen] = useState(false);
  const { data } = useQuery({
    queryKey: ["thread", "recent"],
    queryFn: ({ signal }) => need(api.GET("/v1/threads/summaries", { params: { query: { limit: 50 } }, signal })),
    enabled: isOpen,
  });
  return (
    <Menu opened={isOpen} onChange={setIsOpen} width={320} position="bottom-start">
      <Menu.Target><Button leftSection={<IconMessages size={14} />}>{texts.conversations}</Button></Menu.Target>
      <Menu.Dropdown>
        <ScrollArea.Autosize mah={420} viewportProps={{ tabIndex: -1 }}>
          {data?.items.length === 0 ? <Text size="sm" c="dimmed" p="sm">{texts.noConversations}</Text> : null}
          {data?.items.map((it) => (
            <Menu.Item key={it.id} onClick={() => onPick(it.id)} rightSection={<Age at={it.updated_at} />}>
              <Text size="sm" truncate maw={190}>{it.title === null ? <ShortId id={it.id} chars={22} /> : showHidden(it.title)}</Text>
              <Text size="xs" c="dimmed">{it.agent_id ?? ""}</Text>
            </Menu.Item>
          ))}
        </ScrollArea.Autosize>
      </Menu.Dropdown>
    </Menu>
  );
}
