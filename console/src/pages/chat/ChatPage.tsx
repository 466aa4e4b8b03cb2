/** Chat: one conversation, or two beside each other; which, is in the address. */
import { Button, Drawer, Group, Title } from "@mantine/core";
import { IconCode, IconColumns2, IconPlus, IconSquare } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useCallback, useEffect, useState } from "react";

import { agentsQuery } from "../../api/queries";
import { chat as texts } from "../../texts/chat";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { Snippets } from "../../ui/Snippets";
import classes from "./Chat.module.css";
import { Pane, type PaneAddress } from "./Pane";

const route = getRouteApi("/chat/{-$threadId}");
const NEW = "new";

export function ChatPage() {
  const { threadId } = route.useParams();
  const search = route.useSearch();
  const navigate = useNavigate();
  const change = useChangeSearch();
  const [isCodeOpen, setIsCodeOpen] = useState(false);
  const { data: agents = [] } = useQuery(agentsQuery);
  useEffect(() => {
    document.title = `${shell.pages.chat} · ${shell.product}`;
  }, []);
  const changeFirst = useCallback(
    (part: Partial<PaneAddress>) => {
      const { threadId: thread, ...rest } = part;
      if ("threadId" in part && thread !== threadId) void navigate({ to: "/chat/{-$threadId}", params: { threadId: thread }, search: (now) => ({ ...now, ...rest }) });
      else change(rest);
    },
    [navigate, change, threadId],
  );
  const changeSecond = useCallback(
    (part: Partial<PaneAddress>) => change({
      ...("threadId" in part ? { beside: part.threadId ?? NEW } : {}),
      ...("agent" in part ? { besideAgent: part.agent } : {}),
      ...("publication" in part ? { besidePublication: part.publication } : {}),
      ...("model" in part ? { besideModel: part.model } : {}),
    }),
    [change],
  );
  const isTwo = search.beside !== undefined;
  const sideOf = (name: string) => (search.side === name ? (search.tab ?? "events") : undefined);
  const openSide = (name: string) => (tab: string | undefined) => change({ side: tab === undefined ? undefined : name, tab });
  const startNew = () => void navigate({ to: "/chat/{-$threadId}", params: { threadId: undefined }, search: { agent: search.agent, publication: search.publication, model: search.model } });
  return (
    <div className={classes.page}>
      <div className={classes.bar}>
        <Title order={1}>{shell.pages.chat}</Title>
        <Group gap="xs">
          <Button leftSection={<IconPlus size={14} />} onClick={startNew}>{texts.newChat}</Button>
          <Button leftSection={isTwo ? <IconSquare size={14} /> : <IconColumns2 size={14} />} onClick={() => change(isTwo ? { beside: undefined, besideAgent: undefined, besidePublication: undefined, besideModel: undefined, side: undefined } : { beside: NEW })}>{isTwo ? texts.onePane : texts.sideBySide}</Button>
          <Button leftSection={<IconCode size={14} />} onClick={() => setIsCodeOpen(true)}>{texts.snippets}</Button>
        </Group>
      </div>
      <div className={classes.panes} data-two={isTwo}>
        <Pane address={{ threadId, agent: search.agent, publication: search.publication, model: search.model }} label={shell.pages.chat} isFirst side={sideOf("first")} onAddress={changeFirst} onSide={openSide("first")} />
        {search.beside === undefined ? null : (
          <Pane address={{ threadId: search.beside === NEW ? undefined : search.beside, agent: search.besideAgent, publication: search.besidePublication, model: search.besideModel }} label={`${shell.pages.chat}${texts.second}`} isFirst={false} side={sideOf("second")} onAddress={changeSecond} onSide={openSide("second")} />
        )}
      </div>
      <Drawer opened={isCodeOpen} onClose={() => setIsCodeOpen(false)} title={texts.snippetsTitle} closeButtonProps={{ "aria-label": ui.close }}>
        <Snippets agent={search.agent ?? agents[0]?.id ?? "default"} />
      </Drawer>
    </div>
  );
}
