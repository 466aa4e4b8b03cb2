/** Starts the console: theme, cache, router. */
import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "@mantine/spotlight/styles.css";
import "./ui/theme.css";

import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { whenTimeChanges } from "./api/clock";
import { queryClient, refreshKinds } from "./api/queries";
import { trackPresses } from "./keys";
import { router } from "./router";
import { cspNonce } from "./ui/nonce";
import { resolveVariables, theme } from "./ui/theme";

setNonce(cspNonce);
trackPresses();
whenTimeChanges(() => void refreshKinds("run", "usage", "audit"));

const place = document.getElementById("root");
if (place === null) throw new Error("The page has no #root.");
createRoot(place).render(
  <StrictMode>
    <MantineProvider theme={theme} cssVariablesResolver={resolveVariables} defaultColorScheme="auto" getStyleNonce={() => cspNonce}>
      <Notifications position="top-center" limit={3} autoClose={4_000} />
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
