/** Base of all errors of this package. */
export class FencingError extends Error {}

/** Another client holds the lock. */
export class Held extends FencingError {
  /** The longest time, in milliseconds, until it may be free. */
  readonly retryAfter?: number;
}

/** The service, or too many of its servers, did not answer, or it takes no more. Nothing was acquired. */
export class Unavailable extends FencingError {}

/** The request was sent, and its answer is missing: the lock may be held until its TTL has passed. */
export class InDoubt extends FencingError {}

/** The request is wrong, or this client has no right to it: trying again does not help. */
export class Refused extends FencingError {}

/** The lease has ended: stop the work. What was sent before may still arrive, which the storage has to refuse. */
export class Lost extends FencingError {}

/** The storage has seen a newer token, and has refused the write. */
export class Stale extends FencingError {}

export interface Options {
  /** Where `fencing serve` is. Default: FENCING_URL, or http://127.0.0.1:7433. */
  url?: string;
  /** The bearer token of this client, for a service with --clients. Default: FENCING_CLIENT_TOKEN. */
  clientToken?: string;
  /** How long the lease lasts without a renewal, in milliseconds. Default: 10,000. */
  ttl?: number;
  /** Longest wait while another client holds the lock, in ms, up to 280,000: fetch gives up soon after. Default: 0. */
  wait?: number;
  /** Gives up the wait. What was acquired in that moment ends at its TTL. */
  signal?: AbortSignal;
}

/**
 * A lock on a resource for a time, and its fencing token. It is renewed each third of its TTL until it is released.
 *
 * It may be lost at any moment, even between a check and a write. Only a storage that compares tokens makes a late
 * write safe: give it `token` or `headers` with each write, or use `fenced`.
 */
export class Lease implements AsyncDisposable {
  private constructor();
  readonly resource: string;
  readonly ttl: number;
  /** The fencing token. */
  readonly token: number;
  /** The token and the resource that it was issued for, as in `34 files/report`. */
  readonly sequencer: string;
  /** What to send with each write over HTTP: the token, and a signature if the service signs. */
  readonly headers: Record<string, string>;
  /** For how many milliseconds the lease lasts unless it is renewed. */
  readonly validFor: number;
  readonly lost: boolean;
  /** Aborted with Lost when the lease ends, or is released. */
  readonly signal: AbortSignal;
  /** Throws Lost if the lease has ended. */
  check(): void;
  /** `fetch` with the headers of the lease, which is aborted when the lease ends: the request may still arrive. */
  fetch(url: string | URL, init?: RequestInit): Promise<Response>;
  /** Releases the lease, and returns whether it was held until now. In doubt the lock is free after its TTL. */
  release(): Promise<boolean>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Acquires a lease. Throws Held, Unavailable, Refused, or InDoubt: then the lock may be held for the TTL. */
export function acquire(resource: string, options?: Options): Promise<Lease>;

/** Acquires a lease for the time of `work`, and releases it. */
export function withLease<T>(resource: string, options: Options, work: (lease: Lease) => Promise<T> | T): Promise<T>;

/** A client of node-pg: not a pool, as a transaction needs one connection. It takes one call of `fenced` at a time. */
export interface PgClient {
  query(text: string, values?: unknown[]): Promise<unknown>;
}

/**
 * Runs `work` in one transaction that has admitted the token of the lease, and commits it. Throws Stale if the database
 * has seen a newer token, and Lost if the lease ended before. Any error rolls back.
 */
export function fenced<T, C extends PgClient>(
  client: C,
  lease: Pick<Lease, "resource" | "token" | "check">,
  work: (client: C) => Promise<T>,
): Promise<T>;
