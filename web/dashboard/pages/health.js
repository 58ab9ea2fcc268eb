// The health of the process: its log, its read models, their checkpoints, running work, and the metrics over time.
import { html } from '../lib/html.js';
import { url } from '../lib/api.js';
import { Chart } from '../lib/chart.js';
import { follow } from '../lib/metrics.js';
import { useLoad } from '../lib/load.js';
import { Badge, Meter, Notice, Table, Tiles, Trouble } from '../lib/ui.js';

/** An answer with 503 also has a report. */
const report = async (signal) => (await fetch(url('healthz'), { cache: 'no-store', credentials: 'omit', signal })).json();

const WORK = [
  { name: 'what', title: 'Work', show: (w) => w.what || w.name || w.kind },
  { name: 'percent', title: 'Done', show: (w) => html`<${Meter} used=${Math.round(w.percent ?? 0)} total="100" unit="%" label="done" />` },
  { name: 'rate', title: 'Events per second', show: (w) => Math.round(w.events_per_second ?? 0) },
  { name: 'left', title: 'Seconds left', show: (w) => Math.round(w.eta_seconds ?? w.seconds_left ?? 0) },
];

/**
 * The charts: title and series. A series has a label, a unit and the name of its values in a point.
 * @type {[string, [string, string, string][]][]}
 */
const CHARTS = [
  ['Requests', [['answered', 'per second', 'requests'], ['failed with 5xx', 'per second', 'failed']]],
  ['Time of a request', [['mean', 'ms', 'millis']]],
  ['Events', [['recorded', 'per second', 'events']]],
  ['Processes', [['unfinished', '', 'unfinished'], ['stuck', '', 'stuck']]],
  ['Compute hosts', [['up', '', 'up'], ['down', '', 'down']]],
];

function Metrics() {
  const load = useLoad(follow, ['metrics'], { every: 2000 });
  const points = load.data || [];
  const times = points.map((point) => point.at);
  return html`<h2>Since this page was opened</h2>
    ${load.error && load.error.status !== 0 && html`<${Notice} bad>The metrics cannot be read: ${load.error.message}<//>`}
    ${points.length > 1
      ? html`<div class="charts">${CHARTS.map(([title, series]) => html`<${Chart} key=${title} title=${title} times=${times}
          series=${series.map(([label, unit, name]) => ({ label, unit, values: points.map((point) => point[name]) }))} />`)}</div>`
      : html`<p class="quiet" role="status">The lines begin in a few seconds.</p>`}`;
}

export default function Health() {
  const load = useLoad(report, ['health'], { every: 2000 });
  const health = load.data;
  if (!health) return html`<h1>Health</h1><${Trouble} load=${load} what="report" />`;
  const views = health.read_models || {};
  const behind = views.log_position - views.position;
  const since = views.log_position - (views.checkpoint?.position || 0);
  return html`<div class="title"><h1>Health <${Badge}>${health.status}<//></h1></div>
    <${Tiles} items=${[
      ...Object.entries(health.checks || {}).map(([name, state]) => [name, html`<${Badge}>${state}<//>`]),
      ['Log at position', views.log_position], ['Read models at', html`${views.position} <small>${behind ? `${behind} behind` : 'up to date'}</small>`, [views.position, views.log_position]],
      ['Newest checkpoint at', html`${views.checkpoint?.position ?? 0} <small>${since} events since</small>`],
    ]} />
    ${views.checkpoint?.failure && html`<${Notice} bad>The last checkpoint failed: ${views.checkpoint.failure}<//>`}
    ${(views.remarks || []).map((remark) => html`<${Notice}>${typeof remark === 'string' ? remark : JSON.stringify(remark)}<//>`)}
    <${Metrics} />
    <h2>Work under way</h2>
    <${Table} low label="Work under way" columns=${WORK} rows=${(views.work || []).map((one, at) => ({ id: at, ...one }))} empty="None: no replay, no rebuild." />`;
}
