// The scheduler's page. It shows why a server is on its host, which host a new server would get, and where the servers
// of a host would go.
import { html, useEffect, useState } from '../lib/html.js';
import { get, list, post } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { Badge, Choice, Field, Notice, Table, Tabs, Tiles, Trouble, gibibytes, mebibytes } from '../lib/ui.js';
import { Decision, Decisions } from './decisions.js';

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

function Why({ query }) {
  const [text, setText] = useState(query.get('server') || '');
  const [asked, setAsked] = useState(text);
  const load = useLoad(async (signal) => {
    if (!asked || ID.test(asked)) return { id: asked };
    const name = `^${asked.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`;
    const { servers } = await get('compute/v2.1/servers', { signal, query: { all_tenants: 1, name, limit: 2 } });
    return servers.length === 1 ? { id: servers[0].id } : { error: servers.length ? 'Several servers have this name: give the id.' : 'There is no such server.' };
  }, ['why', asked]);
  const ask = (event) => { event.preventDefault(); setAsked(text.trim()); };
  return html`<form class="row end" onSubmit=${ask}><${Field} label="Server: name or id"><input id="why-server" value=${text} required onInput=${(e) => setText(e.target.value)} /><//>
      <button type="submit" class="primary">Show why</button></form>
    <${Trouble} load=${load} what="server" />
    ${load.data?.error && html`<${Notice} bad>${load.data.error}<//>`}
    ${load.data?.id ? html`<${Decisions} key=${load.data.id} id=${load.data.id} />` : html`<p class="quiet">The log keeps each decision with its reasons: the hosts that each filter left, and the weights of the best.</p>`}`;
}

/** `KEY=VALUE` pairs, separated by commas or line breaks, as an object. */
const pairs = (text) => Object.fromEntries(text.split(/[\n,]/).map((line) => line.trim()).filter(Boolean).map((line) => { const at = line.indexOf('='); return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]; }));

function WhatIf() {
  const choices = useLoad(async (signal) => {
    const [flavors, images, zones] = await Promise.all([
      list('compute/v2.1/flavors/detail', 'flavors', { signal, most: 1000, query: { is_public: 'None' } }),
      get('image/v2/images', { signal, query: { status: 'active', limit: 200 } }).then((body) => body.images, () => []),
      get('compute/v2.1/os-availability-zone', { signal }).then((body) => body.availabilityZoneInfo.map((one) => one.zoneName), () => []),
    ]);
    return { flavors, images, zones };
  }, ['what-if']);
  const [form, setForm] = useState({ flavor: '', image: '', zone: '', host: '', count: '1', hints: '', specs: '' });
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [error, setError] = useState('');
  const put = (name) => (event) => setForm({ ...form, [name]: event.target ? event.target.value : event });
  const { data } = choices;
  if (!data) return html`<${Trouble} load=${choices} what="choice" />`;
  const chosen = form.flavor || data.flavors[0]?.id;
  const ask = async (event) => {
    event.preventDefault();
    setError('');
    const zone = form.host ? `${form.zone}:${form.host}` : form.zone;
    const what = {
      flavor: chosen, count: Number(form.count) || 1, hints: pairs(form.hints), extra_specs: pairs(form.specs),
      ...(form.image && { image: form.image }), ...(zone && { availability_zone: zone }),
    };
    try {
      setAnswer((await post('chronova/v1/scheduler/what-if', { what_if: what })).decisions);
    } catch (failure) {
      setAnswer(null);
      setError(failure.message);
    }
  };
  const hosts = new Map();
  for (const one of answer || []) if (one.chosen) hosts.set(one.chosen, (hosts.get(one.chosen) || 0) + 1);
  const placed = (answer || []).filter((one) => one.chosen).length;
  return html`<form class="sheet wide" onSubmit=${ask} aria-label="What if"><div class="fields">
      <${Field} label="Flavor"><${Choice} id="if-flavor" value=${chosen} onChange=${put('flavor')} options=${data.flavors.map((one) => [one.id, `${one.name}: ${one.vcpus} CPU, ${mebibytes(one.ram)}, ${gibibytes(one.disk)}`])} /><//>
      <${Field} label="Image"><${Choice} id="if-image" value=${form.image} onChange=${put('image')} options=${[['', '(none)'], ...data.images.map((one) => [one.id, one.name || one.id])]} /><//>
      <${Field} label="Availability zone"><${Choice} id="if-zone" value=${form.zone} onChange=${put('zone')} options=${[['', '(any)'], ...data.zones.map((one) => [one, one])]} /><//>
      <${Field} label="Number of servers" hint="One after the other"><input id="if-count" type="number" min="1" max="200" value=${form.count} onInput=${put('count')} /><//>
      <${Field} label="Scheduler hints" hint="KEY=VALUE, separated by commas"><input id="if-hints" value=${form.hints} placeholder="group=…" onInput=${put('hints')} /><//>
      <${Field} label="More extra specs" hint="As if the flavor had them"><input id="if-specs" value=${form.specs} placeholder="hw:cpu_policy=dedicated" onInput=${put('specs')} /><//>
    </div><div class="row"><button type="submit" class="primary" id="ask">Ask the scheduler</button><span class="quiet">Nothing is claimed, nothing is recorded.</span></div></form>
    ${error && html`<${Notice} bad>${error}<//>`}
    ${answer && html`<div id="answer">
      ${answer.length > 1 && html`<${Tiles} items=${[['Placed', `${placed} of ${form.count}`, [placed, Number(form.count)]], ...[...hosts].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([name, count]) => [name, count, [count, placed]])]} />`}
      <${Decision} decision=${answer[0]} title="First server" />
      ${answer.length > 1 && html`<${Decision} decision=${answer[answer.length - 1]} title=${`Server ${answer.length}`} />`}</div>`}`;
}

const PLAN = [
  { name: 'name', title: 'Server', value: (s) => s.name, show: (s) => html`<a href=${`#/servers/${s.id}`}>${s.name}</a>` },
  { name: 'how', title: 'Plan', value: (s) => s.how, show: (s) => html`<${Badge}>${s.how}<//>` },
  { name: 'to', title: 'To', value: (s) => s.to, show: (s) => s.to },
  { name: 'reason', title: 'Why', value: (s) => s.reason, show: (s) => s.reason },
];

