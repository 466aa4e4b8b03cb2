/**
 * How the console looks: dense, quiet, readable in light and dark.
 *
 * A rem is the browser's own, so that a person who wants larger letters gets them. What is smaller than Mantine's own is said here in pixels, and no
 * target that is pressed is below 24 of them (WCAG 2.2, 2.5.8).
 */
import { Button, CloseButton, createTheme, Input, PasswordInput, SegmentedControl, type CSSVariablesResolver } from "@mantine/core";

const SANS = 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

export const theme = createTheme({
  fontFamily: SANS,
  fontFamilyMonospace: MONO,
  primaryColor: "indigo",
  primaryShade: { light: 7, dark: 8 },
  autoContrast: true,
  respectReducedMotion: true,
  defaultRadius: "sm",
  cursorType: "pointer",
  fontSizes: { xs: "12px", sm: "13px", md: "14px", lg: "16px", xl: "20px" },
  spacing: { xs: "8px", sm: "10px", md: "14px", lg: "18px", xl: "28px" },
  headings: { fontFamily: SANS, fontWeight: "600", sizes: { h1: { fontSize: "20px", lineHeight: "28px" }, h2: { fontSize: "15px", lineHeight: "22px" }, h3: { fontSize: "13px", lineHeight: "20px" } } },
  components: {
    Button: Button.extend({
      defaultProps: { size: "xs", variant: "default" },
      vars: (_theme, { size }) => ({ root: size === "xs" ? { "--button-height": "28px", "--button-padding-x": "12px" } : size === "compact-xs" ? { "--button-height": "24px" } : {} }),
    }),
    CloseButton: CloseButton.extend({ vars: (_theme, { size }) => ({ root: size === "xs" || size === "sm" ? { "--cb-size": "24px" } : {} }) }),
    PasswordInput: PasswordInput.extend({ vars: () => ({ root: { "--psi-button-size": "24px" } }) }),
    Input: Input.extend({ vars: (_theme, { size }) => ({ wrapper: size === "xs" ? { "--input-height": "28px" } : {} }) }),
    ActionIcon: { defaultProps: { variant: "subtle", color: "gray", size: "md" } },
    TextInput: { defaultProps: { size: "xs" } },
    NumberInput: { defaultProps: { size: "xs" } },
    Textarea: { defaultProps: { size: "xs" } },
    Select: { defaultProps: { size: "xs" } },
    MultiSelect: { defaultProps: { size: "xs" } },
    SegmentedControl: SegmentedControl.extend({ defaultProps: { size: "xs" }, vars: () => ({ root: { "--sc-padding": "4px 10px" } }) }),
    Checkbox: { defaultProps: { size: "xs" } },
    Switch: { defaultProps: { size: "xs" } },
    Badge: { defaultProps: { size: "sm", variant: "light", radius: "sm", tt: "none", fw: 500, autoContrast: true } },
    Alert: { styles: { title: { color: "var(--mantine-color-text)" }, message: { color: "var(--mantine-color-text)" } } },
    Tooltip: { defaultProps: { openDelay: 300, withArrow: true, fz: "xs" } },
    // A dialog over a drawer: the head of each is no banner of the page.
    Modal: { defaultProps: { centered: true, overlayProps: { backgroundOpacity: 0.4 }, attributes: { header: { role: "none" } } } },
    Drawer: { defaultProps: { position: "right", size: "lg", overlayProps: { backgroundOpacity: 0.2 }, attributes: { header: { role: "none" } } } },
  },
});

/** Text and lines with the contrast that WCAG 2.2 AA asks for, in both schemes. */
export const resolveVariables: CSSVariablesResolver = () => ({
  variables: {},
  light: { "--mantine-color-anchor": "#364fc7", "--mantine-color-dimmed": "#566069", "--mantine-color-error": "#b3261e", "--mantine-color-placeholder": "#6a737b", "--aw-surface": "#ffffff", "--aw-canvas": "#f7f8f9", "--aw-line": "#e3e6e9", "--aw-hover": "#f1f3f5" },
  dark: { "--mantine-color-anchor": "#9db0ff", "--mantine-color-dimmed": "#a3abb2", "--mantine-color-error": "#ff9b9b", "--mantine-color-placeholder": "#8d959c", "--mantine-color-body": "#16181b", "--aw-surface": "#1b1e22", "--aw-canvas": "#121417", "--aw-line": "#2b2f34", "--aw-hover": "#23272c" },
});
