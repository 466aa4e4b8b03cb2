/** Light, dark, or like the system. */
import { ActionIcon, Menu, useMantineColorScheme, type MantineColorScheme } from "@mantine/core";
import { IconDeviceDesktop, IconMoon, IconSun } from "@tabler/icons-react";

import { shell } from "../texts/shell";

const SCHEMES: readonly { value: MantineColorScheme; label: string; icon: typeof IconSun }[] = [
  { value: "auto", label: shell.autoScheme, icon: IconDeviceDesktop },
  { value: "light", label: shell.lightScheme, icon: IconSun },
  { value: "dark", label: shell.darkScheme, icon: IconMoon },
];

export function SchemeButton() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const current = SCHEMES.find((it) => it.value === colorScheme) ?? SCHEMES[0];
  const Icon = current?.icon ?? IconSun;
  return (
    <Menu position="bottom-end">
      <Menu.Target><ActionIcon aria-label={`Theme: ${current?.label}`}><Icon size={16} /></ActionIcon></Menu.Target>
      <Menu.Dropdown>
        {SCHEMES.map((it) => (
          <Menu.Item key={it.value} leftSection={<it.icon size={14} />} onClick={() => setColorScheme(it.value)}>{it.label}</Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
