// Projects, users and role assignments of the identity service.
import { html, useState } from '../lib/html.js';
import { get, patch, post, put, remove } from '../lib/api.js';
import { forget } from '../lib/events.js';
import { useLoad } from '../lib/load.js';
import { Act, Tabs } from '../lib/ui.js';
import { Create, ID, NAME, Remove, Resources, column } from '../lib/resources.js';
import { Name } from '../lib/who.js';

const AT = 'identity/v3';
const enabled = column('enabled', 'Enabled', (r) => (r.enabled ? 'yes' : 'no'));
const PROJECTS = [NAME((r) => `#/quotas?project=${r.id}`), enabled, column('description', 'Description'), column('domain', 'Domain', (r) => r.domain_id), ID];
const USERS = [NAME((r) => `#/audit?user=${r.id}`), enabled, column('email', 'E-mail'), column('domain', 'Domain', (r) => r.domain_id), ID];
const scope = (row) => (row.scope.project ? html`project <${Name} kind="projects" id=${row.scope.project.id} />` : row.scope.domain ? `domain ${row.scope.domain.id}` : 'the whole system');
const ROLES = [
  { name: 'user', title: 'User', value: (r) => r.user?.name || r.user?.id, show: (r) => r.user?.name || html`<${Name} kind="users" id=${r.user?.id} />` },
  { name: 'role', title: 'Role', value: (r) => r.role.name || r.role.id, show: (r) => r.role.name || r.role.id },
  { name: 'scope', title: 'In', value: (r) => JSON.stringify(r.scope), show: scope },
];

/** Enables or disables a project or user. */
const Switch = ({ kind, row, reload }) => html`<${Act} small sure=${row.enabled ? `Disable ${row.name}? Its tokens stop working.` : undefined} on=${() => patch(`${AT}/${kind}s/${row.id}`, { [kind]: { enabled: !row.enabled } }).then(reload)}>${row.enabled ? 'Disable' : 'Enable'}<//>`;
const actions = (kind) => (row, reload) => html`<${Switch} kind=${kind} row=${row} reload=${reload} /><${Remove} what=${`${kind} ${row.name}`} on=${() => remove(`${AT}/${kind}s/${row.id}`)} reload=${reload} />`;

function Projects() {
  const load = useLoad((signal) => get(`${AT}/projects`, { signal }).then((body) => body.projects), ['projects'], { every: 10_000 });
  const fields = [{ name: 'name', label: 'Name', required: true }, { name: 'description', label: 'Description' }];
  const create = (values) => post(`${AT}/projects`, { project: { ...values, domain_id: 'default' } }).then(() => { forget(); load.reload(); });
  return html`<${Resources} load=${load} what="projects" columns=${PROJECTS} act=${actions('project')}><${Create} title="Create a project" fields=${fields} submit=${create} /><//>`;
}

function Users() {
  const load = useLoad((signal) => get(`${AT}/users`, { signal }).then((body) => body.users), ['users'], { every: 10_000 });
  const fields = [{ name: 'name', label: 'Name', required: true }, { name: 'password', label: 'Password', type: 'password', required: true }, { name: 'email', label: 'E-mail' }];
  const create = ({ email, ...values }) => post(`${AT}/users`, { user: { ...values, ...(email && { email }), domain_id: 'default' } }).then(() => { forget(); load.reload(); });
  return html`<${Resources} load=${load} what="users" columns=${USERS} act=${actions('user')}><${Create} title="Create a user" fields=${fields} submit=${create} /><//>`;
}

function Roles() {
  const load = useLoad((signal) => get(`${AT}/role_assignments`, { signal, query: { include_names: 'True' } }).then((body) => body.role_assignments.map((one) => ({ ...one, id: JSON.stringify([one.user?.id, one.role.id, one.scope]) }))), ['roles'], { every: 10_000 });
  const choices = useLoad(async (signal) => {
    const [users, roles, projects] = await Promise.all(['users', 'roles', 'projects'].map((kind) => get(`${AT}/${kind}`, { signal }).then((body) => body[kind].map((one) => [one.id, one.name]))));
    return { users, roles, projects };
  }, ['role choices']);
  const data = choices.data;
  const fields = data && [{ name: 'user', label: 'User', choices: data.users }, { name: 'role', label: 'Role', choices: data.roles }, { name: 'project', label: 'Project', choices: data.projects }];
  const path = (project, user, role) => `${AT}/projects/${project}/users/${user}/roles/${role}`;
  const act = (row, reload) => row.scope.project && row.user && html`<${Act} small danger sure="Take this role away?" on=${() => remove(path(row.scope.project.id, row.user.id, row.role.id)).then(reload)}>Take away<//>`;
  return html`<${Resources} load=${load} what="assignments" columns=${ROLES} act=${act}>
    ${fields && html`<${Create} title="Give a role" fields=${fields} submit=${(values) => put(path(values.project, values.user, values.role)).then(load.reload)} />`}<//>`;
}

export default function ProjectsPage({ query }) {
  const [tab, setTab] = useState(query.get('tab') || 'projects');
  return html`<div class="title"><h1>Projects and users</h1></div>
    <${Tabs} label="Identity" tab=${tab} onTab=${setTab} tabs=${[['projects', 'Projects'], ['users', 'Users'], ['roles', 'Roles']]}>
      ${tab === 'projects' && html`<${Projects} />`}${tab === 'users' && html`<${Users} />`}${tab === 'roles' && html`<${Roles} />`}<//>`;
}
