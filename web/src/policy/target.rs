//! The attributes of an operation's target, for `%(name)s` in rules.

use std::borrow::Cow;

use chronova_events::ids::{ProjectId, UserId};

use crate::auth::Caller;

/// Name and value pairs; names may have dots (`target.user.domain_id`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyTarget {
    attributes: Vec<(Cow<'static, str>, String)>,
}

impl PolicyTarget {
    /// The caller's own project and user: the target of operations on collections.
    pub fn of(caller: &Caller) -> Self {
        let target = Self::default().user(&caller.user);
        match &caller.project {
            Some(project) => target.project(project),
            None => target,
        }
    }

    /// The target for a resource of a project and a user.
    pub fn owned(project: &ProjectId, user: &UserId) -> Self {
        Self::default().project(project).user(user)
    }

    #[must_use]
    pub fn project(self, project: &ProjectId) -> Self {
        self.with("project_id", project.as_str()).with("tenant_id", project.as_str())
    }

    #[must_use]
    pub fn user(self, user: &UserId) -> Self {
        self.with("user_id", user.as_str())
    }

    /// Sets an attribute.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.attributes.retain(|(known, _)| *known != name);
        self.attributes.push((name, value.into()));
        self
    }

    /// Sets the attributes of an embedded service's resource.
    #[must_use]
    pub fn with_all(self, attributes: &[(&'static str, String)]) -> Self {
        attributes.iter().fold(self, |target, (name, value)| target.with(*name, value))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
