/** What a request can fail with: the server refused it, or it was not reached. */

/** What is wrong, and where: `agents/support/model_id`. `known` are the names that would be accepted. */
export type Problem = { path: string; code: string; message: string; known?: string[] };

/** The server's refusal, with what it says about the way out. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string | null;
  readonly problems: readonly Problem[];
  readonly body: Readonly<Record<string, unknown>>;

  constructor(status: number, body: Record<string, unknown>, requestId: string | null) {
    super(typeof body.error === "string" ? body.error : `The server answered ${status}.`);
    this.name = "ApiError";
    this.status = status;
    this.code = typeof body.code === "string" ? body.code : "unknown";
    this.requestId = typeof body.request_id === "string" ? body.request_id : requestId;
    this.problems = Array.isArray(body.problems) ? (body.problems as Problem[]) : [];
    this.body = body;
  }
}

/** The server was not reached; whether it did anything is not known. */
export class NetworkError extends Error {
  constructor(cause: unknown) {
    super("The server cannot be reached.", { cause });
    this.name = "NetworkError";
  }
}

export async function readRefusal(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null);
  const fields = body !== null && typeof body === "object" ? (body as Record<string, unknown>) : {};
  return new ApiError(response.status, fields, response.headers.get("x-request-id"));
}

export function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409;
}

export function isGone(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

/** The server has no managed configuration: everything about it is refused with this. */
export function isConfigOff(error: unknown): boolean {
  return error instanceof ApiError && error.code === "config_not_enabled";
}

export function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
