// The HTTP API. One place sends; each route has one function. Nothing else of the dashboard uses `fetch` for data.

import { bearer, expired } from './auth.js';

/** @import * as Api from './types.js' */

/** An answer of the API that is an error (RFC 9457). */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {{type?: string, title?: string, detail?: string}} body
   * @param {number | null} retryAfter
   */
  constructor(status, body, retryAfter) {
    super(body.detail || body.title || `The API answered ${status}.`);
    this.name = 'Problem';
    this.status = status;
    /** The last part of the problem's type, such as `not-found`. */
    this.kind = (body.type ?? '').split(':').pop() ?? '';
    this.title = body.title ?? '';
    /** Seconds after which the request may be repeated. */
    this.retryAfter = retryAfter;
  }
}

/** The API gave no answer. */
export class Unreachable extends Error {
  constructor() {
    super('The API did not answer.');
    this.name = 'Unreachable';
  }
}

/**
 * @typedef {{
 *   query?: Record<string, string | number | boolean | string[] | null | undefined>,
 *   body?: unknown, headers?: Record<string, string>, signal?: AbortSignal,
 * }} Options
 */

/**
 * Sends a request. An answer of 304 is returned; other answers that are not successful are thrown.
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<Response>}
 */
async function send(method, path, { query, body, headers, signal } = {}) {
  const address = new URL(path.replace(/^\//, ''), base());
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== '') address.searchParams.append(name, String(one));
    }
  }
  const sent = new Headers(headers);
  const token = await bearer();
  if (token) sent.set('Authorization', `Bearer ${token}`);
  if (body !== undefined) sent.set('Content-Type', 'application/json');
  let answer;
  try {
    // The page keeps versions itself (ETag), so that a 304 arrives here and not in the browser's cache.
    answer = await fetch(address, {
      method, headers: sent, signal, cache: 'no-store', body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable();
  }
  if (answer.ok || answer.status === 304) return answer;
  if (answer.status === 401) expired();
  const problem = await answer.json().catch(() => ({}));
  const seconds = Number(answer.headers.get('Retry-After'));
  throw new Problem(answer.status, problem, seconds > 0 ? seconds : null);
}

/** The folder of the page: the API may live below a prefix, such as a stage of API Gateway. */
function base() {
  return new URL('.', location.href.split(/[?#]/)[0]);
}

/**
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
async function get(path, options) {
  return (await send('GET', path, options)).json();
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {string} [key] makes a repeated request have its effect once
 * @returns {Promise<any>}
 */
async function change(method, path, body, key) {
  const headers = key ? { 'Idempotency-Key': key } : undefined;
  return (await send(method, path, { body, headers })).json();
}

/** @param {string} id */
const instancePath = (id) => `/v1/instances/${encodeURIComponent(id)}`;
/** @param {string} instance @param {string} letter */
const letterPath = (instance, letter) => `/v1/dead-letters/${encodeURIComponent(instance)}/${encodeURIComponent(letter)}`;

/** @param {string} id */
const batchPath = (id) => `/v1/batches/${encodeURIComponent(id)}`;

/** @returns {Promise<Api.Config>} */
export const dashboardConfig = () => get('/v1/dashboard-config');
/** @returns {Promise<Api.Me>} */
export const me = () => get('/v1/me');
/** @param {AbortSignal} [signal] @returns {Promise<Api.Overview>} */
export const overview = (signal) => get('/v1/overview', { signal });
/** @param {AbortSignal} [signal] @returns {Promise<Api.Counts>} */
export const counts = (signal) => get('/v1/counts', { signal });
/** @param {number} hours @param {AbortSignal} [signal] @returns {Promise<Api.Throughput>} */
export const throughput = (hours, signal) => get('/v1/throughput', { query: { hours }, signal });
/** @param {number} limit @param {AbortSignal} [signal] @returns {Promise<Api.Overdue>} */
export const overdue = (limit, signal) => get('/v1/overdue', { query: { limit }, signal });

/**
 * A page of instances, newest first.
 * @param {Options['query']} query
 * @param {AbortSignal} [signal]
 * @returns {Promise<Api.InstanceList>}
 */
export const instances = (query, signal) => get('/v1/instances', { query, signal });

/**
 * An instance. With `etag`, the answer has no instance if it has not changed within `wait` seconds.
 * @param {string} id
 * @param {{etag?: string | null, wait?: number, raw?: boolean, signal?: AbortSignal}} [options]
 * @returns {Promise<{etag: string | null, instance: Api.Instance | null}>}
 */
export async function instance(id, { etag, wait, raw, signal } = {}) {
  const headers = etag ? { 'If-None-Match': etag } : undefined;
  const query = { wait, raw, includeInput: true };
  const answer = await send('GET', instancePath(id), { query, headers, signal });
  if (answer.status === 304) return { etag: etag ?? null, instance: null };
  return { etag: answer.headers.get('ETag'), instance: await answer.json() };
}

/**
 * A page of the history.
 * @param {string} id
 * @param {{execution?: number, undone?: number, after?: number, limit?: number, signal?: AbortSignal}} [options]
 * @returns {Promise<Api.History>}
 */
export const history = (id, { signal, ...query } = {}) => get(`${instancePath(id)}/history`, { query, signal });
/** @param {string} id @param {string} [after] @param {AbortSignal} [signal] @returns {Promise<Api.Tree>} */
export const tree = (id, after, signal) => get(`${instancePath(id)}/tree`, { query: { after }, signal });
/** @param {string} id @param {string} [after] @param {AbortSignal} [signal] @returns {Promise<Api.KeyValueList>} */
export const keys = (id, after, signal) => get(`${instancePath(id)}/kv`, { query: { after }, signal });
/** @param {string} id @param {number} [after] @param {AbortSignal} [signal] @returns {Promise<Api.ExecutionList>} */
export const executions = (id, after, signal) => get(`${instancePath(id)}/executions`, { query: { after }, signal });

/**
 * @param {string} name
 * @param {{id?: string, input?: unknown, inputText?: string, version?: string, tags?: Record<string, string>}} request
 * @param {string} key
 * @returns {Promise<{instance: string, repeated: boolean}>}
 */
export const start = (name, request, key) => change('POST', `/v1/orchestrations/${encodeURIComponent(name)}/instances`, request, key);

/**
 * Sends an event, or a message to a queue of the instance.
 * @param {string} id
 * @param {'events' | 'queues'} to
 * @param {string} name
 * @param {{data?: unknown, dataText?: string}} request
 * @param {string} key
 */
export const raise = (id, to, name, request, key) => change('POST', `${instancePath(id)}/${to}/${encodeURIComponent(name)}`, request, key);
/** Why an instance is where it is. @param {string} id @param {AbortSignal} [signal] @returns {Promise<Api.Explanation>} */
export const explanation = (id, signal) => get(`${instancePath(id)}/explain`, { signal });
/** @param {string} id @param {{reason?: string, children: boolean}} request @returns {Promise<{instance: string, changed: number}>} */
export const pause = (id, request) => change('POST', `${instancePath(id)}:pause`, request);
/** @param {string} id @param {{children: boolean}} request @returns {Promise<{instance: string, changed: number}>} */
export const resume = (id, request) => change('POST', `${instancePath(id)}:resume`, request);
/** @param {string} id @param {{reason?: string, discardResults: boolean, dryRun?: boolean}} request @returns {Promise<Api.Rewound>} */
export const rewind = (id, request) => change('POST', `${instancePath(id)}:rewind`, request);
/**
 * @param {string} id
 * @param {{inPlace: boolean, newId?: string, version?: string, alone: boolean}} request
 * @param {string} key
 * @returns {Promise<{instance: string, repeated: boolean}>}
 */
export const restart = (id, request, key) => change('POST', `${instancePath(id)}:restart`, request, key);
/**
 * @param {string} id
 * @param {{newId: string, execution?: number, at?: number, results: {event: number, resultText: string}[], inputText?: string, version?: string, dryRun?: boolean}} request
 * @returns {Promise<Api.Forked>}
 */
export const fork = (id, request) => change('POST', `${instancePath(id)}:fork`, request);
/** @param {string} id @param {string} [reason] */
export const cancel = (id, reason) => change('POST', `${instancePath(id)}:cancel`, reason ? { reason } : {});
/** @param {string} id @returns {Promise<{instances: number, executions: number, events: number, queued: number}>} */
export const remove = (id) => change('DELETE', instancePath(id));
/** @param {string} id @param {number} keep @returns {Promise<{executions: number, events: number}>} */
export const prune = (id, keep) => change('POST', `${instancePath(id)}:prune`, { keep });

/** @param {Options['query']} query @param {AbortSignal} [signal] @returns {Promise<Api.BatchList>} */
export const batches = (query, signal) => get('/v1/batches', { query, signal });
/** @param {string} id @param {AbortSignal} [signal] @returns {Promise<Api.Batch>} */
export const batch = (id, signal) => get(batchPath(id), { signal });
/** @param {string} id @param {string} [cursor] @param {AbortSignal} [signal] @returns {Promise<Api.BatchFailureList>} */
export const batchFailures = (id, cursor, signal) => get(`${batchPath(id)}/failures`, { query: { cursor }, signal });
/** @param {Api.BatchRequest} request @param {string} key @returns {Promise<Api.Batch>} */
export const startBatch = (request, key) => change('POST', '/v1/batches', request, key);
/** @param {string} id @returns {Promise<Api.Batch>} */
export const cancelBatch = (id) => change('POST', `${batchPath(id)}:cancel`);

/** @param {Options['query']} query @param {AbortSignal} [signal] @returns {Promise<Api.DeadLetterList>} */
export const deadLetters = (query, signal) => get('/v1/dead-letters', { query, signal });
/** @param {string} id @param {string} letter @param {AbortSignal} [signal] @returns {Promise<Api.DeadLetter>} */
export const deadLetter = (id, letter, signal) => get(letterPath(id, letter), { signal });
/** @param {string} id @param {string} letter @returns {Promise<{target: string, delivered: boolean}>} */
export const redrive = (id, letter) => change('POST', `${letterPath(id, letter)}:redrive`);
/** @param {string} id @param {string} letter */
export const discard = (id, letter) => change('DELETE', letterPath(id, letter));
