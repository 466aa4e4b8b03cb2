/** The bearer token of this tab, and the question for one. It is kept for the session of the tab only. */

const KEY = "awaken.token";
/** Whether a token is asked for, and the page where a person logs in instead, if the server names one. */
export type TokenQuestion = { isAsked: boolean; /** The token that this tab has was refused. */ isRefused: boolean; loginUrl: string | null };
type Listener = (question: TokenQuestion) => void;

let loginUrl: string | null = null;
let isRefused = false;
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

/** The login page that a refusal names; only a path of this server or an http(s) address is followed. */
export async function readLoginUrl(refusal: Response): Promise<string | null> {
  const body: unknown = await refusal.clone().json().catch(() => null);
  const named = body !== null && typeof body === "object" ? (body as Record<string, unknown>).login_url : null;
  return typeof named === "string" && /^(https?:\/\/|\/(?!\/))/.test(named) ? named : null;
}

/** Asks the person for a token; requests that ask meanwhile share the answer. `null`: no token was given. */
export function askForToken(named: string | null = null, refused = false): Promise<string | null> {
  loginUrl = named ?? loginUrl;
  isRefused = refused;
  return new Promise((resolve) => {
    waiting.push(resolve);
    for (const listener of listeners) listener({ isAsked: true, isRefused, loginUrl });
  });
}

export function answerToken(token: string | null): void {
  if (token !== null) sessionStorage.setItem(KEY, token);
  const answered = waiting;
  waiting = [];
  for (const listener of listeners) listener({ isAsked: false, isRefused: false, loginUrl });
  for (const resolve of answered) resolve(token);
}

export function onTokenQuestion(listener: Listener): () => void {
  listeners.add(listener);
  listener({ isAsked: waiting.length > 0, isRefused, loginUrl });
  return () => void listeners.delete(listener);
}
