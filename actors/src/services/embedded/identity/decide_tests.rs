#![allow(clippy::unwrap_used, clippy::expect_used)]
use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::identity::{ApplicationCredentialCreated, PasswordHash, UserAccessRule};

use super::super::{AskedAccessRule, MOST_ACCESS_RULES, MOST_CREDENTIALS};
use super::*;

fn hash(text: &str) -> PasswordHash {
    PasswordHash(text.to_owned())
}

fn seed() -> IdentitySeed {
    IdentitySeed {
        admin: "u-admin".into(),
        admin_password: hash("h"),
        admin_project: "p-admin".into(),
        service_project: "p-service".into(),
        roles: ["r-admin", "r-manager", "r-member", "r-reader", "r-service"].map(RoleId::new),
    }
}

fn fold(state: &mut Identity, events: &[IdentityEvent]) {
    for event in events {
        state.evolve(event, Timestamp(7));
    }
}

/// The state of a bootstrapped cloud after `commands`.
fn given(commands: impl IntoIterator<Item = IdentityCommand>) -> Identity {
    let mut state = Identity::default();
    for command in [IdentityCommand::Bootstrap(Box::new(seed()))].into_iter().chain(commands) {
        let events = decide(&state, command).expect("given");
        fold(&mut state, &events);
    }
    state
}

fn domain(id: &str, enabled: bool) -> IdentityCommand {
    IdentityCommand::CreateDomain(DomainCreated {
        domain: id.into(),
        name: id.to_owned(),
        description: String::new(),
        enabled,
    })
}

fn project(id: &str, domain: &str, parent: Option<&str>) -> IdentityCommand {
    IdentityCommand::CreateProject(ProjectCreated {
        project: id.into(),
        domain: domain.into(),
        parent: parent.map(ProjectId::new),
        enabled: true,
        attributes: ProjectAttributes { name: id.to_owned(), ..ProjectAttributes::default() },
    })
}

fn user(id: &str, domain: &str) -> IdentityCommand {
    IdentityCommand::CreateUser(UserCreated {
        user: id.into(),
        domain: domain.into(),
        enabled: true,
        password: Some(hash(id)),
        attributes: UserAttributes { name: id.to_owned(), ..UserAttributes::default() },
    })
}

fn grant(user: &str, role: &str, scope: IdentityScope, inherited: bool) -> IdentityCommand {
    IdentityCommand::Grant { user: user.into(), grant: Grant { scope, role: role.into(), inherited } }
}

fn refused(state: &Identity, command: IdentityCommand) -> IdentityReject {
    decide(state, command).expect_err("refused")
}

#[test]
fn bootstrap_runs_once_and_creates_the_administrator() {
    let state = given([]);
    assert_eq!(decide(&state, IdentityCommand::Bootstrap(Box::new(seed()))), Ok(vec![]));
    let admin = state.user_named(&"default".into(), "admin").unwrap();
    let project = state.project_named(&"default".into(), "admin").unwrap();
    let roles = state.roles_on(&admin.id, &IdentityScope::Project(project.id.clone()));
    let names: Vec<_> = roles.iter().map(|role| state.roles[role].name.as_str()).collect();
    assert_eq!(names, ["admin", "manager", "member", "reader"]);
    assert_eq!(state.roles_on(&admin.id, &IdentityScope::System).len(), 4);
    assert!(state.roles_on(&admin.id, &IdentityScope::Domain("default".into())).is_empty());
}

#[test]
fn names_are_unique_within_a_domain() {
    let state = given([domain("d", true), project("web", "default", None), user("alice", "default")]);
    let rename =
        |from: ProjectCreated| IdentityCommand::CreateProject(ProjectCreated { project: "other".into(), ..from });
    let IdentityCommand::CreateProject(again) = project("web", "default", None) else { unreachable!() };
    assert_eq!(
        refused(&state, rename(again.clone())),
        IdentityReject::NameTaken { kind: IdentityResourceKind::Project, name: "web".into() }
    );
    assert!(decide(&state, rename(ProjectCreated { domain: "d".into(), ..again })).is_ok());
    assert!(matches!(refused(&state, user("alice", "default")), IdentityReject::IdTaken { .. }));
    assert!(matches!(
        refused(&state, user("x", "nowhere")),
        IdentityReject::NotFound { kind: IdentityResourceKind::Domain, .. }
    ));
}

