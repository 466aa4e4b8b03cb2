/** A field for a number that is typed digit by digit: `0.` and `-` are on the way to one, and stay as they were typed. */
import { NumberInput, type NumberInputProps } from "@mantine/core";
import { useState } from "react";

import { isUnfinishedNumber } from "./unfinishedNumber";

export function FractionInput({ value, onChange, onBlur, ...props }: NumberInputProps) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <NumberInput
      {...props}
      value={typed ?? value}
      onBlur={(event) => { setTyped(null); onBlur?.(event); }}
      onChange={(next) => {
        setTyped(typeof next === "string" && next !== "" ? next : null);
        if (typeof next === "number" || !isUnfinishedNumber(next)) onChange?.(next);
      }}
    />
  );
}
