/** The rail: the pages that the caller may use, what waits for a person, and the server's state. */
import { AppShell, Badge, Group, Image, Kbd, ScrollArea, Text, UnstyledButton } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useRouterState } from "@tanstack/react-router";

import { root } from "../api/address";
import { useMay } from "../api/caller";
import { openTicketCountQuery } from "../api/openTickets";
import { systemInfoQuery } from "../api/queries";
import { NAVIGATION, type NavigationPage } from "../navigation";
import { shell } from "../texts/shell";
import classes from "./Frame.module.css";
import { openPalette } from "./Palette";
import { SchemeButton } from "./SchemeButton";
import { useMayVisit } from "./useMayVisit";

const IS_MAC = /Mac|iPhone|iPad/.test(navigator.platform);

export function Mark() {
  return (
    <Group gap={8} wrap="nowrap">
      <Image src={`${root}/console/icon.svg`} alt="" w={22} h={22} />
      <Text fw={650} size="md">{shell.product}</Text>
    </Group>
  );
}

/** How many calls wait for a person, in words; null: none. */
function useOpenTickets(isAllowed: boolean): string | null {
  const { data } = useQuery({ ...openTicketCountQuery, enabled: isAllowed });
  return data === undefined || data.count === 0 ? null : `${data.count}${data.isMore ? "+" : ""}`;
}

export function Rail() {
  const may = useMay();
  const mayVisit = useMayVisit();
  const { data: info } = useQuery({ ...systemInfoQuery, enabled: may("read") });
  const tickets = useOpenTickets(may("read"));
  const pathname = useRouterState({ select: (it) => it.location.pathname });
  return (
    <>
      <AppShell.Section p="sm" pb={4}>
        <Group justify="space-between" mb="sm" visibleFrom="sm"><Mark /><SchemeButton /></Group>
        <UnstyledButton className={classes.search} onClick={openPalette}>
          <IconSearch size={14} aria-hidden />{shell.search}<Kbd className={classes.keys} size="xs">{IS_MAC ? "⌘K" : "Ctrl K"}</Kbd>
        </UnstyledButton>
      </AppShell.Section>
      <AppShell.Section grow component={ScrollArea} scrollbarSize={6}>
        {NAVIGATION.map((group) => {
          const pages: readonly NavigationPage[] = group.pages.filter(mayVisit);
          if (pages.length === 0) return null;
          return (
            <div key={group.name} className={classes.group}>
              <span className={classes.groupName}>{shell.groups[group.name]}</span>
              {pages.map(({ name, path, icon: Icon, also }) => (
                <Link key={name} to={path} className={classes.link} data-around={also?.some((it) => pathname.endsWith(it)) === true || undefined} activeOptions={{ exact: path === "/" }}>
                  <Icon size={16} stroke={1.7} aria-hidden />
                  {shell.pages[name]}
                  {name === "approvals" && tickets !== null ? <Badge className={classes.count} size="xs" color="yellow" variant="filled">{tickets}</Badge> : null}
                </Link>
              ))}
            </div>
          );
        })}
      </AppShell.Section>
      <AppShell.Section p="sm">
        {info === undefined ? null : <Text size="xs" c="dimmed">{info.version} · {info.store}</Text>}
      </AppShell.Section>
    </>
  );
}
