/** Asks for a token when the server wants one; the request that was refused is sent again with it. */
import { Button, Group, Modal, PasswordInput, Text } from "@mantine/core";
import { useEffect, useState } from "react";

import { refreshKinds } from "../api/queries";
import { answerToken, onTokenQuestion, type TokenQuestion } from "../api/token";
import { shell } from "../texts/shell";
import { ui } from "../texts/ui";

export function TokenDialog() {
  const [{ isAsked, loginUrl }, setQuestion] = useState<TokenQuestion>({ isAsked: false, isRefused: false, loginUrl: null });
  const [token, setToken] = useState("");
  // A token is asked for again although there is one: the server refused it.
  const [isRefused, setRefused] = useState(false);
  useEffect(() => onTokenQuestion((question) => {
    setQuestion(question);
    setRefused(question.isAsked && question.isRefused);
  }), []);
  const answer = (given: string | null) => {
    setToken("");
    answerToken(given);
    void refreshKinds("system");
  };
  return (
    <Modal opened={isAsked} onClose={() => answer(null)} title={shell.tokenTitle} closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); if (token.trim() !== "") answer(token.trim()); }}>
        <Text size="sm" c="dimmed" mb="sm">{shell.tokenHelp}</Text>
        <PasswordInput label={shell.token} value={token} onChange={(event) => setToken(event.currentTarget.value)} error={isRefused && token === "" ? shell.tokenRefused : undefined} data-autofocus autoComplete="off" required />
        <Group justify="flex-end" mt="md" gap="xs">
          <Button onClick={() => answer(null)}>{shell.notNow}</Button>
          {loginUrl === null ? null : <Button component="a" href={loginUrl}>{shell.logIn}</Button>}
          <Button type="submit" variant="filled">{shell.useToken}</Button>
        </Group>
      </form>
    </Modal>
  );
}
