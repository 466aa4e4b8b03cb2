/** Whether a text is the beginning of a number and no number yet. Pure. */
export function isUnfinishedNumber(text: string): boolean {
  return text !== "" && !/^-?\d+(\.\d+)?$/.test(text);
}