#[test]
fn a_freed_name_can_be_used_again() {
    let change = UserChange { name: Some("bob".into()), ..UserChange::default() };
    let state = given([user("alice", "default"), IdentityCommand::ChangeUser { user: "alice".into(), change }]);
    assert!(state.user_named(&"default".into(), "alice").is_none());
    assert_eq!(state.user_named(&"default".into(), "bob").unwrap().id, "alice".into());
    let IdentityCommand::CreateUser(created) = user("alice", "default") else { unreachable!() };
    assert!(decide(&state, IdentityCommand::CreateUser(UserCreated { user: "a2".into(), ..created })).is_ok());
}

#[test]
fn only_a_disabled_domain_is_deleted_with_all_in_it() {
    let mut state = given([domain("d", true), project("p", "d", None), project("q", "d", Some("p")), user("u", "d")]);
    assert_eq!(refused(&state, IdentityCommand::DeleteDomain("d".into())), IdentityReject::DomainEnabled("d".into()));
    fold(&mut state, &[DomainSwitched { domain: "d".into(), enabled: false }.into()]);
    let events = decide(&state, IdentityCommand::DeleteDomain("d".into())).unwrap();
    assert_eq!(
        events,
        [
            UserDeleted { user: "u".into() }.into(),
            ProjectDeleted { project: "q".into() }.into(),
            ProjectDeleted { project: "p".into() }.into(),
            IdentityEvent::from(DomainDeleted { domain: "d".into() }),
        ]
    );
    fold(&mut state, &events);
    assert_eq!(state, given([]));
    assert!(matches!(
        refused(&state, IdentityCommand::DeleteDomain("default".into())),
        IdentityReject::DefaultDomain(_)
    ));
}

#[test]
fn a_project_with_children_cannot_be_deleted() {
    let state = given([project("p", "default", None), project("q", "default", Some("p"))]);
    assert_eq!(refused(&state, IdentityCommand::DeleteProject("p".into())), IdentityReject::NotALeaf("p".into()));
    let off = ProjectChange { enabled: Some(false), ..ProjectChange::default() };
    assert_eq!(
        refused(&state, IdentityCommand::ChangeProject { project: "p".into(), change: off }),
        IdentityReject::EnabledBelow("p".into())
    );
    assert!(decide(&state, IdentityCommand::DeleteProject("q".into())).is_ok());
}

#[test]
fn grants_are_idempotent_inherited_and_end_with_their_project() {
    let on = |id: &str| IdentityScope::Project(id.into());
    let mut state = given([
        project("p", "default", None),
        project("q", "default", Some("p")),
        user("u", "default"),
        grant("u", "r-member", on("p"), true),
        grant("u", "r-reader", on("p"), false),
    ]);
    assert_eq!(decide(&state, grant("u", "r-reader", on("p"), false)), Ok(vec![]));
    assert_eq!(state.roles_on(&"u".into(), &on("p")).len(), 1);
    assert_eq!(state.roles_on(&"u".into(), &on("q")).len(), 2, "member is inherited and implies reader");
    assert!(matches!(
        refused(&state, grant("u", "nope", on("p"), false)),
        IdentityReject::NotFound { kind: IdentityResourceKind::Role, .. }
    ));
    let gone = Grant { scope: on("q"), role: "r-member".into(), inherited: false };
    assert!(matches!(
        refused(&state, IdentityCommand::Revoke { user: "u".into(), grant: gone }),
        IdentityReject::NoGrant { .. }
    ));
    fold(&mut state, &[ProjectDeleted { project: "q".into() }.into(), ProjectDeleted { project: "p".into() }.into()]);
    assert!(!state.grants.contains_key(&UserId::new("u")));
}

