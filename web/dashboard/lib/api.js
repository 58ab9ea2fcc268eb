// Calls the public APIs of this server with the viewer's own token.
import { down, generation, loginNotice, moment, session } from './state.js';

/** `/dashboard/` may be behind a proxy's prefix; the APIs have the same prefix. */
const BASE = new URL('..', document.baseURI);
export const COMPUTE = '2.100';
/** The last version in which a hypervisor shows its capacity. */
export const CAPACITY = '2.87';
const PLACEMENT = '1.39';
/** The items of a list's first page, which is shown before the next ones arrive, and of each next page. */
const PAGE = { first: 200, next: 1000 };
/** A request without an answer after this time has failed. */
const PATIENCE = 60_000;

export class ApiError extends Error {
  constructor(status, text, request) {
    super(text);
    this.status = status;
    this.request = request;
  }
}

/** How far the server's clock is ahead of the browser's, in milliseconds. */
let ahead = 0;
/** The time by the server's clock, to a second. */
export const serverNow = () => Date.now() + ahead;

export const url = (path) => new URL(path.replace(/^\//, ''), BASE);

/** The message in a fault of any of the services. */
function message(text, status) {
  try {
    const body = JSON.parse(text);
    if (body.errors?.[0]) return body.errors[0].detail || body.errors[0].title;
    if (body.NeutronError) return body.NeutronError.message;
    const fault = Object.values(body)[0];
    if (fault?.message) return fault.message;
  } catch { /* not JSON */ }
  const plain = text.replace(/<[^>]*>/g, ' ').trim();
  return plain.slice(0, 300) || `The answer was ${status}.`;
}

function versions(path, version) {
  if (path.startsWith('compute/')) return { 'OpenStack-API-Version': `compute ${version || COMPUTE}` };
  if (path.startsWith('placement/')) return { 'OpenStack-API-Version': `placement ${version || PLACEMENT}` };
  return {};
}

/** Ends the session and shows the log-in page with the reason. */
export function endSession(why) {
  session.set(null);
  moment.set(null);
  loginNotice.set(why);
}

/** Polls the health until the server answers; then pages load again. */
function wait() {
  if (down.get()) return;
  down.set(true);
  const ask = async () => {
    try {
      const answer = await fetch(url('healthz'), { cache: 'no-store', signal: AbortSignal.timeout(5000) });
      if (answer.ok) {
        down.set(false);
        generation.set(generation.get() + 1);
        return;
      }
    } catch { /* still away */ }
    setTimeout(ask, 1500);
  };
  setTimeout(ask, 1500);
}

/**
 * Sends a request. `past`: requests the state at the moment of the time bar.
 * @param {string} method
 * @param {string} path relative to the server, without a leading slash
 * @param {{body?: any, raw?: Blob, patience?: number, query?: any, version?: string, past?: boolean, signal?: AbortSignal, quiet?: boolean, token?: string|null, headers?: any}} [options]
 */
export async function send(method, path, options = {}) {
  const { body, raw, patience = PATIENCE, query, version, past, signal, quiet, token = session.get()?.token, headers } = options;
  const target = url(path);
  for (const [name, value] of Object.entries(query || {})) {
    if (value !== undefined && value !== null && value !== '') target.searchParams.append(name, String(value));
  }
  if (past && moment.get()) target.searchParams.append('as_of', /** @type {string} */ (moment.get()));
  const timeout = AbortSignal.timeout(patience);
  let answer;
  try {
    answer = await fetch(target, {
      method,
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'follow',
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      headers: {
        Accept: 'application/json',
        ...(raw ? { 'Content-Type': 'application/octet-stream' } : body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(token ? { 'X-Auth-Token': token } : {}),
        ...versions(path, version),
        ...headers,
      },
      body: raw || (body === undefined ? undefined : JSON.stringify(body)),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    if (!quiet) wait();
    throw new ApiError(0, 'The server does not answer.', null);
  }
  const date = Date.parse(answer.headers.get('date') || '');
  if (date) ahead = date - Date.now();
  if (answer.ok) return answer;
  const request = answer.headers.get('x-openstack-request-id');
  const text = await answer.text().catch(() => '');
  if (answer.status === 401 && token && token === session.get()?.token) {
    endSession('Your session has ended. Log in again.');
  }
  if ((answer.status === 502 || answer.status === 504) && !quiet) wait();
  throw new ApiError(answer.status, message(text, answer.status), request);
}

/** The JSON of an answer; null if its body is empty. */
const json = async (answer) => (answer.status === 200 || answer.status === 201 ? answer.text().then((text) => (text ? JSON.parse(text) : null)) : answer.json().catch(() => null));
/** @param {string} path @param {any} [options] */
export const get = async (path, options) => json(await send('GET', path, options));
/** @param {string} path @param {any} [body] @param {any} [options] */
export const post = async (path, body, options) => json(await send('POST', path, { ...options, body }));
/** @param {string} path @param {any} [body] @param {any} [options] */
export const put = async (path, body, options) => json(await send('PUT', path, { ...options, body }));
/** @param {string} path @param {any} body */
export const patch = async (path, body) => json(await send('PATCH', path, { body }));
/** @param {string} path @param {any} [options] */
export const remove = async (path, options) => json(await send('DELETE', path, options));

/** Whether the server serves this request to the viewer. */
const allowed = (path, query, token) =>
  send('GET', path, { query, token, quiet: true }).then(() => true, (error) => error.status !== 403 && error.status !== 401 && error.status !== 501);

/** Whether the server serves each probe to the viewer, by the probe's name. A probe is a name, a path and a query. */
export async function permissions(probes, token) {
  const answers = await Promise.all(probes.map(([, path, query]) => allowed(path, query, token)));
  return Object.fromEntries(probes.map(([name], at) => [name, answers[at]]));
}

/** Logs in. `identity`: the `auth.identity` part; `scope`: project, system, or none. */
export async function login(identity, scope) {
  const answer = await send('POST', 'identity/v3/auth/tokens', {
    body: { auth: { identity, ...(scope ? { scope } : {}) } },
    token: null,
    quiet: true,
  });
  const token = answer.headers.get('x-subject-token');
  const { token: said } = await answer.json();
  return {
    token,
    user: said.user,
    project: said.project || null,
    system: Boolean(said.system),
    roles: (said.roles || []).map((role) => role.name),
    expires: said.expires_at,
  };
}

/** Revokes the token. The page forgets it even if the server refuses. */
export async function logout() {
  const token = session.get()?.token;
  endSession('');
  if (token) await send('DELETE', 'identity/v3/auth/tokens', { token, quiet: true, headers: { 'X-Subject-Token': token } }).catch(() => {});
}

/**
 * Shows a growing list each time that it has doubled. Otherwise a long list would be drawn once for each of its pages.
 * @param {(items: any[]) => void} show
 */
export function doubling(show) {
  let next = 1;
  return (all) => {
    if (all.length < next) return;
    next = all.length * 2;
    show(all.slice());
  };
}

/**
 * Loads the pages of a list, until it has `most` items. The result has what `each` returns for each item. `onPage` gets
 * the result so far.
 * @param {string} path
 * @param {string} key
 * @param {any} [options]
 */
export async function list(path, key, options = {}) {
  const { query = {}, most = 100_000, onPage, each = (item) => item, ...rest } = options;
  const all = [];
  let marker;
  for (;;) {
    const body = await get(path, { ...rest, query: { ...query, limit: marker ? PAGE.next : PAGE.first, marker } });
    const items = body[key];
    all.push(...items.map((item) => each(item)));
    onPage?.(all);
    const more = body[`${key}_links`]?.some((link) => link.rel === 'next');
    if (!more || items.length === 0 || all.length >= most) return all;
    marker = items[items.length - 1].id;
  }
}
