//! The Volume API's own policy on requests that users send through Compute.

use chronova_events::envelope::Cause;
use chronova_events::ids::{ProjectId, UserId};

use super::service::{EmbeddedVolumes, VolumeError};
use crate::ports::{EmbeddedPolicy, PortError, ServiceCaller, UserVolumeCall};

/// The policy rule that the Volume API checks for the same operation.
const fn rule_of(call: UserVolumeCall) -> &'static str {
    match call {
        UserVolumeCall::List => "volume:get_all",
        UserVolumeCall::Show(_) => "volume:get",
        UserVolumeCall::Create => "volume:create",
        UserVolumeCall::Delete(_) => "volume:delete",
        UserVolumeCall::ListSnapshots => "volume:get_all_snapshots",
        UserVolumeCall::ShowSnapshot(_) => "volume:get_snapshot",
        UserVolumeCall::CreateSnapshot(_) => "volume:create_snapshot",
        UserVolumeCall::DeleteSnapshot(_) => "volume:delete_snapshot",
    }
}

/// The user and the project of the caller. For an operation on a list, or a creation, the policy judges these.
fn own(caller: &ServiceCaller) -> (Option<ProjectId>, Option<UserId>) {
    let user = match &caller.meta.cause {
        Cause::User { user, .. } => Some(user.clone()),
        Cause::Process { .. } | Cause::System { .. } => None,
    };
    (caller.project.clone(), user)
}

impl EmbeddedVolumes {
    /// Refuses a call that the policy of the Volume API denies the user.
    pub(super) async fn check_right(&self, call: UserVolumeCall, caller: &ServiceCaller) -> Result<(), PortError> {
        let (project, user) = self.target(call, caller).await.map_err(VolumeError::port)?;
        let mut attributes: Vec<(&'static str, String)> = Vec::new();
        if let Some(project) = &project {
            attributes.extend(["project_id", "tenant_id"].map(|name| (name, project.to_string())));
        }
        attributes.extend(user.map(|user| ("user_id", user.to_string())));
        let rule = rule_of(call);
        match caller.may((EmbeddedPolicy::Volume, rule), project.as_ref(), &attributes) {
            true => Ok(()),
            false => Err(PortError::Forbidden(format!("Policy doesn't allow {rule} to be performed."))),
        }
    }

    /// The project and the user of the resource that the policy judges.
    async fn target(
        &self,
        call: UserVolumeCall,
        caller: &ServiceCaller,
    ) -> Result<(Option<ProjectId>, Option<UserId>), VolumeError> {
        match call {
            UserVolumeCall::List | UserVolumeCall::ListSnapshots | UserVolumeCall::Create => Ok(own(caller)),
            UserVolumeCall::Show(id) | UserVolumeCall::Delete(id) | UserVolumeCall::CreateSnapshot(id) => {
                let known = self.look(id).await?;
                Ok((Some(known.created.project.clone()), Some(known.created.user.clone())))
            }
            UserVolumeCall::ShowSnapshot(id) | UserVolumeCall::DeleteSnapshot(id) => {
                let known = self.views.volumes.read(|view| view.snapshot(id));
                let asked = known.ok_or_else(|| VolumeError::no_snapshot(id))?.requested;
                Ok((Some(asked.project), Some(asked.user)))
            }
        }
    }
}