#[test]
fn a_new_password_or_disabling_revokes_earlier_tokens() {
    let mut state = given([user("u", "default")]);
    let change = UserChange { password: Some(hash("new")), ..UserChange::default() };
    let events = decide(&state, IdentityCommand::ChangeUser { user: "u".into(), change }).unwrap();
    state.evolve(&events[0], Timestamp(99));
    assert_eq!(state.users[&UserId::new("u")].tokens_from, Timestamp(99));
}

#[test]
fn revoked_tokens_are_forgotten_when_they_would_have_expired() {
    let revoke = |id: &str, expires_at| IdentityCommand::RevokeToken {
        user: "u".into(),
        audit_id: id.to_owned(),
        expires_at: Timestamp(expires_at),
    };
    let mut state = given([revoke("a", 50)]);
    assert_eq!(decide(&state, revoke("a", 50)), Ok(vec![]));
    let events = decide(&state, revoke("b", 500)).unwrap();
    state.evolve(&events[0], Timestamp(60));
    assert_eq!(state.revoked.keys().collect::<Vec<_>>(), ["b"]);
}

/// Each second, a token with a lifetime of one hour is revoked. The list stays near the number of tokens that would
/// still be valid, and one revocation examines only a few entries.
#[test]
fn a_revocation_forgets_a_few_expired_tokens_and_enough_in_the_long_run() {
    let mut state = given([]);
    let revoke = |state: &mut Identity, number: u64, at: u64| {
        // The ids look random, as audit ids do, but are the same in each run.
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let audit_id = format!("{:016x}", mixed ^ (mixed >> 31));
        let expires_at = Timestamp(i64::try_from(at + 3_600).unwrap());
        let command = IdentityCommand::RevokeToken { user: "u".into(), audit_id, expires_at };
        let events = decide(state, command).unwrap();
        state.evolve(&events[0], Timestamp(i64::try_from(at).unwrap()));
    };
    for number in 0..20_000 {
        revoke(&mut state, number, number);
        assert!(state.revoked.len() <= 5_400, "{} are kept after {number}", state.revoked.len());
        if number % 100 != 0 {
            continue;
        }
        let counts = state.revoked.values().filter(|until| until.0 > i64::try_from(number).unwrap()).count();
        assert_eq!(
            u64::try_from(counts).unwrap(),
            (number + 1).min(3_600),
            "no revocation of a valid token is forgotten"
        );
    }
    let before = state.revoked.len();
    revoke(&mut state, 20_000, 1_000_000);
    assert!(before + 1 - state.revoked.len() <= 8, "one revocation examines few entries");
}

#[test]
fn attributes_merge_and_null_removes() {
    let extra = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<ExtraAttributes>()
    };
    let merged = merged(&extra(&[("a", "1"), ("b", "2")]), extra(&[("b", "null"), ("c", "\"x\"")]));
    assert_eq!(merged, extra(&[("a", "1"), ("c", "\"x\"")]));
}

#[test]
fn an_implication_gives_a_role_until_it_ends_and_never_the_administrators() {
    let imply =
        |prior: &str, implied: &str| IdentityCommand::ImplyRole { prior: prior.into(), implied: implied.into() };
    let end =
        |prior: &str, implied: &str| IdentityCommand::EndImplication { prior: prior.into(), implied: implied.into() };
    let role = |id: &str, domain: Option<&str>| {
        IdentityCommand::CreateRole(RoleCreated {
            role: id.into(),
            domain: domain.map(DomainId::new),
            name: id.to_owned(),
            description: None,
        })
    };
    let on = IdentityScope::Project("p".into());
    let mut state = given([
        project("p", "default", None),
        user("u", "default"),
        role("r-auditor", None),
        role("r-local", Some("default")),
        grant("u", "r-auditor", on.clone(), false),
        imply("r-auditor", "r-member"),
    ]);
    assert_eq!(state.roles_on(&"u".into(), &on).len(), 3, "auditor implies member, which implies reader");
    assert_eq!(decide(&state, imply("r-auditor", "r-member")), Ok(vec![]));
    assert_eq!(refused(&state, imply("r-auditor", "r-admin")), IdentityReject::NeverImplied("r-admin".into()));
    let local = IdentityReject::ImpliesRoleOfDomain { prior: "r-auditor".into(), implied: "r-local".into() };
    assert_eq!(refused(&state, imply("r-auditor", "r-local")), local);
    assert!(decide(&state, imply("r-local", "r-reader")).is_ok());
    for unknown in [imply("nope", "r-reader"), imply("r-auditor", "nope")] {
        assert!(matches!(refused(&state, unknown), IdentityReject::NotFound { .. }));
    }
    let events = decide(&state, end("r-auditor", "r-member")).unwrap();
    fold(&mut state, &events);
    assert_eq!(state.roles_on(&"u".into(), &on).len(), 1);
    assert!(matches!(refused(&state, end("r-auditor", "r-member")), IdentityReject::NotImplied { .. }));
}

