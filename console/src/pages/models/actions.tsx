/** What operators do with models and providers: set a breaker, test a provider. */
import { Button, Group, Menu, Text } from "@mantine/core";

import { api, need } from "../../api/client";
import { useMay } from "../../api/caller";
import { refreshKinds } from "../../api/queries";
import { models as texts } from "../../texts/models";
import { shell } from "../../texts/shell";
import { useConfirm } from "../../ui/confirm";
import { formatDuration } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";

type Action = "open" | "close" | "reset";

export function BreakerMenu({ modelId }: { modelId: string }) {
  const confirm = useConfirm();
  const may = useMay();
  const set = async (action: Action) => {
    const isSure = await confirm({ title: texts.breakerTitle(texts.breakerNames[action], modelId), body: <Text size="sm">{texts.breakerBody[action]}</Text>, confirm: texts.breakerNames[action], isDangerous: action === "open" });
    if (!isSure) return;
    try {
      await need(api.POST("/v1/system/models/{model_id}/breaker", { params: { path: { model_id: modelId } }, body: { action } }));
      noteDone(texts.breakerSet(modelId));
      await refreshKinds("model", "audit");
    } catch (error) {
      noteError(error);
    }
  };
  if (!may("operate")) return <Button size="compact-xs" data-disabled aria-disabled="true" title={shell.needsScope("operate")}>{texts.breaker}</Button>;
  return (
    <Menu position="bottom-end">
      <Menu.Target><Button size="compact-xs" mih={24} aria-label={texts.breakerOf(modelId)}>{texts.breaker}</Button></Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => void set("open")}>{texts.openBreaker}</Menu.Item>
        <Menu.Item onClick={() => void set("close")}>{texts.closeBreaker}</Menu.Item>
        <Menu.Item onClick={() => void set("reset")}>{texts.resetBreaker}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

export function TestButtons({ providerId }: { providerId: string }) {
  const test = async (call: boolean) => {
    try {
      const result = await need(api.POST("/v1/providers/{provider_id}/test", { params: { path: { provider_id: providerId }, query: { call } } }));
      if (result.ok) noteDone(texts.testOk(providerId, formatDuration(result.latency_ms), result.network_tested));
      else noteError(new Error(texts.testFailed(providerId, result.error ?? "")));
    } catch (error) {
      noteError(error);
    }
  };
  return (
    <Group gap={4} wrap="nowrap" justify="flex-end">
      <GatedButton scope="operate" size="compact-xs" mih={24} onClick={() => void test(false)}>{texts.test}</GatedButton>
      <GatedButton scope="operate" size="compact-xs" mih={24} title={texts.testCallHelp} onClick={() => void test(true)}>{texts.testCall}</GatedButton>
    </Group>
  );
}