/** The plan of a drain: where each server of a host would go. */
export function Plan({ host }) {
  const load = useLoad((signal) => get(`chronova/v1/hosts/${encodeURIComponent(host)}/drain/plan`, { signal }).then((body) => body.plan.servers.map((one) => ({ ...one, id: one.server }))), ['plan', host]);
  const rows = load.data || [];
  const count = (test) => rows.filter(test).length;
  return html`<${Trouble} load=${load} what="host" />${load.data && html`<div id="plan">
    <${Tiles} items=${[['Servers', rows.length], ['Would move', count((one) => one.to), [count((one) => one.to), rows.length]], ['Would stay', count((one) => one.how === 'stays')], ['Must end a task first', count((one) => one.how === 'waits')]]} />
    <${Table} low label="Plan of the drain" columns=${PLAN} rows=${rows} rowClass=${(one) => (one.how === 'stays' ? 'bad' : '')} empty="The host is empty." /></div>`}`;
}

/** The most hosts that a menu offers. */
const MENU = 500;

function Drain({ query }) {
  const load = useLoad((signal) => get('chronova/v1/hosts', { signal }).then((body) => body.hosts), ['hosts']);
  const [host, setHost] = useState(query.get('host') || '');
  const chosen = host || load.data?.[0]?.name;
  return html`<${Trouble} load=${load} what="host" />
    ${load.data?.length === 0 && html`<p class="quiet">There are no hosts.</p>`}
    ${chosen && html`<div class="row end"><${Field} label="Host">${(load.data || []).length > MENU
        ? html`<input id="drain-host" value=${chosen} onChange=${(e) => setHost(e.target.value.trim())} />`
        : html`<${Choice} id="drain-host" value=${chosen} onChange=${setHost} options=${(load.data || []).map((one) => [one.name, `${one.name} (servers: ${one.servers})`])} />`}<//>
      <a class="button" href=${`#/fleet?host=${encodeURIComponent(chosen)}`}>To the host</a></div><${Plan} key=${chosen} host=${chosen} />`}`;
}

export default function Scheduler({ query }) {
  const wanted = query.get('tab') || (query.get('host') ? 'drain' : 'what-if');
  const [tab, setTab] = useState(wanted);
  useEffect(() => setTab(wanted), [wanted]);
  return html`<div class="title"><h1>Scheduler</h1></div>
    <${Tabs} label="Questions" tab=${tab} onTab=${setTab} tabs=${[['what-if', 'What if'], ['why', 'Why this host'], ['drain', 'Dry run of a drain']]}>
      ${tab === 'what-if' && html`<${WhatIf} />`}${tab === 'why' && html`<${Why} query=${query} />`}${tab === 'drain' && html`<${Drain} query=${query} />`}<//>`;
}
