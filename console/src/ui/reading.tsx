/**
 * What a person decides by must have been on the screen: all of it, not only its beginning. Boxes inside of a `Reading` tell what was seen of them, and the
 * buttons in it wait for that.
 */
import { createContext, use, useCallback, useLayoutEffect, useMemo, useState, type ReactNode, type RefObject } from "react";

import { addSpan, findUnread, shareRead, type Span } from "./readSpans";
import { noteDecision } from "./settling";

/** How often a box is looked at that nothing moves: what covers it may go away. */
const LOOK_MS = 250;
/** Between two places that are looked at: less than a line of text. */
const STEP = 8;
/** Where the next part begins, from the top of what scrolls: a page may have a bar there. */
const MARGIN = 8;
const PAGE_MARGIN = 80;

type Box = { share: number; readOn: () => void };
type Boxes = ReadonlyMap<string, Box>;
type Value = { boxes: Boxes; note: (place: string, box: Box | null) => void };

const ReadingContext = createContext<Value | null>(null);

/** What was seen whole, by its place: another view of the same text need not be read again. */
const seen = new Map<string, string>();

export function forgetSeen(place: string): void {
  seen.delete(place);
}

export function Reading({ children }: { children: ReactNode }) {
  const [boxes, setBoxes] = useState<Boxes>(new Map());
  const note = useCallback((place: string, box: Box | null) => setBoxes((before) => {
    const next = new Map(before);
    if (box === null) next.delete(place);
    else next.set(place, box);
    return next;
  }), []);
  return <ReadingContext value={useMemo(() => ({ boxes, note }), [boxes, note])}>{children}</ReadingContext>;
}

/** Whether all was on the screen that has to be, how much was, and the way to the next part that was not. */
export function useReading(): { isRead: boolean; share: number; readOn: () => void } {
  const value = use(ReadingContext);
  if (value === null) throw new Error("A decision stands outside of a `Reading`: it could be made on what was not on the screen.");
  const boxes = [...value.boxes.values()];
  const unread = boxes.find((it) => it.share < 1);
  const share = boxes.length === 0 ? 1 : boxes.reduce((sum, it) => sum + it.share, 0) / boxes.length;
  return { isRead: unread === undefined, share, readOn: () => unread?.readOn() };
}

/** The parts of a box that are on the screen now: inside of all that scrolls, and with nothing over them. */
function findShown(box: HTMLElement): Span[] {
  if (document.visibilityState !== "visible") return [];
  const { top, bottom, left } = box.getBoundingClientRect();
  const [from, to] = [Math.max(top, 0) + 1, Math.min(bottom, window.innerHeight) - 1];
  const offset = box.scrollTop - top - box.clientTop;
  const spans: Span[] = [];
  let begin: number | null = null;
  let end = from;
  for (let y = from; y <= to; y = y === to ? Infinity : Math.min(y + STEP, to)) {
    const hit = document.elementFromPoint(left + 6, y);
    if (hit !== null && box.contains(hit)) {
      begin ??= y;
      end = y;
    } else if (begin !== null) {
      spans.push([begin + offset, end + offset]);
      begin = null;
    }
  }
  if (begin !== null) spans.push([begin + offset, end + offset]);
  return spans;
}

/** Brings a place of a box to the top of everything that scrolls around it. */
function bringUp(box: HTMLElement, place: number): void {
  for (let it: HTMLElement | null = box; it !== null; it = it.parentElement) {
    const isPage = it === document.documentElement;
    if (!isPage && (it.scrollHeight <= it.clientHeight || !/auto|scroll/.test(getComputedStyle(it).overflowY))) continue;
    const at = box.getBoundingClientRect().top + box.clientTop + place - box.scrollTop;
    it.scrollTop += at - (isPage ? PAGE_MARGIN : it.getBoundingClientRect().top + it.clientTop + MARGIN);
  }
}

/** Watches how much of a text in a box was on the screen. `place` names it; undefined: it need not be read. */
export function useReadBox(box: RefObject<HTMLElement | null>, place: string | undefined, text: string): void {
  const note = use(ReadingContext)?.note;
  useLayoutEffect(() => {
    const element = box.current;
    if (place === undefined || note === undefined || element === null) return;
    let spans: Span[] = [];
    let height = element.scrollHeight;
    let last = -1;
    const readOn = () => {
      const unread = findUnread(spans, height);
      if (unread !== null) bringUp(element, unread);
      look();
      if (seen.get(place) !== text) return;
      // What the button said is over, and another one stands in its place: a second click must not decide.
      noteDecision();
      element.focus({ preventScroll: true });
    };
    const tell = (share: number) => {
      if (share === last) return;
      last = share;
      note(place, { share, readOn });
    };
    const look = () => {
      if (seen.get(place) === text) return tell(1);
      // In another width the lines are others.
      if (element.scrollHeight !== height) [spans, height] = [[], element.scrollHeight];
      spans = findShown(element).reduce<Span[]>(addSpan, spans);
      const share = shareRead(spans, height);
      if (share === 1) seen.set(place, text);
      tell(share);
    };
    look();
    const timer = setInterval(() => (last === 1 ? clearInterval(timer) : look()), LOOK_MS);
    // A scroll does not bubble, and is told to the window while it is captured.
    window.addEventListener("scroll", look, { capture: true, passive: true });
    window.addEventListener("resize", look);
    return () => {
      clearInterval(timer);
      window.removeEventListener("scroll", look, { capture: true });
      window.removeEventListener("resize", look);
      note(place, null);
    };
  }, [box, place, text, note]);
}
