//! Application credentials. With such a credential, a program logs in as the credential's user, to one project and with
//! some of the user's roles.
//!
//! A credential ends with the rights that it passes on: with its user, its project and its roles, and as soon as its
//! user is disabled or loses a role on its project. The fold removes it then, so no crash leaves one behind. The state
//! keeps credentials and access rules below their users, so a look-up cannot reach another user's.

use std::collections::{BTreeMap, BTreeSet};

use super::{ApplicationCredential, Grant, Identity, IdentityEvent, UserAccessRule};
use crate::ids::{AccessRuleId, ApplicationCredentialId, ProjectId, RoleId, UserId};
use crate::sealed::ERASED;

impl Identity {
    /// The user's application credentials, by id.
    pub fn credentials_of<'a>(&'a self, user: &UserId) -> impl Iterator<Item = &'a ApplicationCredential> + use<'a> {
        self.credentials.get(user).into_iter().flat_map(BTreeMap::values)
    }

    pub fn credential(&self, user: &UserId, id: &ApplicationCredentialId) -> Option<&ApplicationCredential> {
        self.credentials.get(user)?.get(id)
    }

    /// The credential with this id, whoever its user is. Only a log-in may call this, because the program proves that
    /// it knows the secret.
    pub fn credential_of_anyone(&self, id: &ApplicationCredentialId) -> Option<&ApplicationCredential> {
        self.credentials.values().find_map(|of| of.get(id))
    }

    /// The user's access rules, by id.
    pub fn access_rules_of<'a>(&'a self, user: &UserId) -> impl Iterator<Item = &'a UserAccessRule> + use<'a> {
        self.access_rules.get(user).into_iter().flat_map(BTreeMap::values)
    }

    pub fn access_rule(&self, user: &UserId, id: &AccessRuleId) -> Option<&UserAccessRule> {
        self.access_rules.get(user)?.get(id)
    }

    /// The access rules of a credential; `None` if it permits all requests.
    pub fn rules_of(&self, credential: &ApplicationCredential) -> Option<Vec<&UserAccessRule>> {
        let ids = credential.access_rules.as_ref()?;
        Some(ids.iter().filter_map(|id| self.access_rule(&credential.user, id)).collect())
    }

    /// The credential's roles that its user still has, and the roles that these imply.
    pub fn roles_of_credential(&self, credential: &ApplicationCredential) -> BTreeSet<RoleId> {
        let held = self.roles_on(&credential.user, &credential.scope());
        let mut roles: BTreeSet<RoleId> = credential.roles.intersection(&held).cloned().collect();
        self.add_implied(&mut roles);
        roles
    }

    /// Removes the credentials that an event ends.
    fn end_credentials(&mut self, ends: impl Fn(&ApplicationCredential) -> bool) {
        self.credentials.retain(|_, of| {
            of.retain(|_, credential| !ends(credential));
            !of.is_empty()
        });
    }

    /// As in Keystone, the loss of any role on a project ends the user's credentials for the project. An inherited role
    /// may be on many projects, so its loss ends the credentials that have a lost role.
    pub(super) fn end_credentials_without(&mut self, user: &UserId, lost: &Grant) {
        let ended: BTreeSet<ApplicationCredentialId> = self
            .credentials_of(user)
            .filter(|credential| {
                let scope = credential.scope();
                let whole = !lost.inherited && lost.scope == scope;
                whole || !credential.roles.is_subset(&self.roles_on(user, &scope))
            })
            .map(|credential| credential.id.clone())
            .collect();
        if let Some(of) = self.credentials.get_mut(user) {
            of.retain(|id, _| !ended.contains(id));
        }
    }

    pub(super) fn end_credentials_of_role(&mut self, role: &RoleId) {
        self.end_credentials(|credential| credential.roles.contains(role));
    }

    pub(super) fn end_credentials_of_project(&mut self, project: &ProjectId) {
        self.end_credentials(|credential| credential.project == *project);
    }

    /// A disabled user keeps the access rules, a deleted user has nothing.
    pub(super) fn end_credentials_of_user(&mut self, user: &UserId, deleted: bool) {
        self.credentials.remove(user);
        if deleted {
            self.access_rules.remove(user);
        }
    }

    /// Removes what the user has typed. A rule without its words permits no request.
    pub(super) fn erase_credentials(&mut self, user: &UserId) {
        for credential in self.credentials.get_mut(user).into_iter().flat_map(BTreeMap::values_mut) {
            ERASED.clone_into(&mut credential.name);
            credential.description = None;
        }
        for rule in self.access_rules.get_mut(user).into_iter().flat_map(BTreeMap::values_mut) {
            ERASED.clone_into(&mut rule.service);
            ERASED.clone_into(&mut rule.path);
        }
    }

    pub(super) fn evolve_credential(&mut self, event: &IdentityEvent) {
        match event {
            IdentityEvent::ApplicationCredentialCreated(e) => {
                let credential = ApplicationCredential {
                    id: e.credential.clone(),
                    user: e.user.clone(),
                    project: e.project.clone(),
                    name: e.name.clone(),
                    description: e.description.clone(),
                    secret: e.secret.clone(),
                    roles: e.roles.iter().cloned().collect(),
                    expires_at: e.expires_at,
                    unrestricted: e.unrestricted,
                    access_rules: e.access_rules.clone(),
                };
                self.credentials.entry(e.user.clone()).or_default().insert(e.credential.clone(), credential);
            }
            IdentityEvent::ApplicationCredentialDeleted(e) => {
                if let Some(of) = self.credentials.get_mut(&e.user) {
                    of.remove(&e.credential);
                }
            }
            IdentityEvent::AccessRuleCreated(e) => {
                let rule = UserAccessRule {
                    id: e.rule.clone(),
                    service: e.service.clone(),
                    method: e.method.clone(),
                    path: e.path.clone(),
                };
                self.access_rules.entry(e.user.clone()).or_default().insert(e.rule.clone(), rule);
            }
            IdentityEvent::AccessRuleDeleted(e) => {
                if let Some(of) = self.access_rules.get_mut(&e.user) {
                    of.remove(&e.rule);
                }
            }
            _ => {}
        }
    }
}
