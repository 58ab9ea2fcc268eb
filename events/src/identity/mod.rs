//! Identity: domains, projects, users, roles and role assignments.
//!
//! All of them share one stream, `identity-main`, because two rules span them: names are unique (those of projects,
//! users and roles within their domain), and a deletion also removes dependent objects. Invariants: passwords and the
//! secrets of application credentials are stored only as argon2id hashes. Tokens are not stored. The audit ids of
//! revoked tokens are stored at least until the tokens would have expired. A user's application credentials end with
//! the rights that they pass on (`credentials`).

mod credentials;
mod limits;
mod payloads;
mod state;

pub use payloads::*;
pub use state::{
    ApplicationCredential, Domain, Grants, Identity, Project, RegisteredLimit, Role, UnifiedLimit, User, UserAccessRule,
};

noun! {
    /// Events of the identity service.
    IdentityEvent = "identity" {
        /// A domain was created.
        DomainCreated = "domain_created" @ 1,
        /// A domain has another name or description.
        DomainDescribed = "domain_described" @ 1,
        /// A domain was disabled (its users cannot log in) or enabled.
        DomainSwitched = "domain_switched" @ 1,
        /// A domain was deleted, after everything in it.
        DomainDeleted = "domain_deleted" @ 1,
        /// A project was created.
        ProjectCreated = "project_created" @ 1,
        /// A project has another name, description, tags or further attributes.
        ProjectDescribed = "project_described" @ 1,
        /// A project was disabled (its tokens are invalid) or enabled.
        ProjectSwitched = "project_switched" @ 1,
        /// A project was deleted, with all role assignments on it.
        ProjectDeleted = "project_deleted" @ 1,
        /// A user was created.
        UserCreated = "user_created" @ 1,
        /// A user has another name, default project or further attributes.
        UserDescribed = "user_described" @ 1,
        /// A user was disabled (their tokens are invalid) or enabled.
        UserSwitched = "user_switched" @ 1,
        /// A user has another password; earlier tokens are invalid.
        PasswordSet = "password_set" @ 1,
        /// A user was deleted, with all their role assignments.
        UserDeleted = "user_deleted" @ 1,
        /// A user's name and attributes up to now were erased.
        UserErased = "user_erased" @ 1,
        /// A role was created.
        RoleCreated = "role_created" @ 1,
        /// A role has another name or description.
        RoleDescribed = "role_described" @ 1,
        /// A role was deleted, with all its assignments.
        RoleDeleted = "role_deleted" @ 1,
        /// A role now implies another one.
        RoleImplied = "role_implied" @ 1,
        /// A role no longer implies another one.
        ImplicationRemoved = "implication_removed" @ 1,
        /// A user got a role on a project, a domain or the system.
        RoleGranted = "role_granted" @ 1,
        /// A user lost a role on a project, a domain or the system.
        RoleRevoked = "role_revoked" @ 1,
        /// A token was revoked before it expired.
        TokenRevoked = "token_revoked" @ 1,
        /// A user made an application credential, with which programs log in to one project.
        ApplicationCredentialCreated = "application_credential_created" @ 1,
        /// An application credential was deleted; its tokens are invalid.
        ApplicationCredentialDeleted = "application_credential_deleted" @ 1,
        /// A user made an access rule, which permits one kind of request to application credentials.
        AccessRuleCreated = "access_rule_created" @ 1,
        /// An access rule that no application credential had was deleted.
        AccessRuleDeleted = "access_rule_deleted" @ 1,
        /// A resource got a default limit, or another one.
        RegisteredLimitSet = "registered_limit_set" @ 1,
        /// The default limit of a resource was removed.
        RegisteredLimitRemoved = "registered_limit_removed" @ 1,
        /// A project or a domain got a limit of a resource, or another one.
        LimitSet = "limit_set" @ 1,
        /// The limit of a project or a domain was removed.
        LimitRemoved = "limit_removed" @ 1,
    }
}

