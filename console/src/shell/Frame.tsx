/** The frame of the console: rail, page, palette, dialogs, banners. */
import { AppShell, Box, Burger, Group } from "@mantine/core";
import { useDisclosure, useElementSize } from "@mantine/hooks";
import { Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { Suspense, useEffect, useMemo, type CSSProperties } from "react";

import { useActivity } from "../api/activity";
import { useMay } from "../api/caller";
import { useKeys, type KeyName } from "../keys";
import { PAGES } from "../navigation";
import { shell } from "../texts/shell";
import { ConfirmProvider } from "../ui/confirm";
import { Loading, NeedsScopes } from "../ui/states";
import classes from "./Frame.module.css";
import { KeyHelp } from "./KeyHelp";
import { MissingPartBanner } from "./MissingPart";
import { OfflineBanner } from "./OfflineBanner";
import { openPalette, Palette } from "./Palette";
import { Mark, Rail } from "./Rail";
import { TokenDialog } from "./TokenDialog";

/** Pages mark the field that `/` leads to; none binds the key itself, because which of two bindings comes first depends on which was drawn last. */
function focusFilter(): void {
  document.querySelector<HTMLElement>("[data-page-filter]")?.focus();
}

export function Frame() {
  const [isMenuOpen, menu] = useDisclosure(false);
  const [isHelpOpen, help] = useDisclosure(false);
  const { ref: banners, height } = useElementSize();
  const { pathname } = useLocation();
  const navigate = useNavigate();
  const may = useMay();
  useActivity(may("read"));
  useEffect(menu.close, [pathname, menu.close]);
  useKeys(
    useMemo(() => {
      const go = PAGES.flatMap((it) => (it.key === undefined ? [] : [[it.key, () => void navigate({ to: it.path })] as const]));
      return { palette: openPalette, help: help.open, filter: focusFilter, ...(Object.fromEntries(go) as Partial<Record<KeyName, () => void>>) };
    }, [help, navigate]),
  );
  const page = PAGES.find((it) => it.path !== "/" && (pathname === it.path || pathname.startsWith(`${it.path}/`)));
  return (
    <ConfirmProvider>
      <a href="#content" className={classes.skip}>{shell.skip}</a>
      <AppShell navbar={{ width: 208, breakpoint: "sm", collapsed: { mobile: !isMenuOpen } }} header={{ height: { base: 48, sm: 0 } }}>
        <AppShell.Header hiddenFrom="sm" className={classes.top}>
          <Group h="100%" px="sm" gap="sm">
            <Burger opened={isMenuOpen} onClick={menu.toggle} size="sm" aria-label={isMenuOpen ? shell.closeMenu : shell.openMenu} />
            <Mark />
          </Group>
        </AppShell.Header>
        <AppShell.Navbar className={classes.rail} aria-label={shell.product}><Rail /></AppShell.Navbar>
        <AppShell.Main id="content" tabIndex={-1} className={classes.main}>
          <div ref={banners}><OfflineBanner /><MissingPartBanner /></div>
          {/* A page that fills the window leaves room for the banners. */}
          <div style={{ "--aw-banners": `${height}px` } as CSSProperties}>
            <Suspense fallback={<Box p="lg"><Loading /></Box>}>
              {page === undefined ? <Outlet /> : <NeedsScopes scopes={page.scopes} title={shell.pages[page.name]}><Outlet /></NeedsScopes>}
            </Suspense>
          </div>
        </AppShell.Main>
      </AppShell>
      <Palette />
      <KeyHelp isOpen={isHelpOpen} onClose={help.close} />
      <TokenDialog />
    </ConfirmProvider>
  );
}
