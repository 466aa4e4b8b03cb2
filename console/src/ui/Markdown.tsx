/** Markdown of agents: hostile text. No raw HTML, no remote images, links to http(s) and mailto only. Heavy: import it lazily. */
import { Box } from "@mantine/core";
import { memo } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";

import classes from "./Markdown.module.css";
import { keepSafeLink, showHidden } from "./hostileText";

// Headings of an answer are no headings of the page.
const heading: Components["h1"] = ({ children }) => <p className={classes.heading}>{children}</p>;

const COMPONENTS: Components = {
  h1: heading, h2: heading, h3: heading, h4: heading, h5: heading, h6: heading,
  a: ({ href, children }) => {
    const safe = keepSafeLink(href);
    return safe === undefined ? <span>{children}</span> : <a href={safe} target="_blank" rel="noopener noreferrer nofollow" title={safe}>{children}</a>;
  },
  img: ({ alt, src }) => <span className={classes.image}>[{alt === undefined || alt === "" ? "image" : alt}: {typeof src === "string" ? src.slice(0, 200) : ""}]</span>,
  input: ({ checked }) => <span aria-hidden>{checked === true ? "☑ " : "☐ "}</span>,
  table: ({ children }) => <div className={classes.scroll} tabIndex={0} role="region" aria-label="Table"><table>{children}</table></div>,
  pre: ({ children }) => <pre className={classes.code} tabIndex={0}>{children}</pre>,
  section: ({ children }) => <div>{children}</div>,
  sup: ({ children }) => <sup>{children}</sup>,
};

function Markdown({ text }: { text: string }) {
  return (
    <Box className={classes.markdown} dir="auto">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={COMPONENTS} urlTransform={(url) => url} >{showHidden(text)}</ReactMarkdown>
    </Box>
  );
}

export default memo(Markdown);
