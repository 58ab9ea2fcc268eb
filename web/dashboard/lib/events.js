// Events of the log: reads them, follows them, and describes them in words.
import { ApiError, get, url } from './api.js';
import { moment, session } from './state.js';

const LOG = 'chronova/v1/events';
/** The default limit of events for one query. */
const MOST = 5000;
/** The first and the longest pause before a feed connects again, in milliseconds. */
const PAUSE = { first: 2000, longest: 30_000 };

/**
 * The events that match the filters, oldest first, until the moment of the time bar. Stops after about `most` events.
 * `onPage` gets the events so far.
 * @param {any} query @param {AbortSignal} signal @param {number} [most] @param {(all: any[]) => void} [onPage]
 */
export async function events(query, signal, most = MOST, onPage) {
  const all = [];
  let after;
  for (;;) {
    const until = moment.get() || undefined;
    const page = await get(LOG, { signal, query: { ...query, ...(until && { until }), after, limit: 1000 } });
    all.push(...page.events);
    onPage?.(all);
    if (page.next === null || all.length >= most) return { events: all, next: page.next, position: page.position };
    after = page.next;
  }
}

/** The positions that the first look at the end of a log covers, and by how much the next look may cover more. */
const LOOK = { first: 1000, growth: 4 };

/** The position of the read models: what a list shows afterwards is at least as new. @param {AbortSignal} [signal] */
export async function position(signal) {
  // An answer with 503 also has the position, but not while the server starts.
  const answer = await fetch(url('healthz'), { cache: 'no-store', credentials: 'omit', signal }).catch((error) => {
    if (signal?.aborted) throw error;
    throw new ApiError(0, 'The server does not answer.', null);
  });
  const body = await answer.json().catch(() => null);
  const found = body?.read_models?.position;
  if (!Number.isInteger(found)) throw new ApiError(503, 'The server starts.', null);
  return /** @type {number} */ (found);
}

/** The events that match the filters between two positions, oldest first; null if they are more than `most`. */
async function between(query, after, upTo, signal, most) {
  const all = [];
  for (let from = after; ;) {
    const page = await get(LOG, { signal, query: { ...query, after: from, up_to: upTo, limit: 1000 } });
    all.push(...page.events);
    if (page.next === null) return all;
    if (all.length > most) return null;
    from = page.next;
  }
}

/** How far the clocks of the writers of a log may differ, in milliseconds. */
const SKEW = 3_600_000;

/** Whether the log up to a position is from before a time. The event that follows the position tells. */
async function isBefore(end, since, signal) {
  const page = await get(LOG, { signal, query: { after: end, limit: 1 } });
  return page.events.length > 0 && Date.parse(page.events[0].recorded_at) < Date.parse(since) - SKEW;
}

/**
 * The newest events that match the filters, oldest first, until the moment of the time bar. Looks at the end of the log
 * first, and then at longer and longer parts before. Stops after about `most` events; `more` says whether older events
 * may match. `onPage` gets the events so far.
 * @param {any} query @param {AbortSignal} signal @param {number} most @param {(all: any[]) => void} [onPage]
 */
export async function newest(query, signal, most, onPage) {
  const until = moment.get() || undefined;
  const asked = { ...query, ...(until && { until }) };
  let all = /** @type {any[]} */ ([]);
  let end = await position(signal);
  for (let span = LOOK.first; end > 0 && all.length < most;) {
    const after = Math.max(0, end - span);
    const found = await between(asked, after, end, signal, 2 * most);
    if (!found) {
      // This part of the log has more matching events than one search may return, so the next search looks at less.
      span = Math.ceil(span / LOOK.growth);
      continue;
    }
    all = [...found, ...all];
    onPage?.(all);
    end = after;
    if (query.since && end > 0 && await isBefore(end, query.since, signal)) return { events: all, more: false };
    // The next part is as long as the missing events need, if the log before has matching events as often as this part.
    const rest = Math.ceil(((most - all.length) * span) / Math.max(1, found.length));
    span = Math.max(LOOK.first, Math.min(rest, span * LOOK.growth));
  }
  return { events: all, more: end > 0 };
}

