/** Where the browser comes back to after a login to an MCP server: the reply goes to the server, and never stays in the address. */
import { Anchor, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { root } from "../../api/address";
import { api, need } from "../../api/client";
import { mcp as texts } from "../../texts/servers";
import { Page } from "../../ui/Page";
import { Failure, Loading } from "../../ui/states";
import { takeBegun } from "../mcp/login";

const route = getRouteApi("/mcp-login");

export function McpLoginPage() {
  const search = route.useSearch();
  const [failure, setFailure] = useState<unknown>(null);
  const [server, setServer] = useState("");
  const [isDone, setDone] = useState(false);
  // Whatever draws this page again, the reply is sent once.
  const reply = useRef(search);
  const isSent = useRef(false);
  useEffect(() => {
    if (isSent.current) return;
    isSent.current = true;
    const given = reply.current;
    // Neither the history nor a copied address has the code.
    history.replaceState(history.state, "", location.pathname);
    const complete = async () => {
      const begun = takeBegun();
      setServer(begun?.server ?? "");
      if (begun === null || begun.state !== given.state) throw new Error(texts.loginForeign);
      await need(api.POST("/v1/mcp-servers/{server_id}/login/reply", { params: { path: { server_id: begun.server } }, body: { ...given, state: begun.state } as never }));
      setDone(true);
    };
    complete().catch(setFailure);
  }, []);
  const back = `${root}/console/mcp${server === "" ? "" : `?id=${encodeURIComponent(server)}`}`;
  return (
    <Page title={texts.loginPage} isWide={false}>
      {failure !== null ? <Failure error={failure} /> : isDone ? <Text role="status">{texts.loggedIn(server)}</Text> : <Loading rows={2} />}
      {failure === null && !isDone ? null : <Text size="sm" mt="sm"><Anchor href={back}>{isDone ? texts.toServer(server) : texts.loginAgain}</Anchor></Text>}
    </Page>
  );
}
