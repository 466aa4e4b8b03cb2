/** What a person has chosen for this browser: time zone and density. The colour scheme is Mantine's own. */
import { useLocalStorage } from "@mantine/hooks";

export type Settings = { timeZone: string | undefined; density: "compact" | "comfortable" };

const DEFAULTS: Settings = { timeZone: undefined, density: "compact" };

export function useSettings(): Settings & { change: (part: Partial<Settings>) => void } {
  const [settings, setSettings] = useLocalStorage<Settings>({ key: "awaken.settings", defaultValue: DEFAULTS, getInitialValueInEffect: false });
  return { ...DEFAULTS, ...settings, change: (part) => setSettings((now) => ({ ...now, ...part })) };
}