/**
 * Follows a feed of server-sent events until the signal aborts. Uses `fetch`, because `EventSource` sends no token.
 * @param {string} path
 * @param {any} query
 * @param {(() => Promise<string|number>)|number|null} from the id of the last known event, or how to find it
 * @param {(event: any) => void} onEvent
 * @param {AbortSignal} signal
 * @param {(alive: boolean) => void} onState
 */
export async function followStream(path, query, from, onEvent, signal, onState) {
  let last = /** @type {string|number|null} */ (typeof from === 'function' ? null : from);
  let pause = PAUSE.first;
  while (!signal.aborted) {
    try {
      if (typeof from === 'function' && last === null) last = await from();
      const target = url(path);
      for (const [name, value] of Object.entries(query)) if (value) target.searchParams.append(name, String(value));
      const answer = await fetch(target, {
        cache: 'no-store', credentials: 'omit', signal,
        headers: {
          Accept: 'text/event-stream', 'X-Auth-Token': session.get()?.token || '',
          ...(last === null || last === '' ? {} : { 'Last-Event-ID': String(last) }),
        },
      });
      if (!answer.ok || !answer.body) throw new Error(String(answer.status));
      pause = PAUSE.first;
      onState(true);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const blocks = (rest + value).split('\n\n');
        rest = blocks.pop() || '';
        for (const block of blocks) {
          const lines = block.split('\n');
          const id = lines.find((line) => line.startsWith('id: '));
          if (id) last = Number(id.slice(4));
          const data = lines.filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).join('\n');
          if (data) onEvent(JSON.parse(data));
        }
      }
    } catch {
      if (signal.aborted) return;
    }
    onState(false);
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, PAUSE.longest);
  }
}

/** Follows the log after a position. */
export const follow = (query, after, onEvent, signal, onState) => followStream(LOG, query, after, onEvent, signal, onState);

const words = (text) => text.replaceAll('_', ' ').replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();

/** An event in words. `process.step_done` of `AllocateNetworks` is "allocate networks: done". */
export function sentence(event) {
  const { kind, payload = {} } = event;
  const [noun, fact] = kind.split('.');
  const step = payload.step && words(typeof payload.step === 'string' ? payload.step : Object.keys(payload.step)[0]);
  if (noun === 'process') {
    if (fact === 'started') return `process ${words(typeof payload.task === 'string' ? payload.task : Object.keys(payload.task || {})[0] || '')} began`;
    if (fact === 'finished') return `process ended: ${outcome(payload.outcome)}`;
    if (step) return `${step}: ${words(fact.replace('step_', ''))}`;
  }
  return `${noun.replaceAll('_', ' ')}: ${words(fact)}`;
}

function outcome(told) {
  if (typeof told === 'string') return words(told);
  return told ? words(Object.keys(told)[0]) : '';
}

/** The reason of a failure. */
export function reason(event) {
  const { payload = {}, reason: told } = event;
  const texts = [told?.reasonText, payload.reason, payload.fault?.message, payload.fault?.details, payload.fault].filter((one) => typeof one === 'string');
  return texts[0] || '';
}

export const bad = (event) => event.outcome === 'failure' || /failed|stuck|called_off/.test(event.kind);

/** The user, or the part of Chronova, that caused the event. */
export const who = (event) => event.cause?.user || (event.cause?.system ?? (event.cause?.process ? 'process' : ''));

const names = new Map();
/** The name of a user or project if the viewer may see it; otherwise the id. */
export function nameOf(kind, id) {
  if (!id) return Promise.resolve('');
  const key = `${kind}/${id}`;
  if (!names.has(key)) {
    names.set(key, get(`identity/v3/${key}`, { quiet: true }).then((body) => Object.values(body)[0].name, () => id));
  }
  return names.get(key);
}
export const forget = () => names.clear();