fn credential(id: &str, user: &str, roles: &[&str], rules: Option<&[(&str, &str)]>) -> IdentityCommand {
    let worded = |(id, path): &(&str, &str)| {
        let (service, method) = ("compute".to_owned(), "GET".to_owned());
        AskedAccessRule::Worded(UserAccessRule { id: (*id).into(), service, method, path: (*path).to_owned() })
    };
    IdentityCommand::CreateApplicationCredential {
        created: Box::new(ApplicationCredentialCreated {
            credential: id.into(),
            user: user.into(),
            project: "web".into(),
            name: format!("name of {id}"),
            description: None,
            secret: hash("s"),
            roles: roles.iter().map(|role| RoleId::new(*role)).collect(),
            expires_at: None,
            unrestricted: false,
            access_rules: None,
        }),
        rules: rules.map(|rules| rules.iter().map(worded).collect()),
    }
}

fn delete_credential(user: &str, id: &str) -> IdentityCommand {
    IdentityCommand::DeleteApplicationCredential { user: user.into(), credential: id.into() }
}

/// Two users with the role `member` on project `web`.
fn people() -> Vec<IdentityCommand> {
    let web = || IdentityScope::Project("web".into());
    let mut given = vec![project("web", "default", None)];
    for name in ["alice", "bob"] {
        given.extend([user(name, "default"), grant(name, "r-member", web(), false)]);
    }
    given
}

#[test]
fn a_credential_has_roles_that_its_user_holds_and_a_name_of_its_own() {
    let state = given(people().into_iter().chain([credential("c", "alice", &["r-member"], None)]));
    assert_eq!(
        refused(&state, credential("d", "alice", &["r-admin"], None)),
        IdentityReject::RoleNotHeld("r-admin".into())
    );
    let unknown = credential("d", "alice", &["r-none"], None);
    assert!(matches!(refused(&state, unknown), IdentityReject::NotFound { kind: IdentityResourceKind::Role, .. }));
    let again = credential("c", "bob", &["r-member"], None);
    assert!(matches!(refused(&state, again), IdentityReject::IdTaken { .. }), "another user's id was taken over");
    // An implied role is held, too. Roles are sorted, and each is there once.
    let events = decide(&state, credential("d", "bob", &["r-reader", "r-member", "r-reader"], None)).unwrap();
    let [IdentityEvent::ApplicationCredentialCreated(created)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(created.roles, ["r-member", "r-reader"].map(RoleId::new));
    let mut state = given(people());
    for number in 0..MOST_CREDENTIALS {
        let events = decide(&state, credential(&number.to_string(), "alice", &["r-member"], None)).unwrap();
        fold(&mut state, &events);
    }
    assert_eq!(refused(&state, credential("more", "alice", &["r-member"], None)), IdentityReject::TooManyCredentials);
    decide(&state, credential("more", "bob", &["r-member"], None)).expect("the limit is each user's");
}

#[test]
fn equal_access_rules_of_a_user_are_one_rule() {
    let first = credential("c", "alice", &["r-member"], Some(&[("a", "/x"), ("b", "/x"), ("d", "/y")]));
    let state = given(people().into_iter().chain([first]));
    let kept: Vec<&str> = state.access_rules_of(&"alice".into()).map(|rule| rule.id.as_str()).collect();
    assert_eq!(kept, ["a", "d"]);
    let in_use = |user: &str, rule: &str| IdentityCommand::DeleteAccessRule { user: user.into(), rule: rule.into() };
    assert_eq!(refused(&state, in_use("alice", "a")), IdentityReject::AccessRuleInUse("a".into()));
    assert!(matches!(refused(&state, in_use("bob", "a")), IdentityReject::NotFound { .. }));
    assert!(matches!(refused(&state, delete_credential("bob", "c")), IdentityReject::NotFound { .. }));
    let other = credential("e", "bob", &["r-member"], Some(&[("f", "/x")]));
    let events = decide(&state, other).unwrap();
    assert_eq!(events.len(), 2, "users do not share rules: {events:?}");
    let paths: Vec<String> = (0..=MOST_ACCESS_RULES).map(|number| format!("/{number}")).collect();
    let many: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), path.as_str())).collect();
    let many = credential("g", "bob", &["r-member"], Some(&many));
    assert_eq!(refused(&state, many), IdentityReject::TooManyAccessRules);
}

