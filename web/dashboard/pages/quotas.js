// Quotas of one project: used, reserved and allowed amounts of Compute, volumes and networks.
import { html, useState } from '../lib/html.js';
import { get, put } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { Act, Choice, Field, Gauge, Trouble, mebibytes } from '../lib/ui.js';

/** Services: title, the paths for reading and setting a project's quotas, and the key of the body. */
const SERVICES = [
  { title: 'Compute', read: (id) => `compute/v2.1/os-quota-sets/${id}/detail`, write: (id) => `compute/v2.1/os-quota-sets/${id}`, key: 'quota_set' },
  { title: 'Volumes', read: (id) => `volume/v3/os-quota-sets/${id}?usage=True`, write: (id) => `volume/v3/os-quota-sets/${id}`, key: 'quota_set' },
  { title: 'Networks', read: (id) => `network/v2.0/quotas/${id}/details`, write: (id) => `network/v2.0/quotas/${id}`, key: 'quota' },
];

const words = (name) => name.replaceAll('_', ' ');
const used = (quota) => quota.in_use ?? quota.used ?? 0;

function Row({ name, quota, may, save }) {
  const [limit, setLimit] = useState(String(quota.limit));
  const show = name === 'ram' ? mebibytes : String;
  const changed = limit !== String(quota.limit) && /^-?\d+$/.test(limit);
  return html`<tr data-id=${name}><td>${words(name)}</td><td class="right">${show(used(quota))}</td><td class="right">${quota.reserved || ''}</td>
    <td class="right">${quota.limit < 0 ? 'unlimited' : show(quota.limit)}</td><td>${quota.limit > 0 && html`<${Gauge} scarce used=${used(quota)} total=${quota.limit} />`}</td>
    ${may && html`<td><span class="row"><input class="small" aria-label=${`New limit of ${words(name)}`} inputmode="numeric" size="8" value=${limit} onInput=${(e) => setLimit(e.target.value)} />
      <${Act} small disabled=${!changed} done=${`${words(name)}: the limit is ${limit}.`} on=${() => save(name, Number(limit))}>Set<//></span></td>`}</tr>`;
}

function Quotas({ service, project, may }) {
  const load = useLoad((signal) => get(service.read(project), { signal }).then((body) => body[service.key]), ['quotas', service.title, project], { every: 10_000 });
  const rows = Object.entries(load.data || {}).filter(([, quota]) => quota && typeof quota === 'object' && 'limit' in quota);
  const save = (name, limit) => put(service.write(project), { [service.key]: { [name]: limit } }).then(load.reload);
  return html`<section class="sheet" aria-label=${`Quotas: ${service.title}`}><h2>${service.title}</h2><${Trouble} load=${load} what="quota" />
    ${rows.length > 0 && html`<div class="table" tabindex="0" role="region" aria-label=${`Quotas of ${service.title}`}><table><thead><tr><th scope="col">Resource</th><th scope="col" class="right">Used</th><th scope="col" class="right">Reserved</th><th scope="col" class="right">Allowed</th><th scope="col">Share</th>${may && html`<th scope="col">New limit</th>`}</tr></thead>
      <tbody>${rows.map(([name, quota]) => html`<${Row} key=${`${name} ${quota.limit}`} name=${name} quota=${quota} may=${may} save=${save} />`)}</tbody></table></div>`}</section>`;
}

export default function QuotasPage({ viewer, query }) {
  const [project, setProject] = useState(query.get('project') || viewer.project?.id || '');
  const projects = useLoad((signal) => get('identity/v3/projects', { signal, quiet: true }).then((body) => body.projects, () => []), ['projects']);
  const choices = (projects.data || []).map((one) => [one.id, one.name]);
  if (viewer.project && !choices.some(([id]) => id === viewer.project.id)) choices.unshift([viewer.project.id, viewer.project.name]);
  const chosen = project || choices[0]?.[0];
  return html`<div class="title"><h1>Quotas</h1>${choices.length > 1 && html`<${Field} label="Project"><${Choice} id="project" value=${chosen} onChange=${setProject} options=${choices} /><//>`}</div>
    ${chosen && html`<div key=${chosen}>${SERVICES.map((service) => html`<${Quotas} key=${service.title} service=${service} project=${chosen} may=${viewer.may.quotas} />`)}</div>`}`;
}
