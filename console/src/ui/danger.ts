/** The colour of text that warns, with the contrast that small text needs in both schemes. */
export const DANGER_TEXT = "light-dark(var(--mantine-color-red-9), var(--mantine-color-red-3))";