#[test]
fn a_credential_ends_with_what_it_passes_on() {
    let scope = || IdentityScope::Project("web".into());
    let revoke = |role: &str, scope: IdentityScope, inherited: bool| IdentityCommand::Revoke {
        user: "alice".into(),
        grant: Grant { scope, role: role.into(), inherited },
    };
    let switch = |enabled: bool| {
        let change = UserChange { enabled: Some(enabled), ..UserChange::default() };
        IdentityCommand::ChangeUser { user: "alice".into(), change }
    };
    let password = UserChange { password: Some(hash("new")), ..UserChange::default() };
    let inherited = grant("alice", "r-service", IdentityScope::Domain("default".into()), true);
    let before = people().into_iter().chain([
        inherited,
        grant("alice", "r-reader", scope(), false),
        credential("c", "alice", &["r-member", "r-service"], Some(&[("a", "/x")])),
        credential("narrow", "alice", &["r-member"], None),
        credential("c2", "bob", &["r-member"], None),
    ]);
    let state = given(before);
    for (command, left) in [
        (delete_credential("alice", "c"), vec!["narrow"]),
        (IdentityCommand::DeleteUser("alice".into()), vec![]),
        (switch(false), vec![]),
        (IdentityCommand::DeleteRole("r-service".into()), vec!["narrow"]),
        (IdentityCommand::DeleteRole("r-reader".into()), vec!["c", "narrow"]),
        (revoke("r-reader", scope(), false), vec![]),
        (revoke("r-service", IdentityScope::Domain("default".into()), true), vec!["narrow"]),
        (IdentityCommand::ChangeUser { user: "alice".into(), change: password }, vec!["c", "narrow"]),
    ] {
        let (mut after, shown) = (state.clone(), format!("{command:?}"));
        let events = decide(&state, command).unwrap();
        fold(&mut after, &events);
        let there: Vec<&str> = after.credentials_of(&"alice".into()).map(|one| one.id.as_str()).collect();
        assert_eq!(there, left, "{shown}");
        assert!(after.credential(&"bob".into(), &"c2".into()).is_some(), "{shown}: another user's credential ended");
    }
    let mut after = state.clone();
    fold(&mut after, &decide(&state, IdentityCommand::DeleteProject("web".into())).unwrap());
    assert_eq!(after.credentials_of(&"alice".into()).count() + after.credentials_of(&"bob".into()).count(), 0);
    // A deleted user leaves no rules. An erased user leaves no names of credentials and no paths of rules.
    let mut after = state.clone();
    fold(&mut after, &decide(&state, IdentityCommand::DeleteUser("alice".into())).unwrap());
    assert_eq!(after.access_rules_of(&"alice".into()).count(), 0);
    let erasure = chronova_events::ids::ErasureId::random();
    let mut after = state.clone();
    fold(&mut after, &decide(&state, IdentityCommand::EraseUser { user: "alice".into(), erasure }).unwrap());
    assert!(after.credentials_of(&"alice".into()).all(|one| !one.name.contains("name of")));
    assert!(after.access_rules_of(&"alice".into()).all(|rule| rule.path != "/x"));
}
