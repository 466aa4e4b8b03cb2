/** Spend by day as stacked bars. Loaded when the page of cost shows it. */
import "@mantine/charts/styles.css";

import { BarChart } from "@mantine/charts";

import type { DayPoint } from "./figures";

const COLORS = ["indigo.6", "teal.6", "orange.6", "grape.6", "cyan.6", "gray.6"];

type Props = { points: readonly DayPoint[]; names: readonly string[]; label: (name: string) => string; format: (value: number) => string };

export default function SpendChart({ points, names, label, format }: Props) {
  // A name may hold characters that a chart reads as a path, so that series go by their number.
  const data = points.map((point) => ({
    day: new Date(point.day).toISOString().slice(5, 10),
    ...Object.fromEntries(names.map((name, at) => [`s${at}`, point[name] ?? 0])),
  }));
  const series = names.map((name, at) => ({ name: `s${at}`, label: label(name), color: COLORS[at % COLORS.length] ?? "indigo.6" }));
  return <BarChart h={260} data={data} dataKey="day" type="stacked" series={series} valueFormatter={format} withLegend tickLine="none" gridAxis="x" legendProps={{ verticalAlign: "bottom" }} barProps={{ isAnimationActive: false }} barChartProps={{ accessibilityLayer: false }} />;
}
