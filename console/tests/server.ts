/** A server of the tests and of the bench. It imports nothing of the console and of Playwright: the bench is run by Node alone. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const AWAKEN = process.env.AWAKEN ?? join(import.meta.dirname, "../../.venv/bin/awaken");
/** The Python that has the package and the libraries of its clients. */
export const PYTHON = join(import.meta.dirname, "../../.venv/bin/python");
const MOUNTED = join(import.meta.dirname, "mounted_app.py");
const READY = /Ready: (http\S+?),/;
/** A start is two seconds of a processor; a machine that has ten other things to do gives it a tenth of one. */
const START_MS = 90_000;

async function findPort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (address === null || typeof address === "string") throw new Error("No port was given.");
  return address.port;
}

/** A running `awaken serve`; it can be killed, started again on the same port and store, and asked over HTTP. */
export class Server {
  readonly url: string;
  private process: ChildProcess | null = null;
  private log = "";

  /** `mount`: an app of someone else serves it under this prefix. */
  private constructor(readonly folder: string, readonly port: number, private readonly options: readonly string[], private readonly environment: NodeJS.ProcessEnv, private readonly mount: string | null = null) {
    this.url = `http://127.0.0.1:${port}${mount ?? ""}`;
  }

  static async startMounted(mount: string): Promise<Server> {
    const server = new Server(await mkdtemp(join(tmpdir(), "awaken-console-")), await findPort(), [], {}, mount);
    await server.start();
    return server;
  }

  /** Starts another process on the store of this one. */
  static async startBeside(other: Server): Promise<Server> {
    const server = new Server(other.folder, await findPort(), other.options, other.environment);
    await server.start();
    return server;
  }

  static async start(options: readonly string[] = [], environment: NodeJS.ProcessEnv = {}): Promise<Server> {
    const server = new Server(await mkdtemp(join(tmpdir(), "awaken-console-")), await findPort(), options, environment);
    await server.start();
    return server;
  }

  async start(): Promise<void> {
    const store = `sqlite:///${join(this.folder, "awaken.db")}`;
    const [program, words] = this.mount === null ? [AWAKEN, ["serve", ...this.options, "--port", String(this.port), "--store", store]] : [PYTHON, [MOUNTED, String(this.port), store, this.mount]];
    const child = spawn(program, words, {
      // Playwright asks all that it starts for colours.
      env: { ...process.env, FORCE_COLOR: undefined, NO_COLOR: "1", ...this.environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.process = child;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`The server did not start: ${this.log}`)), START_MS);
      const read = (chunk: Buffer) => {
        this.log += chunk.toString();
        if (READY.test(this.log)) { clearTimeout(timer); resolve(); }
      };
      child.stdout.on("data", read);
      child.stderr.on("data", read);
      child.once("exit", (code) => reject(new Error(`The server ended with ${code}: ${this.log}`)));
    });
    this.log = "";
  }

  /** Ends the process at once, as a crash would. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.process;
    this.process = null;
    if (child === null || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  async close(): Promise<void> {
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  async ask<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === "" ? null : JSON.parse(text)) as T;
  }

  /** Runs an agent to its end, or until it waits. */
  run(agent: string, text: string, threadId?: string): Promise<{ run_id: string; thread_id: string; status: string }> {
    return this.ask("POST", "/v1/runs", { agent_id: agent, thread_id: threadId, messages: [{ role: "user", content: text }] });
  }
}
