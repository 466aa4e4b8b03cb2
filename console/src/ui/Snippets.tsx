/** Client code for this server, one tab per kind of client. */
import { Box, Tabs, Text } from "@mantine/core";
import { useState } from "react";

import { serverUrl } from "../api/address";
import { currentToken } from "../api/token";
import { CopyIcon } from "./parts";
import { makeSnippets } from "./snippets";
import classes from "./Snippets.module.css";

export function Snippets({ agent, text }: { agent: string; text?: string }) {
  const snippets = makeSnippets({ url: serverUrl, agent, hasToken: currentToken() !== null, text });
  const [name, setName] = useState("curl");
  return (
    <Tabs value={name} onChange={(value) => setName(value ?? "curl")} keepMounted={false}>
      <Tabs.List>{snippets.map((it) => <Tabs.Tab key={it.name} value={it.name}>{it.name}</Tabs.Tab>)}</Tabs.List>
      {snippets.map((it) => (
        <Tabs.Panel key={it.name} value={it.name} pt="xs">
          <Box pos="relative">
            <Box pos="absolute" top={4} right={4}><CopyIcon value={it.text} label={`Copy the ${it.name} snippet`} /></Box>
            <pre className={classes.code} tabIndex={0} data-snippet={it.name}>{it.text}</pre>
          </Box>
          {it.note === undefined ? null : <Text size="xs" c="dimmed" mt={4}>{it.note}</Text>}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
