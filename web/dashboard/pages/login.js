// Log-in with a password or an application credential.
import { html, useState } from '../lib/html.js';
import { login } from '../lib/api.js';
import { Icon } from '../lib/icons.js';
import { rightsOf } from '../lib/rights.js';
import { loginNotice, session } from '../lib/state.js';
import { Choice, Field, Notice } from '../lib/ui.js';

function credentials(form) {
  if (form.method === 'application_credential') {
    return [{ methods: ['application_credential'], application_credential: { id: form.credential, secret: form.secret } }, null];
  }
  const domain = { name: form.domain || 'Default' };
  const identity = { methods: ['password'], password: { user: { name: form.user, domain, password: form.password } } };
  if (form.scope === 'system') return [identity, { system: { all: true } }];
  return [identity, { project: { name: form.project, domain } }];
}

export default function Login() {
  const notice = loginNotice.use();
  const [form, setForm] = useState({ method: 'password', scope: 'project', user: '', password: '', domain: 'Default', project: '', credential: '', secret: '' });
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const put = (name) => (event) => setForm({ ...form, [name]: event.target ? event.target.value : event });
  const byPassword = form.method === 'password';
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError('');
    try {
      const viewer = await login(...credentials({ ...form, project: form.project || form.user }));
      viewer.may = await rightsOf(viewer.token);
      loginNotice.set('');
      session.set(viewer);
    } catch (failure) {
      session.set(null);
      const wrong = byPassword ? 'Wrong user name, password or project.' : 'Wrong application credential.';
      setError(failure.status === 401 ? wrong : failure.message);
    } finally {
      setBusy(false);
    }
  };
  const text = (name, label, more = {}) => html`<${Field} label=${label}><input id=${name} name=${name} value=${form[name]} onInput=${put(name)} ...${more} /><//>`;
  return html`<main class="login"><form onSubmit=${submit} aria-label="Log in">
    <h1><${Icon} name="brand" />Chronova</h1>
    ${notice && html`<${Notice}>${notice}<//>`}
    ${error && html`<${Notice} bad><span id="login-error">${error}</span><//>`}
    <${Field} label="With"><${Choice} id="method" value=${form.method} onChange=${put('method')}
      options=${[['password', 'Password'], ['application_credential', 'Application credential']]} /><//>
    ${byPassword ? html`
      ${text('user', 'User', { autocomplete: 'username', required: true, autofocus: true })}
      ${text('password', 'Password', { type: 'password', autocomplete: 'current-password', required: true })}
      ${text('domain', 'Domain', { autocomplete: 'organization' })}
      <${Field} label="Scope"><${Choice} id="scope" value=${form.scope} onChange=${put('scope')} options=${[['project', 'Project'], ['system', 'The whole system']]} /><//>
      ${form.scope === 'project' && text('project', 'Project', { placeholder: form.user || 'as the user' })}` : html`
      ${text('credential', 'Credential id', { required: true })}
      ${text('secret', 'Secret', { type: 'password', required: true, autocomplete: 'off' })}`}
    <button type="submit" class="primary" id="login" disabled=${busy} aria-busy=${busy}>Log in</button>
    <p class="quiet">The session is held in this page alone: a reload ends it.</p>
  </form></main>`;
}
