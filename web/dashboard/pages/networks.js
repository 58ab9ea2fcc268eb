// Networks, subnets, ports, security groups, floating IPs and routers.
import { html, useState } from '../lib/html.js';
import { get, post, remove } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { Facts, Tabs } from '../lib/ui.js';
import { Create, ID, NAME, PROJECT, Remove, Resources, STATUS, column } from '../lib/resources.js';

const AT = 'network/v2.0';
const yes = (value) => (value ? 'yes' : 'no');
const addresses = (port) => (port.fixed_ips || []).map((one) => one.ip_address).join(', ');

/** Each kind, by its path: title, columns, and the key of the list if the key differs from the path. */
const KINDS = {
  networks: { title: 'Networks', columns: [NAME((r) => `#/networks?network=${r.id}`), STATUS, column('shared', 'Shared', (r) => yes(r.shared)), column('external', 'External', (r) => yes(r['router:external'])), column('mtu', 'MTU'), column('subnets', 'Subnets', (r) => (r.subnets || []).length), PROJECT('project_id'), ID] },
  subnets: { title: 'Subnets', columns: [NAME(null), column('cidr', 'Addresses'), column('gateway_ip', 'Gateway'), column('dhcp', 'DHCP', (r) => yes(r.enable_dhcp)), column('dns', 'DNS', (r) => r.dns_nameservers || []), column('network_id', 'Network'), ID] },
  ports: { title: 'Ports', columns: [NAME(null), STATUS, column('addresses', 'Addresses', addresses), column('mac_address', 'MAC address'), column('device_owner', 'Owner'), { name: 'device', title: 'Device', value: (r) => r.device_id, show: (r) => (r.device_owner?.startsWith('compute:') ? html`<a class="mono" href=${`#/servers/${r.device_id}`}>${r.device_id.slice(0, 8)}…</a>` : r.device_id) }, ID] },
  'security-groups': { key: 'security_groups', title: 'Security groups', columns: [NAME((r) => `#/networks?group=${r.id}`), column('description', 'Description'), column('rules', 'Rules', (r) => (r.security_group_rules || []).length), PROJECT('project_id'), ID] },
  floatingips: { title: 'Floating IPs', columns: [column('floating_ip_address', 'Address'), STATUS, column('fixed_ip_address', 'To'), column('port_id', 'Port'), PROJECT('project_id'), ID] },
  routers: { title: 'Routers', columns: [NAME(null), STATUS, column('gateway', 'Gateway network', (r) => r.external_gateway_info?.network_id || ''), PROJECT('project_id'), ID] },
};

const rule = (one) => [one.direction, one.ethertype, one.protocol || 'any protocol',
  one.port_range_min !== null && one.port_range_min !== undefined ? `ports ${one.port_range_min} to ${one.port_range_max}` : 'any port',
  one.remote_ip_prefix ? `with ${one.remote_ip_prefix}` : one.remote_group_id ? `with group ${one.remote_group_id}` : 'with anybody'].join(', ');

async function createNetwork(values) {
  const { network } = await post(`${AT}/networks`, { network: { name: values.name } });
  if (!values.cidr) return;
  try {
    await post(`${AT}/subnets`, { subnet: { network_id: network.id, name: values.name, cidr: values.cidr, ip_version: values.cidr.includes(':') ? 6 : 4 } });
  } catch (error) {
    await remove(`${AT}/networks/${network.id}`).catch(() => {});
    throw error;
  }
}
const createGroup = (values) => post(`${AT}/security-groups`, { security_group: { name: values.name, description: values.description } });
const CREATE = {
  networks: ['Create a network', [{ name: 'name', label: 'Name', required: true }, { name: 'cidr', label: 'Addresses of its subnet', hint: 'Like 10.1.0.0/24; empty for no subnet' }], createNetwork],
  'security-groups': ['Create a security group', [{ name: 'name', label: 'Name', required: true }, { name: 'description', label: 'Description' }], createGroup],
};

const Group = ({ group }) => html`<section class="sheet" aria-label=${`Security group ${group.name}`} id="chosen"><h2>Rules of ${group.name}</h2>
  <ul>${(group.security_group_rules || []).map((one) => html`<li>${rule(one)}</li>`)}</ul></section>`;

function Network({ network, load }) {
  const subnets = useLoad((signal) => get(`${AT}/subnets`, { signal, query: { network_id: network.id } }).then((body) => body.subnets), ['subnets of', network.id]);
  const fields = [{ name: 'cidr', label: 'Addresses', hint: 'Like 10.1.0.0/24', required: true }];
  const create = (values) => post(`${AT}/subnets`, { subnet: { network_id: network.id, cidr: values.cidr, ip_version: values.cidr.includes(':') ? 6 : 4 } }).then(() => { subnets.reload(); load.reload(); });
  return html`<section class="sheet" aria-label=${`Network ${network.name}`} id="chosen"><div class="title"><h2>${network.name || network.id}</h2><${Create} title="Add a subnet" fields=${fields} submit=${create} /></div>
    <${Facts} items=${[['Id', html`<span class="mono">${network.id}</span>`], ['MTU', network.mtu], ['Kind', network['provider:network_type']], ['Physical network', network['provider:physical_network']], ['Segment', network['provider:segmentation_id']]]} />
    <${Resources} load=${subnets} what="subnets" columns=${KINDS.subnets.columns} low /></section>`;
}

function Kind({ kind, query }) {
  const { title, columns, key = kind } = KINDS[kind];
  const load = useLoad((signal) => get(`${AT}/${kind}`, { signal }).then((body) => body[key]), [kind], { every: 10_000 });
  const wanted = query.get(kind === 'networks' ? 'network' : kind === 'security-groups' ? 'group' : '') || undefined;
  const chosen = load.data?.find((one) => one.id === wanted);
  const making = CREATE[kind];
  const act = (row, reload) => html`<${Remove} what=${`${title.toLowerCase().replace(/s$/, '')} ${row.name || row.floating_ip_address || row.id}`} on=${() => remove(`${AT}/${kind}/${row.id}`)} reload=${reload} />`;
  return html`<${Resources} load=${load} what=${title.replace('IPs', 'IP addresses').toLowerCase()} columns=${columns} act=${act} chosen=${chosen?.id} low=${Boolean(chosen)}>
      ${making && html`<${Create} title=${making[0]} fields=${making[1]} submit=${(values) => making[2](values).then(load.reload)} />`}<//>
    ${chosen && kind === 'networks' && html`<${Network} key=${chosen.id} network=${chosen} load=${load} />`}
    ${chosen && kind === 'security-groups' && html`<${Group} group=${chosen} />`}`;
}

export default function Networks({ query }) {
  const [tab, setTab] = useState(query.get('group') ? 'security-groups' : query.get('tab') || 'networks');
  return html`<div class="title"><h1>Networks</h1></div>
    <${Tabs} label="Network resources" tab=${tab} onTab=${setTab} tabs=${Object.entries(KINDS).map(([name, kind]) => [name, kind.title])}><${Kind} key=${tab} kind=${tab} query=${query} /><//>`;
}
