/** The bearer token of this tab, and the question for one. It is kept for the session of the tab only. */

const KEY = "awaken.token";
type Listener = (isAsked: boolean) => void;

let waiting: ((token: string | null) => void)[] = [];
const listeners = new Set<Listener>();

export function currentToken(): string | null {
  return sessionStorage.getItem(KEY);
}

/** Forgets the token; the next request that needs one asks again. */
export function forgetToken(): void {
  sessionStorage.removeItem(KEY);
}

/** Keeps another token from now on. */
export function replaceToken(token: string): void {
  sessionStorage.setItem(KEY, token);
}

/** Asks the person for a token; requests that ask meanwhile share the answer. `null`: no token was given. */
export function askForToken(): Promise<string | null> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    for (const listener of listeners) listener(true);
  });
}

export function answerToken(token: string | null): void {
  if (token !== null) sessionStorage.setItem(KEY, token);
  const answered = waiting;
  waiting = [];
  for (const listener of listeners) listener(false);
  for (const resolve of answered) resolve(token);
}

export function onTokenQuestion(listener: Listener): () => void {
  listeners.add(listener);
  listener(waiting.length > 0);
  return () => void listeners.delete(listener);
}