/// One example of each event.
#[allow(clippy::too_many_lines)]
pub fn samples() -> Vec<IdentityEvent> {
    use crate::envelope::Timestamp;
    use crate::ids::{
        AccessRuleId, ApplicationCredentialId, DomainId, ErasureId, LimitId, ProjectId, RegisteredLimitId, RoleId,
        UserId,
    };

    let (domain, project) = (DomainId::new("default"), ProjectId::new("p1"));
    let (user, role, other) = (UserId::new("u1"), RoleId::new("r1"), RoleId::new("r2"));
    let grant = |scope| Grant { role: role.clone(), scope, inherited: false };
    vec![
        DomainCreated { domain: domain.clone(), name: "Default".into(), description: String::new(), enabled: true }
            .into(),
        DomainDescribed { domain: domain.clone(), name: "Main".into(), description: "ours".into() }.into(),
        DomainSwitched { domain: domain.clone(), enabled: false }.into(),
        DomainDeleted { domain: domain.clone() }.into(),
        ProjectCreated {
            project: project.clone(),
            domain: domain.clone(),
            parent: None,
            enabled: true,
            attributes: ProjectAttributes {
                name: "web".into(),
                description: "shop".into(),
                tags: vec!["prod".into()],
                extra: vec![("cost_center".into(), "12".into())],
            },
        }
        .into(),
        ProjectDescribed {
            project: project.clone(),
            attributes: ProjectAttributes {
                name: "web2".into(),
                description: String::new(),
                tags: vec![],
                extra: vec![],
            },
        }
        .into(),
        ProjectSwitched { project: project.clone(), enabled: true }.into(),
        ProjectDeleted { project: project.clone() }.into(),
        UserCreated {
            user: user.clone(),
            domain: domain.clone(),
            enabled: true,
            password: Some(PasswordHash("$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA".into())),
            attributes: UserAttributes {
                name: "alice".into(),
                default_project: Some(project.clone()),
                extra: vec![("email".into(), "\"a@example.org\"".into())],
            },
        }
        .into(),
        UserDescribed {
            user: user.clone(),
            attributes: UserAttributes { name: "bob".into(), default_project: None, extra: vec![] },
        }
        .into(),
        UserSwitched { user: user.clone(), enabled: false }.into(),
        PasswordSet { user: user.clone(), password: PasswordHash("$argon2id$...".into()) }.into(),
        UserDeleted { user: user.clone() }.into(),
        UserErased { user: user.clone(), erasure: ErasureId(uuid::Uuid::from_u128(9)) }.into(),
        RoleCreated { role: role.clone(), domain: Some(domain.clone()), name: "member".into(), description: None }
            .into(),
        RoleDescribed { role: role.clone(), name: "operator".into(), description: Some("runs it".into()) }.into(),
        RoleDeleted { role: role.clone() }.into(),
        RoleImplied { prior: role.clone(), implied: other.clone() }.into(),
        ImplicationRemoved { prior: role.clone(), implied: other }.into(),
        RoleGranted { user: user.clone(), grant: grant(IdentityScope::Project(project.clone())) }.into(),
        RoleGranted { user: user.clone(), grant: grant(IdentityScope::Domain(domain)) }.into(),
        RoleRevoked { user: user.clone(), grant: grant(IdentityScope::System) }.into(),
        TokenRevoked {
            user: user.clone(),
            audit_id: "AAECAwQFBgcICQoLDA0ODw".into(),
            expires_at: Timestamp(1_000_000),
        }
        .into(),
        ApplicationCredentialCreated {
            credential: ApplicationCredentialId::new("c1"),
            user: user.clone(),
            project,
            name: "backup".into(),
            description: Some("nightly".into()),
            secret: PasswordHash("$argon2id$...".into()),
            roles: vec![role],
            expires_at: Some(Timestamp(1_000_000)),
            unrestricted: false,
            access_rules: Some(vec![AccessRuleId::new("a1")]),
        }
        .into(),
        ApplicationCredentialDeleted { user: user.clone(), credential: ApplicationCredentialId::new("c1") }.into(),
        AccessRuleCreated {
            rule: AccessRuleId::new("a1"),
            user: user.clone(),
            service: "compute".into(),
            method: "GET".into(),
            path: "/v2.1/servers".into(),
        }
        .into(),
        AccessRuleDeleted { user, rule: AccessRuleId::new("a1") }.into(),
        RegisteredLimitSet {
            limit: RegisteredLimitId::new("rl1"),
            resource: LimitedResource { service: "s1".into(), region: None, name: "servers".into() },
            default: 10,
            description: Some("guests".into()),
        }
        .into(),
        RegisteredLimitRemoved { limit: RegisteredLimitId::new("rl1") }.into(),
        LimitSet {
            limit: LimitId::new("l1"),
            resource: LimitedResource { service: "s1".into(), region: Some("north".into()), name: "servers".into() },
            holder: LimitHolder::Project(ProjectId::new("p1")),
            amount: -1,
            description: None,
        }
        .into(),
        LimitRemoved { limit: LimitId::new("l1") }.into(),
    ]
}
