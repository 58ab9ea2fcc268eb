// The health of the process: its log, its read models, their checkpoints, and running work.
import { html } from '../lib/html.js';
import { url } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { Badge, Facts, Meter, Notice, Table, Trouble } from '../lib/ui.js';

/** An answer with 503 also has a report. */
const report = async (signal) => (await fetch(url('healthz'), { cache: 'no-store', credentials: 'omit', signal })).json();

const WORK = [
  { name: 'what', title: 'Work', show: (w) => w.what || w.name || w.kind },
  { name: 'percent', title: 'Done', show: (w) => html`<${Meter} used=${Math.round(w.percent ?? 0)} total="100" unit="%" label="done" />` },
  { name: 'rate', title: 'Events per second', show: (w) => Math.round(w.events_per_second ?? 0) },
  { name: 'left', title: 'Seconds left', show: (w) => Math.round(w.eta_seconds ?? w.seconds_left ?? 0) },
];

export default function Health() {
  const load = useLoad(report, ['health'], { every: 2000 });
  const health = load.data;
  if (!health) return html`<h1>Health</h1><${Trouble} load=${load} what="report" />`;
  const views = health.read_models || {};
  return html`<div class="title"><h1>Health <${Badge}>${health.status}<//></h1></div>
    <h2>Checks</h2>
    <${Facts} items=${Object.entries(health.checks || {}).map(([name, state]) => [name, html`<${Badge}>${state}<//>`])} />
    <h2>Log and read models</h2>
    <${Facts} items=${[
      ['Log at position', views.log_position], ['Read models at', views.position], ['Behind by', views.log_position - views.position],
      ['Newest checkpoint at', views.checkpoint?.position], ['Events since the checkpoint', views.log_position - (views.checkpoint?.position || 0)],
    ]} />
    ${views.checkpoint?.failure && html`<${Notice} bad>The last checkpoint failed: ${views.checkpoint.failure}<//>`}
    ${(views.remarks || []).map((remark) => html`<${Notice}>${typeof remark === 'string' ? remark : JSON.stringify(remark)}<//>`)}
    <h2>Work under way</h2>
    <${Table} label="Work under way" columns=${WORK} rows=${(views.work || []).map((one, at) => ({ id: at, ...one }))} empty="None: no replay, no rebuild." />`;
}
