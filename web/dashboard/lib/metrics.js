// The server's metrics as time series: rates between two readings, and the newest values of gauges. The readings of this
// session are kept while other pages are shown.
import { url } from './api.js';

/** The most points that are kept: half an hour. */
const MOST = 900;
/** A longer time without a reading leaves a gap in the lines, in seconds. */
const GAP = 10;
const LINE = /^(chronova_[a-z_]+)(?:\{(.*)\})? (\S+)$/;

/** @typedef {{at: number, requests: number, failed: number, seconds: number, timed: number, events: number, unfinished: number, stuck: number, up: number, down: number}} Reading */
/** @typedef {{at: number, requests: number|null, failed: number|null, millis: number|null, events: number|null, unfinished: number|null, stuck: number|null, up: number|null, down: number|null}} Point */

/** What the text of `/metrics` says at a time in seconds. @param {string} text @param {number} at @returns {Reading} */
export function read(text, at) {
  const reading = { at, requests: 0, failed: 0, seconds: 0, timed: 0, events: 0, unfinished: 0, stuck: 0, up: 0, down: 0 };
  for (const line of text.split('\n')) {
    const [, name, labels = '', number] = LINE.exec(line) || [];
    const value = Number(number);
    if (name === 'chronova_http_requests_total') {
      reading.requests += value;
      if (labels.includes('status="5')) reading.failed += value;
    } else if (name === 'chronova_http_request_seconds_sum') reading.seconds += value;
    else if (name === 'chronova_http_request_seconds_count') reading.timed += value;
    else if (name === 'chronova_log_position') reading.events = value;
    else if (name === 'chronova_processes_unfinished') reading.unfinished = value;
    else if (name === 'chronova_processes_stuck') reading.stuck = value;
    else if (name === 'chronova_hosts') reading[labels.includes('"up"') ? 'up' : 'down'] = value;
  }
  return reading;
}

/** The point between two readings. There are no rates after a restart, because the counters begin again. @param {Reading} before @param {Reading} now @returns {Point} */
export function between(before, now) {
  const passed = now.at - before.at;
  const sound = passed > 0 && now.requests >= before.requests && now.timed >= before.timed && now.events >= before.events;
  const rate = (name) => (sound ? (now[name] - before[name]) / passed : null);
  const timed = now.timed - before.timed;
  return {
    at: now.at, requests: rate('requests'), failed: rate('failed'), events: rate('events'),
    millis: sound && timed > 0 ? ((now.seconds - before.seconds) / timed) * 1000 : null,
    unfinished: now.unfinished, stuck: now.stuck, up: now.up, down: now.down,
  };
}

/** @type {Reading|null} */
let last = null;
/** @type {Point[]} */
let points = [];

/** Reads the metrics, and returns all points. @param {AbortSignal} signal */
export async function follow(signal) {
  const answer = await fetch(url('metrics'), { cache: 'no-store', credentials: 'omit', headers: { Accept: 'text/plain' }, signal })
    .catch((error) => { throw Object.assign(error, { status: 0 }); });
  if (!answer.ok) throw new Error(`The answer was ${answer.status}.`);
  const now = read(await answer.text(), Date.now() / 1000);
  if (last) {
    /** @type {Point} */
    const gap = { at: now.at - 1, requests: null, failed: null, millis: null, events: null, unfinished: null, stuck: null, up: null, down: null };
    points = [...points, ...(now.at - last.at > GAP ? [gap] : []), between(last, now)].slice(-MOST);
  }
  last = now;
  return points;
}
