//! Refusals in Keystone's words.

use chronova_actors::aggregate::CommandError;
use chronova_actors::services::embedded::identity::passwords::PasswordError;
use chronova_actors::services::embedded::identity::{
    IdentityReject, IdentityResourceKind, MOST_ACCESS_RULES, MOST_CREDENTIALS,
};
use chronova_events::identity::IdentityScope;

use crate::fault::Fault;

pub(super) fn of_command(error: CommandError<IdentityReject>) -> Fault {
    match error {
        CommandError::Rejected(reject) => of(&reject),
        CommandError::Unavailable(source) => Fault::of_log(&source),
    }
}

pub(super) fn of(reject: &IdentityReject) -> Fault {
    match reject {
        IdentityReject::NotFound { kind, id } => not_found(*kind, id),
        IdentityReject::NameTaken { kind, name } => Fault::conflict(match kind {
            IdentityResourceKind::Project => format!(
                "Conflict occurred attempting to store project - it is not permitted to have two projects with the same \
                 name in the same domain : {name}."
            ),
            IdentityResourceKind::Domain => format!(
                "Conflict occurred attempting to store domain - it is not permitted to have two domains with the same \
                 name: {name}."
            ),
            IdentityResourceKind::User
            | IdentityResourceKind::Role
            | IdentityResourceKind::ApplicationCredential
            | IdentityResourceKind::AccessRule
            | IdentityResourceKind::RegisteredLimit
            | IdentityResourceKind::Limit => {
                format!("Conflict occurred attempting to store {kind} - Duplicate entry found with name {name}.")
            }
        }),
        IdentityReject::IdTaken { kind, id } => {
            Fault::conflict(format!("Conflict occurred attempting to store {kind} - Duplicate ID, {id}."))
        }
        IdentityReject::DomainEnabled(_) => {
            Fault::forbidden("Cannot delete a domain that is enabled, please disable it first.")
        }
        IdentityReject::DefaultDomain(_) => Fault::forbidden("Cannot delete the default domain."),
        IdentityReject::NotALeaf(project) => Fault::forbidden(format!(
            "Cannot delete the project {project} since it is not a leaf in the hierarchy. Use the cascade option if you \
             want to delete a whole subtree."
        )),
        IdentityReject::EnabledBelow(project) => {
            Fault::forbidden(format!("Cannot disable project {project} since its subtree contains enabled projects."))
        }
        IdentityReject::ParentDisabled(project) => {
            Fault::forbidden(format!("Project {project} is disabled: nothing below it can be enabled."))
        }
        IdentityReject::ParentElsewhere => {
            Fault::bad_request("Cannot create project, since the parent is in another domain.")
        }
        IdentityReject::RoleOfOtherDomain { role, domain } => Fault::forbidden(format!(
            "You are not authorized to perform the requested action: role {role} can only be assigned within domain \
             {domain}."
        )),
        IdentityReject::NeverImplied(role) => Fault::forbidden(format!("{role} cannot be an implied roles.")),
        IdentityReject::ImpliesRoleOfDomain { .. } => {
            Fault::forbidden("Global role cannot imply a domain-specific role.")
        }
        IdentityReject::NotImplied { prior, implied } => Fault::not_found(format!("{prior} does not imply {implied}.")),
        IdentityReject::NoGrant { user, role, scope } => no_grant(role, user, scope),
        IdentityReject::RoleNotHeld(_) => unassigned_role(),
        IdentityReject::TooManyCredentials => Fault::forbidden(format!(
            "Unable to create additional application credentials, maximum of {MOST_CREDENTIALS} already exceeded for user."
        )),
        IdentityReject::TooManyAccessRules => {
            Fault::forbidden(format!("A user cannot have more than {MOST_ACCESS_RULES} access rules."))
        }
        IdentityReject::NotRegistered(_) => {
            Fault::forbidden("Unable to create a limit that has no corresponding registered limit.")
        }
        IdentityReject::RegisteredLimitInUse(limit) => Fault::forbidden(format!(
            "Unable to update or delete registered limit {limit} because there are project limits associated with it."
        )),
        IdentityReject::AccessRuleInUse(rule) => Fault::forbidden(format!(
            "You are not authorized to perform the requested action: access rule {rule} is in use by an application \
             credential."
        )),
    }
}

pub(super) fn unassigned_role() -> Fault {
    Fault::bad_request("Invalid application credential: Cannot create an application credential with unassigned role")
}

pub(super) fn not_found(kind: IdentityResourceKind, id: &str) -> Fault {
    Fault::not_found(format!("Could not find {kind}: {id}."))
}

pub(super) fn no_grant(role: impl std::fmt::Display, user: impl std::fmt::Display, scope: &IdentityScope) -> Fault {
    let place = match scope {
        IdentityScope::Project(project) => project.as_str(),
        IdentityScope::Domain(domain) => domain.as_str(),
        IdentityScope::System => "system",
    };
    Fault::not_found(format!(
        "Could not find role assignment with role: {role}, user or group: {user}, project, domain, or system: {place}."
    ))
}

pub(super) fn of_password(error: PasswordError) -> Fault {
    match error {
        PasswordError::TooLong => Fault::bad_request("The password is too long."),
        PasswordError::Busy => Fault::unavailable("Too many passwords are being checked at the moment. Try again.")
            .header("Retry-After", "1"),
        other @ (PasswordError::Random(_) | PasswordError::Hash(_)) => Fault::internal(other),
    }
}
